"""The store of changed preferences in OpenSearch fulfils the contract, and finds changes that were not produced."""

from collections.abc import Mapping
from typing import Any

import pytest

from masscomm.directory import preference_changes
from masscomm.directory.opensearch import OpenSearchDirectory
from masscomm.directory.preference_changes import OpenSearchPreferenceChanges, PreferenceChangeStore
from masscomm.domain.preference_changes import INDEX
from masscomm.errors import Retry
from tests.support.contracts.preference_changes import NOW, PreferenceChangesContract, changed, unproduced
from tests.support.servers.directory_tables import OpenSearchTables


@pytest.fixture
def store(tables: OpenSearchTables) -> OpenSearchPreferenceChanges:
    return OpenSearchPreferenceChanges(tables.client)


class TestOpenSearchPreferenceChanges(PreferenceChangesContract):
    @pytest.fixture
    def directory(self, tables: OpenSearchTables) -> OpenSearchDirectory:
        return tables.directory

    @pytest.fixture
    def store(self, tables: OpenSearchTables) -> OpenSearchPreferenceChanges:
        return OpenSearchPreferenceChanges(tables.client)

    def put(self, store: PreferenceChangeStore, user_id: int, document: Mapping[str, Any]) -> None:
        assert isinstance(store, OpenSearchPreferenceChanges)
        store._client.index(index=INDEX, id=str(user_id), body=dict(document), params={"refresh": "true"})


@pytest.mark.kills(guard="preferences.page_after_unreadable_changes")
def test_a_page_of_unreadable_changes_hides_no_others(
    store: OpenSearchPreferenceChanges, tables: OpenSearchTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Changes of the same time are on both sides of the end of a page."""
    monkeypatch.setattr(preference_changes, "_USERS_A_PAGE", 2)
    for user_id in range(1, 6):
        tables.client.index(index=INDEX, id=str(user_id), body={**changed(user_id).document, "changes": None})
    store.write(changed(6), after=None)
    tables.client.indices.refresh(index=INDEX)
    assert unproduced(store, NOW + 1) == [*["unreadable"] * 5, 6]


def test_malformed_changes_are_a_retry(store: OpenSearchPreferenceChanges, tables: OpenSearchTables) -> None:
    tables.client.index(index=INDEX, id="3", body={"user_id": 3})
    with pytest.raises(Retry, match="malformed"):
        store.read(3)


def test_missing_index_is_a_retry(store: OpenSearchPreferenceChanges, tables: OpenSearchTables) -> None:
    tables.client.indices.delete(index=INDEX)
    for call in (lambda: store.read(1), lambda: tables.directory.user_settings([1])):
        with pytest.raises(Retry, match="not ready"):
            call()
