"""The directory over OpenSearch fulfils the contract, and raises Retry if it cannot respond."""

import pytest

from masscomm.cdc.progress import InMemoryCdcProgress
from masscomm.clock import FixedClock
from masscomm.directory.bulk_writes import VersionedDocument, write
from masscomm.directory.opensearch import OpenSearchDirectory
from masscomm.errors import Retry
from tests.support.contracts.directory import DEVICE, USER, DirectoryContract
from tests.support.servers.directory_tables import OpenSearchTables
from tests.support.servers.opensearch_client import TestClient


class TestOpenSearchDirectory(DirectoryContract):
    def test_device_with_a_new_token_has_no_endpoint(self, tables: OpenSearchTables) -> None:
        tables.put(DEVICE)
        tables.client.update(
            index=f"devices-{tables.generation}",
            id=str(DEVICE.device_id),
            body={"doc": {"token": "another"}},
            refresh=True,
        )
        assert tables.directory.devices([1]) == {1: [DEVICE._replace(endpoint_arn=None)]}

    def test_an_inactive_device_is_not_returned(self, tables: OpenSearchTables) -> None:
        tables.put(DEVICE)
        tables.client.update(
            index=f"devices-{tables.generation}",
            id=str(DEVICE.device_id),
            body={"doc": {"active": False}},
            refresh=True,
        )
        assert tables.directory.devices([1]) == {1: []}

    def test_table_without_its_alias_is_a_retry(self, tables: OpenSearchTables) -> None:
        tables.put(USER)
        actions = [{"remove": {"index": f"user_settings-{tables.generation}", "alias": "user_settings"}}]
        tables.client.indices.update_aliases(body={"actions": actions})
        with pytest.raises(Retry, match="not ready: there is no user_settings"):
            tables.directory.users_and_settings([1])

    def test_alias_of_a_closed_index_is_a_retry(self, tables: OpenSearchTables) -> None:
        tables.put(USER, DEVICE)
        for table in ("users", "devices"):
            tables.client.indices.close(index=f"{table}-{tables.generation}")
        with pytest.raises(Retry):
            tables.directory.users([1])
        with pytest.raises(Retry):
            tables.directory.devices([1])

    def test_confirm_waits_for_debezium_and_for_the_consumer(self, tables: OpenSearchTables) -> None:
        tables.caught_up_to(5_000)
        reached = tables.progress.lsn
        assert reached is not None
        tables.progress.lsn = reached - 1
        with pytest.raises(Retry, match="Debezium has not written"):
            tables.directory.confirm(5_000)
        tables.progress.lsn = reached
        tables.progress.ends = {"users": {0: 10, 1: 0}}
        tables.progress.committed = {"users": {0: 9}}
        with pytest.raises(Retry, match="cdc_consumer has not come"):
            tables.directory.confirm(5_000)
        tables.progress.committed = {"users": {0: 10}}
        assert tables.directory.confirm(5_000).lsn == reached
        asked = tables.progress.asked
        tables.directory.confirm(4_000)
        assert tables.progress.asked == asked

    def test_confirm_makes_devices_and_templates_searchable(self, tables: OpenSearchTables) -> None:
        document = tables.documents.document(DEVICE, tables.documents.columns(DEVICE))
        tables.client.indices.put_settings(
            index=f"devices-{tables.generation}", body={"index": {"refresh_interval": "-1"}}
        )
        write(tables.client, [document])
        # caught_up_to() refreshes every index, so that only the next write is not searchable yet
        tables.caught_up_to(5_000)
        write(tables.client, [VersionedDocument(index=document.index, id="99", version=9, source={
            **document.source, "id": 99})])  # fmt: skip
        assert [d.device_id for d in tables.directory.devices([1])[1]] == [11]
        tables.directory.confirm(5_000)
        assert [d.device_id for d in tables.directory.devices([1])[1]] == [11, 99]

    def test_unreachable_server_is_a_retry_for_each_look_up(self, cluster: str) -> None:
        gone = OpenSearchDirectory(
            TestClient("http://127.0.0.1:9", timeout_s=1),
            progress=lambda _: InMemoryCdcProgress(),
            clock=FixedClock(),
        )
        for look_up in (lambda: gone.users([1]), lambda: gone.devices([1]), lambda: gone.confirm(1)):
            with pytest.raises(Retry, match="did not answer"):
                look_up()
