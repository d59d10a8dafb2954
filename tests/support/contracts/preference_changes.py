"""The tests that every store of changed preferences must pass, in memory and real."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from masscomm.directory.port import Directory
from masscomm.directory.preference_changes import PreferenceChangeStore, StoredChanges
from masscomm.domain.preference_changes import PreferenceChanges, Wish
from masscomm.observability.unreadable_items import UnreadableItem

NOW = 1_700_000_000_000
OUT = Wish("newsletter", "email", False)


# Documents that no version reads, by the attributes that they have in the place of good ones.
UNREADABLE: Mapping[str, Mapping[str, Any]] = {
    "no changes": {"changes": None},
    "a text": {"changes": "all"},
    "another version of a change": {"changes": [{"version": "1"}]},
    "a number as text": {"club_id": "7"},
    "another user": {"user_id": 1},
}


def changed(user_id: int, now_ms: int = NOW) -> PreferenceChanges:
    return PreferenceChanges(user_id=user_id, club_id=7).after([OUT], None, now_ms, source="api", principal="k")


class PreferenceChangesContract:
    """Subclasses define the fixtures `store` and `directory`, which looks up what the store has. Each test has users of
    its own.
    """

    @pytest.fixture
    def store(self) -> PreferenceChangeStore:
        raise NotImplementedError

    @pytest.fixture
    def directory(self) -> Directory:
        raise NotImplementedError

    def put(self, store: PreferenceChangeStore, user_id: int, document: Mapping[str, Any]) -> None:
        """Store a document as it is, so that a sweep finds it."""
        raise NotImplementedError

    def test_written_changes_are_read_at_once(self, store: PreferenceChangeStore, directory: Directory) -> None:
        assert store.read(101) is None
        assert store.write(changed(101), after=None)
        assert _read(store, 101).changes == changed(101)
        (settings,) = directory.user_settings([101]).values()
        assert (settings.categories, settings.is_absent) == ({"newsletter": {"email": False}}, True)
        assert directory.users_and_settings([101])[1] == {101: settings}

    def test_changes_are_not_written_over_newer_ones(self, store: PreferenceChangeStore) -> None:
        assert store.write(changed(102), after=None)
        first = _read(store, 102)
        assert not store.write(changed(102, NOW + 9), after=None)
        assert store.write(changed(102, NOW + 1), after=first)
        assert not store.write(changed(102, NOW + 9), after=first)
        assert _read(store, 102).changes.version == NOW + 1

    def test_unproduced_changes_are_found(self, store: PreferenceChangeStore) -> None:
        self.put(store, 1, changed(1, NOW + 5).document)
        self.put(store, 2, changed(2).document)
        self.put(store, 3, replace(changed(3), produced_version=NOW).document)
        assert unproduced(store, NOW + 6) == [2, 1]
        assert unproduced(store, NOW + 5) == [2]

    @pytest.mark.kills(guard="preferences.unreadable_changes")
    @pytest.mark.guarantee("preferences.unreadable_changes_are_skipped")
    def test_unreadable_changes_hide_no_others(self, store: PreferenceChangeStore) -> None:
        first, last = 11, 12 + len(UNREADABLE)
        for user_id, damage in enumerate(UNREADABLE.values(), start=first + 1):
            self.put(store, user_id, {**changed(user_id, NOW + user_id).document, **damage})
        for user_id in (first, last):
            self.put(store, user_id, changed(user_id, NOW + user_id).document)
        assert unproduced(store, NOW + 100) == [first, *["unreadable"] * len(UNREADABLE), last]

    def test_changes_of_a_later_version_are_read(self, store: PreferenceChangeStore) -> None:
        document = changed(21).document
        self.put(store, 21, {**document, "changes": [{**each, "of_later": {"a": [1]}} for each in document["changes"]]})
        assert unproduced(store, NOW + 1) == [21]
        assert _read(store, 21).changes == changed(21)


def unproduced(store: PreferenceChangeStore, before_ms: int) -> list[int | str]:
    """Return the users of the changes that a sweep finds, with `unreadable` in the place of each unreadable one."""
    found = [each for page in store.unproduced(before_ms) for each in page]
    return ["unreadable" if isinstance(each, UnreadableItem) else each.user_id for each in found]


def _read(store: PreferenceChangeStore, user_id: int) -> StoredChanges:
    found = store.read(user_id)
    assert found is not None
    return found
