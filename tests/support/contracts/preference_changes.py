"""The tests that every store of changed preferences must pass, in memory and real."""

import pytest

from masscomm.directory.port import Directory
from masscomm.directory.preference_changes import PreferenceChangeStore, StoredChanges
from masscomm.domain.preference_changes import PreferenceChanges, Wish

NOW = 1_700_000_000_000
OUT = Wish("newsletter", "email", False)


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


def _read(store: PreferenceChangeStore, user_id: int) -> StoredChanges:
    found = store.read(user_id)
    assert found is not None
    return found
