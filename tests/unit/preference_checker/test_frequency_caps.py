"""Frequency caps: the preference checker counts notifications on the pass that lets them through, and refuses those
above the limit. The first decision is recorded and stays.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from functions.sends_api.routes.words import decided_by
from masscomm.domain import categories
from masscomm.domain.frequency_caps import Cap
from masscomm.domain.lanes import Lane
from masscomm.domain.sends import SendControl, SendKey
from masscomm.domain.time_limits import CAPS_COUNTED_S
from masscomm.domain.users import User, UserSettings
from masscomm.errors import Retry
from masscomm.kafka import topics
from masscomm.stores.categories.in_memory import InMemoryCategories
from masscomm.stores.categories.known import known_categories
from masscomm.stores.frequency_caps.in_memory import InMemoryFrequencyCaps
from masscomm.stores.frequency_caps.port import Change, PlacesKey, StoredPlaces
from tests.support.categories import put_version
from tests.support.fakes.crashes import Fuse, KilledError
from tests.support.harness.chain import NOW, ends, results_of, send
from tests.support.harness.preference_checker import Checker

HOUR_S = 3_600
REFUSED = ("suppressed", "frequency_cap")
SENDS = [f"{number:08}-0000-4000-8000-000000000000" for number in range(8)]
NEWS_KEY = "86400000#*#category:news"


@pytest.fixture
def checker(stored_categories: InMemoryCategories) -> Checker:
    """A checker, and the category news of which a user gets two in 24 hours."""
    put_caps(stored_categories, {"limit": 2, "window": "24h"})
    return Checker()


def put_caps(store: InMemoryCategories, *caps: Mapping[str, Any], name: str = "news", **fields: Any) -> None:
    put_version(store, name, {"channels": ["push"], "caps": list(caps)} | fields, NOW - HOUR_S * 1000)
    known_categories().read()


def check(checker: Checker, number: int, users: Sequence[int] = (1, 2), **values: Any) -> list[int]:
    topic = values.pop("topic", topics.SEND_MONOLITH)
    values = {"timestamp": checker.clock.now_ms()} | values
    return checker.check(send(users, send_id=SENDS[number], **values), topic=topic)


def let_through(checker: Checker) -> list[tuple[str, int, str]]:
    """Return (send, user, channel) of the notifications in distinct build records."""
    builds = {build.record_id: build for build in checker.builds()}.values()
    return sorted((build.send_id, user, build.channel) for build in builds for user in build.user_ids)


def places(checker: Checker, user_id: int = 1, key: str = NEWS_KEY) -> set[str]:
    stored = checker.frequency_caps.read([PlacesKey(7, user_id, key)])
    return {entry.partition("#")[0] for each in stored.values() for entry in each.taken}


def give_back(checker: Checker, user_id: int = 1) -> None:
    key = PlacesKey(7, user_id, NEWS_KEY)
    before = checker.frequency_caps.read([key])[key]
    assert checker.frequency_caps.write([[Change(key, before, {}, 1)]], NOW) == [True]


def test_refusal_has_the_cap_in_words(checker: Checker) -> None:
    for number in range(3):
        assert check(checker, number) == []
    assert let_through(checker) == [(SENDS[number], user, "push") for number in (0, 1) for user in (1, 2)]
    [refused] = checker.outcomes()
    assert results_of([refused]) == {(1, "push"): REFUSED, (2, "push"): REFUSED}
    [result] = refused.results
    assert (result.layer, result.rule) == ("category", "at most 2 in 24h of category:news on all channels")
    # It is no setting of the user.
    decided = decided_by({"layer": result.layer, "rule": result.rule})
    assert decided is not None
    assert (decided["rule"], decided["category"], decided["channel"]) == (result.rule, None, None)


@pytest.mark.kills(guard="frequency_caps.recorded")
@pytest.mark.parametrize("users", [(1,), (1, 2)])
def test_recorded_refusal_stays_when_a_place_is_free(checker: Checker, users: Sequence[int]) -> None:
    for number in range(3):
        check(checker, number, users, timestamp=NOW)
    before = let_through(checker)
    checker.clock.advance(25 * HOUR_S)
    assert check(checker, 2, users, timestamp=NOW) == []
    assert let_through(checker) == before
    assert set(ends(checker.outcomes())) == {(position, "push") for position in range(len(users))}
    assert SENDS[2] not in places(checker)


@pytest.mark.parametrize("users", [(1,), (1, 2)])
def test_repetition_takes_no_place_that_was_given_back(checker: Checker, users: Sequence[int]) -> None:
    check(checker, 0, users, timestamp=NOW)
    before = let_through(checker)
    give_back(checker)
    assert check(checker, 0, users, timestamp=NOW) == []
    assert (let_through(checker), places(checker)) == (before, set())


def test_single_recipient_that_was_let_through_does_not_expire(checker: Checker) -> None:
    """Its build record is on its way: an outcome would give its place back."""
    check(checker, 0, [1], timestamp=NOW, expires_at=NOW + 1_000)
    checker.clock.advance(2)
    assert check(checker, 0, [1], timestamp=NOW, expires_at=NOW + 1_000) == []
    assert (len(let_through(checker)), checker.outcomes()) == (1, [])


@pytest.mark.kills(guard="frequency_caps.held_recipient")
@pytest.mark.parametrize("users", [[1], [1, 2]])
def test_held_recipient_is_counted_when_it_is_released(checker: Checker, users: list[int]) -> None:
    night = {"start": "22:00", "end": "07:00"}  # NOW is at 22:13 UTC.
    for user_id in users:
        checker.directory.put(
            User(user_id=user_id, club_id=7, time_zone="UTC"), UserSettings(user_id=user_id, quiet_hours=night)
        )
    for number in range(3):
        assert check(checker, number, users, timestamp=NOW) == []
    assert (let_through(checker), places(checker)) == ([], set())
    morning = round(datetime(2023, 11, 15, 7, tzinfo=UTC).timestamp() * 1000)
    assert checker.release_at(morning) == []
    assert len(let_through(checker)) == 2 * len(users)
    refused = [who for outcome in checker.outcomes() for who, end in results_of([outcome]).items() if end == REFUSED]
    assert sorted(refused) == [(user_id, "push") for user_id in users]


@pytest.mark.kills(guard="frequency_caps.critical")
def test_critical_sends_are_neither_counted_nor_refused(checker: Checker) -> None:
    for number in range(3):
        check(checker, number, [1], topic=topics.in_lane(topics.SEND_MONOLITH, Lane.CRITICAL))
    assert (len(let_through(checker)), places(checker)) == (3, set())


@pytest.mark.kills(guard="frequency_caps.mandatory")
def test_mandatory_sends_are_neither_counted_nor_refused(
    checker: Checker, stored_categories: InMemoryCategories, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the caps are those of the default category."""
    table = categories.category_table()
    default = replace(table.categories["default"], caps=(Cap(limit=1, window="day"),))
    changed = replace(table, categories={**table.categories, "default": default})
    monkeypatch.setattr(categories, "category_table", lambda: changed)
    for number in range(2):
        check(checker, number, [1], type="security_alert", channels=["push"])
        check(checker, 4 + number, [1], type="announcement")
    assert [name for name, _, _ in let_through(checker)] == [SENDS[0], SENDS[1], SENDS[4]]


@pytest.mark.kills(guard="frequency_caps.cancelled")
def test_cancelled_send_takes_no_place(checker: Checker) -> None:
    """A single recipient goes on to delivery, which ends it."""
    checker.register.control(SendControl(send=SendKey(7, SENDS[0]), cancelled_at_ms=NOW))
    assert check(checker, 0, [1]) == []
    assert (len(let_through(checker)), places(checker)) == (1, set())


@pytest.mark.guarantee("frequency_caps.store_down")
@pytest.mark.parametrize("users", [(1,), (1, 2)])
def test_nothing_is_let_through_while_the_store_is_down(checker: Checker, users: Sequence[int]) -> None:
    checker.frequency_caps.failing = Retry("no answer")
    assert check(checker, 0, users, timestamp=NOW) == [0]
    assert checker.check(send(users, send_id=SENDS[1], type="announcement")) == []
    assert [name for name, _, _ in let_through(checker)] == [SENDS[1]] * len(users)
    checker.frequency_caps.failing = None
    assert check(checker, 0, users, timestamp=NOW) == []
    assert len(let_through(checker)) == 2 * len(users)


class Fused(InMemoryFrequencyCaps):
    """A store in which the process may be killed after a write."""

    def __init__(self, fuse: Fuse) -> None:
        super().__init__()
        self.fuse = fuse

    def write(self, changes: Sequence[Sequence[Change]], now_ms: int) -> list[bool]:
        written = super().write(changes, now_ms)
        self.fuse.step()
        return written


@pytest.mark.guarantee("frequency_caps.exact")
@pytest.mark.parametrize("users", [(1,), (1, 2)])
def test_kill_after_places_were_taken_counts_once(checker: Checker, users: Sequence[int]) -> None:
    fuse = Fuse()
    checker.frequency_caps = Fused(fuse)
    checker.use_case = checker.environment(checker.directory)
    check(checker, 0, users)
    fuse.left = 1
    with pytest.raises(KilledError):
        check(checker, 1, users, timestamp=NOW)
    assert check(checker, 1, users, timestamp=NOW) == []
    assert check(checker, 2, users) == []
    assert {name for name, _, _ in let_through(checker)} == {SENDS[0], SENDS[1]}
    assert set(results_of(checker.outcomes()).values()) == {REFUSED}


class Slow(InMemoryFrequencyCaps):
    """A store of which each read takes half of the time."""

    def __init__(self, checker: Checker) -> None:
        super().__init__()
        self.checker = checker

    def read(self, keys: Iterable[PlacesKey]) -> Mapping[PlacesKey, StoredPlaces]:
        self.checker.clock.advance(CAPS_COUNTED_S / 2)
        return super().read(keys)


@pytest.mark.guarantee("frequency_caps.out_of_time")
def test_recipients_without_time_get_a_record_of_their_own(checker: Checker) -> None:
    users = list(range(1, 2_001))
    checker.put_users(users)
    # Of the first 100, the notification on push ends, and e-mail goes on alone.
    for user_id in users[1_400:1_500]:
        checker.directory.put(UserSettings(user_id=user_id, channels={"push": False}))
    checker.frequency_caps = Slow(checker)
    checker.use_case = checker.environment(checker.directory)
    chunk = send(users, send_id=SENDS[0], channels=["push", "email"])
    requests: list[Any] = [checker.encoded(chunk, topics.SEND_MONOLITH)]
    seen = 0
    for _ in range(10):
        # Kafka delivers each record twice.
        for _ in range(2):
            assert checker.run(checker.use_case, *requests) == []
        found = list({each.record_id: each for each in checker.rechecks()}.values())
        new, seen = found[seen:], len(found)
        if not new:
            break
        requests = [checker.encoded(each, topics.RECHECK, offset=place) for place, each in enumerate(new)]
    else:
        raise AssertionError("records are passed on for ever")
    builds = {build.record_id: build for build in checker.builds()}.values()
    through = [(user, build.channel) for build in builds for user in build.user_ids]
    assert len(through) == len(set(through)) == 3_900
    assert sum(map(len, ends(checker.outcomes()).values())) == 100
    assert seen > 1
