"""The store of changed preferences in OpenSearch fulfils the contract, and finds changes that were not produced."""

import pytest

from masscomm.directory.opensearch import OpenSearchDirectory
from masscomm.directory.preference_changes import OpenSearchPreferenceChanges
from masscomm.domain.preference_changes import INDEX
from masscomm.errors import Retry
from tests.support.contracts.preference_changes import NOW, PreferenceChangesContract, changed
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


def test_users_without_a_produced_record_are_found(
    store: OpenSearchPreferenceChanges, tables: OpenSearchTables
) -> None:
    store.write(changed(1, NOW + 5), after=None)
    store.write(changed(2), after=None)
    tables.client.indices.refresh(index=INDEX)
    assert store.unproduced(NOW + 6) == [2, 1]
    assert store.unproduced(NOW + 5) == [2]


def test_malformed_changes_are_a_retry(store: OpenSearchPreferenceChanges, tables: OpenSearchTables) -> None:
    tables.client.index(index=INDEX, id="3", body={"user_id": 3})
    with pytest.raises(Retry, match="malformed"):
        store.read(3)


def test_missing_index_is_a_retry(store: OpenSearchPreferenceChanges, tables: OpenSearchTables) -> None:
    tables.client.indices.delete(index=INDEX)
    for call in (lambda: store.read(1), lambda: tables.directory.user_settings([1])):
        with pytest.raises(Retry, match="not ready"):
            call()
