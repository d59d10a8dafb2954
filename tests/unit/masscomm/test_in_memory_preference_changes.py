from collections.abc import Mapping
from typing import Any

import pytest

from masscomm.directory.in_memory import InMemoryDirectory
from masscomm.directory.preference_changes import InMemoryPreferenceChanges, PreferenceChangeStore
from tests.support.contracts.preference_changes import PreferenceChangesContract


class TestInMemoryPreferenceChanges(PreferenceChangesContract):
    @pytest.fixture
    def directory(self) -> InMemoryDirectory:
        return InMemoryDirectory()

    @pytest.fixture
    def store(self, directory: InMemoryDirectory) -> InMemoryPreferenceChanges:
        return InMemoryPreferenceChanges(directory.preference_changes)

    def put(self, store: PreferenceChangeStore, user_id: int, document: Mapping[str, Any]) -> None:
        assert isinstance(store, InMemoryPreferenceChanges)
        store.documents[user_id] = document
