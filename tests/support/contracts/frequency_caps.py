"""The tests that every store of places must pass, in memory and real."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from masscomm.stores.frequency_caps.port import Change, FrequencyCaps, PlacesKey, StoredPlaces

NOW = 1_700_000_000_000
KEY = PlacesKey(7, 1, "86400000#*#category:news")
OTHER_CAP, OTHER_CLUB = KEY._replace(cap="day#push#group:all"), KEY._replace(club_id=8)
EMPTY = StoredPlaces()


def change(key: PlacesKey = KEY, before: StoredPlaces = EMPTY, **taken: int) -> Change:
    return Change(key, before, taken, kept_s=100)


class FrequencyCapsContract:
    """Subclasses define the fixture `caps`, an empty store."""

    def test_places_are_read_again(self, caps: FrequencyCaps) -> None:
        assert caps.read([KEY, OTHER_CAP]) == {}
        assert caps.write([[change(a=NOW)]], NOW) == [True]
        assert caps.read([KEY, OTHER_CAP, OTHER_CLUB]) == {KEY: StoredPlaces({"a": NOW}, 1)}
        assert caps.write([[change(before=StoredPlaces({"a": NOW}, 1))]], NOW) == [True]
        assert caps.read([KEY]) == {KEY: StoredPlaces({}, 2)}

    @pytest.mark.kills(guard="frequency_caps.changed_meanwhile")
    def test_places_that_changed_meanwhile_are_kept(self, caps: FrequencyCaps) -> None:
        assert caps.write([[change(a=NOW)]], NOW) == [True]
        assert caps.write([[change(b=NOW)]], NOW) == [False]
        gone = change(OTHER_CAP, StoredPlaces({"a": NOW}, 3), b=NOW)
        assert caps.write([[gone]], NOW) == [False]
        assert caps.read([KEY, OTHER_CAP]) == {KEY: StoredPlaces({"a": NOW}, 1)}

    def test_places_of_one_user_are_written_together(self, caps: FrequencyCaps) -> None:
        assert caps.write([[change(a=NOW)]], NOW) == [True]
        assert caps.write([[change(OTHER_CAP, b=NOW), change(b=NOW)]], NOW) == [False]
        assert caps.read([OTHER_CAP]) == {}

    def test_one_changed_user_stops_no_other(self, caps: FrequencyCaps) -> None:
        """More users than one transaction has, some with two caps."""
        keys = [PlacesKey(7, user_id, KEY.cap) for user_id in range(250)]
        assert caps.write([[change(keys[number], a=NOW)] for number in (3, 130)], NOW) == [True, True]
        changes = [
            [change(key, b=NOW), *([change(key._replace(cap=OTHER_CAP.cap), b=NOW)] if key.user_id % 2 else [])]
            for key in keys
        ]
        written = caps.write(changes, NOW)
        assert [number for number, is_written in enumerate(written) if not is_written] == [3, 130]
        found = caps.read(keys)
        assert {found[key].taken.keys() == {"b"} for key in keys if key.user_id not in (3, 130)} == {True}
        assert caps.read([keys[3]._replace(cap=OTHER_CAP.cap)]) == {}

    def test_concurrent_writers_take_one_place(self, caps: FrequencyCaps) -> None:
        ready = threading.Barrier(4)

        def write(number: int) -> bool:
            ready.wait(10)
            return caps.write([[Change(KEY, EMPTY, {f"s{number}": NOW}, 100)]], NOW) == [True]

        with ThreadPoolExecutor(4) as pool:
            assert sum(pool.map(write, range(4))) == 1
        assert len(caps.read([KEY])[KEY].taken) == 1
