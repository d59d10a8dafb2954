import pytest

from masscomm.directory.in_memory import InMemoryDirectory
from masscomm.directory.preference_changes import InMemoryPreferenceChanges
from tests.support.contracts.preference_changes import NOW, PreferenceChangesContract, changed


class TestInMemoryPreferenceChanges(PreferenceChangesContract):
    @pytest.fixture
    def directory(self) -> InMemoryDirectory:
        return InMemoryDirectory()

    @pytest.fixture
    def store(self, directory: InMemoryDirectory) -> InMemoryPreferenceChanges:
        return InMemoryPreferenceChanges(directory.preference_changes)


def test_users_without_a_produced_record_are_found() -> None:
    store = InMemoryPreferenceChanges()
    store.write(changed(1, NOW + 5), after=None)
    store.write(changed(2), after=None)
    assert store.unproduced(NOW + 6) == [2, 1]
    assert store.unproduced(NOW + 5) == [2]
