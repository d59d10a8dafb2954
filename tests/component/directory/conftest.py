"""The directory's tables in OpenSearch, in a generation of each test's own."""

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

import pytest

from local.devstack.provision import create_indices
from masscomm.cdc.captured_tables import captured_tables
from masscomm.domain.preference_changes import INDEX as PREFERENCE_CHANGES
from masscomm.domain.tenant_preferences import INDEX as TENANT_PREFERENCES
from tests.support.inputs.optional_tables import ENTRIES, mapped
from tests.support.servers.directory_tables import OpenSearchTables
from tests.support.servers.opensearch_client import TestClient


@pytest.fixture
def tables(cluster: str) -> Iterator[OpenSearchTables]:
    with made(cluster) as found:
        yield found


@pytest.fixture
def mapped_tables(cluster: str) -> Iterator[OpenSearchTables]:
    with mapped(*ENTRIES), made(cluster) as found:
        yield found


@contextmanager
def made(cluster: str) -> Iterator[OpenSearchTables]:
    generation = f"t{uuid4().hex[:8]}"
    client = TestClient(cluster)
    # These indices belong to all generations, so documents of other tests are deleted.
    client.indices.delete(index=f"device_state,{PREFERENCE_CHANGES},{TENANT_PREFERENCES}", ignore_unavailable=True)
    create_indices(cluster, generation)
    actions = [{"add": {"index": f"{table}-{generation}", "alias": table}} for table in captured_tables()]
    client.indices.update_aliases(body={"actions": actions})
    yield OpenSearchTables(client, generation)
    client.indices.delete(index=",".join(f"{table}-{generation}" for table in captured_tables()))
    client.close()
