"""The directory over OpenSearch keeps what every directory promises, and says Retry where it cannot."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any
from uuid import uuid4

import pytest

from devstack.provision import create_indices
from functions.receipts.messages import OpenSearchMessages
from masscomm.cdc_progress import InMemoryCdcProgress
from masscomm.clock import FixedClock
from masscomm.directory import Device, Settings, Template, User
from masscomm.errors import Retry
from masscomm.ids import address_id
from masscomm.opensearch import VersionedDocument, write
from masscomm.opensearch_directory import OpenSearchDirectory
from masscomm.suppressions import Suppression
from masscomm.topics import CDC_TABLES
from tests.support.contracts.directory import DEVICE, USER, DirectoryContract, Row, Tables
from tests.support.servers.opensearch_client import TestClient

_PLACES: dict[type, tuple[str, str]] = {
    User: ("users", "user_id"),
    Settings: ("user_settings", "user_id"),
    Device: ("devices", "device_id"),
    Template: ("notification_templates", "template_id"),
}


class OpenSearchTables(Tables):
    """Documents as cdc_consumer and device_registrar write them."""

    def __init__(self, client: TestClient, generation: str) -> None:
        self.client = client
        self.generation = generation
        self.progress = InMemoryCdcProgress()
        self.clock = FixedClock()
        self.version = 1
        self.directory: OpenSearchDirectory = OpenSearchDirectory(
            client,
            progress=lambda _: self.progress,
            clock=self.clock,
            wait_s=lambda: 0.2,
            clock_skew_ms=0,
            page_size=3,
        )

    def put(self, *rows: Row) -> None:
        self.version += 1
        states = [row for row in rows if isinstance(row, Device) and (row.endpoint_arn or not row.enabled)]
        self._write([self._document(row, self._columns(row)) for row in rows])
        self._write([self._state(row) for row in states])

    def remove(self, *rows: Row) -> None:
        self.version += 1
        self._write([self._document(row, {"deleted": True, "deleted_at_ms": 1}) for row in rows])

    def suppress(self, *several: Suppression) -> None:
        assert OpenSearchMessages(self.client).suppress(several) == [None] * len(several)

    def suppress_as_before(self, address: str) -> None:
        source = {"reason": "complained", "at": 1}
        self._write([VersionedDocument(index="suppressions", id=address_id(address), version=1, source=source)])

    def not_ready(self) -> None:
        actions = [{"remove": {"index": f"{table}-{self.generation}", "alias": table}} for table in CDC_TABLES]
        self.client.indices.update_aliases(body={"actions": actions})
        self.caught_up_to(1_000_000)

    def caught_up_to(self, ts_ms: int) -> None:
        self.progress.lsn = self.version = self.version + 1
        source = {"lsn": self.version, "ts_ms": ts_ms}
        self._write(
            [VersionedDocument(index="directory_state", id=f"position-{self.generation}", version=1, source=source)]
        )

    def _columns(self, row: Row) -> dict[str, Any]:
        columns = {k: v for k, v in asdict(row).items() if k not in ("endpoint_arn", "enabled")}
        match row:
            case Settings():
                del columns["version"]
            case User():
                columns["id"] = columns.pop("user_id")
            case Device():
                columns["id"] = columns.pop("device_id")
                columns["active"] = True
            case Template():
                columns["id"] = columns.pop("template_id")
        return columns

    def _document(self, row: Row, source: dict[str, Any]) -> VersionedDocument:
        table, key = _PLACES[type(row)]
        index = f"{table}-{self.generation}"
        return VersionedDocument(index=index, id=str(getattr(row, key)), version=self.version, source=source)

    def _state(self, device: Device) -> VersionedDocument:
        source = {
            "token": device.token,
            "endpoint_arn": device.endpoint_arn,
            "enabled": device.enabled,
            "reason": None,
            "updated_at": 1,
        }
        return VersionedDocument(index="device_state", id=str(device.device_id), version=self.version, source=source)

    def _write(self, documents: list[VersionedDocument]) -> None:
        assert not any(write(self.client, documents))
        self.client.indices.refresh(index=f"*-{self.generation}")


@pytest.fixture
def tables(cluster: str) -> Iterator[OpenSearchTables]:
    generation = f"t{uuid4().hex[:8]}"
    client = TestClient(cluster)
    # Device states are one index for all generations: what another test left is not this one's.
    client.indices.delete(index="device_state", ignore_unavailable=True)
    create_indices(cluster, generation)
    actions = [{"add": {"index": f"{table}-{generation}", "alias": table}} for table in CDC_TABLES]
    client.indices.update_aliases(body={"actions": actions})
    yield OpenSearchTables(client, generation)
    client.indices.delete(index=",".join(f"{table}-{generation}" for table in CDC_TABLES))
    client.close()


class TestOpenSearchDirectory(DirectoryContract):
    """The contract, and what only this one can get wrong."""

    def test_an_endpoint_is_of_the_token_it_was_made_for(self, tables: OpenSearchTables) -> None:
        tables.put(DEVICE)
        moved = Device(device_id=DEVICE.device_id, user_id=1, platform="gcm", token="another")
        tables.put(moved)
        assert tables.directory.devices([1]) == {1: [moved]}

    def test_an_inactive_device_is_no_device(self, tables: OpenSearchTables) -> None:
        tables.put(DEVICE)
        tables.client.update(
            index=f"devices-{tables.generation}",
            id=str(DEVICE.device_id),
            body={"doc": {"active": False}},
            refresh=True,
        )
        assert tables.directory.devices([1]) == {1: []}

    def test_one_table_without_its_alias_is_enough_to_say_nothing(self, tables: OpenSearchTables) -> None:
        tables.put(USER)
        actions = [{"remove": {"index": f"user_settings-{tables.generation}", "alias": "user_settings"}}]
        tables.client.indices.update_aliases(body={"actions": actions})
        with pytest.raises(Retry, match="not ready: there is no user_settings"):
            tables.directory.users_and_settings([1])

    def test_an_alias_of_an_index_that_does_not_answer(self, tables: OpenSearchTables) -> None:
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
        document = tables._document(DEVICE, tables._columns(DEVICE))
        tables.client.indices.put_settings(
            index=f"devices-{tables.generation}", body={"index": {"refresh_interval": "-1"}}
        )
        write(tables.client, [document])
        tables.caught_up_to(5_000)  # refreshes everything: hence once more below
        write(tables.client, [VersionedDocument(index=document.index, id="99", version=9, source={
            **document.source, "id": 99})])  # fmt: skip
        assert [d.device_id for d in tables.directory.devices([1])[1]] == [11]
        tables.directory.confirm(5_000)
        assert [d.device_id for d in tables.directory.devices([1])[1]] == [11, 99]

    def test_a_server_that_is_gone(self, cluster: str) -> None:
        gone = OpenSearchDirectory(
            TestClient("http://127.0.0.1:9", timeout_s=1),
            progress=lambda _: InMemoryCdcProgress(),
            clock=FixedClock(),
        )
        for look_up in (lambda: gone.users([1]), lambda: gone.devices([1]), lambda: gone.confirm(1)):
            with pytest.raises(Retry, match="did not answer"):
                look_up()
