"""The directory's tables in OpenSearch, filled as cdc_consumer and device_registrar fill them."""

from typing import Any

from functions.receipts.sent_messages import OpenSearchSentMessages
from masscomm.cdc.captured_tables import captured_tables
from masscomm.cdc.progress import InMemoryCdcProgress
from masscomm.clock import FixedClock
from masscomm.directory.bulk_writes import VersionedDocument, write
from masscomm.directory.opensearch import OpenSearchDirectory
from masscomm.domain.suppressions import Suppression
from masscomm.domain.users import Device, Template, User, UserSettings
from tests.support.contracts.directory import Row, Tables
from tests.support.servers.opensearch_client import TestClient

_INDICES: dict[type, tuple[str, str]] = {
    User: ("users", "user_id"),
    UserSettings: ("user_settings", "user_id"),
    Device: ("devices", "device_id"),
    Template: ("notification_templates", "template_id"),
}


class OpenSearchTables(Tables):
    """Writes documents in the format of cdc_consumer and device_registrar."""

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
        assert OpenSearchSentMessages(self.client).suppress(several) == [None] * len(several)

    def not_ready(self) -> None:
        actions = [{"remove": {"index": f"{table}-{self.generation}", "alias": table}} for table in captured_tables()]
        self.client.indices.update_aliases(body={"actions": actions})
        self.caught_up_to(1_000_000)

    def caught_up_to(self, ts_ms: int) -> None:
        self.progress.lsn = self.version = self.version + 1
        source = {"lsn": self.version, "ts_ms": ts_ms}
        self._write(
            [VersionedDocument(index="directory_state", id=f"position-{self.generation}", version=1, source=source)]
        )

    def _columns(self, row: Row) -> dict[str, Any]:
        columns = {k: v for k, v in row._asdict().items() if k not in ("endpoint_arn", "enabled")}
        match row:
            case UserSettings():
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
        table, key = _INDICES[type(row)]
        index = f"{table}-{self.generation}"
        return VersionedDocument(index=index, id=str(getattr(row, key)), version=self.version, source=source)

    def _state(self, device: Device) -> VersionedDocument:
        source = {
            "token": device.token,
            "endpoint_arn": device.endpoint_arn,
            "enabled": device.enabled,
            "reason": None,
            "updated_at": 1,
            "generation": self.generation,
            "row_version": self.version,
        }
        return VersionedDocument(index="device_state", id=str(device.device_id), version=self.version, source=source)

    def _write(self, documents: list[VersionedDocument]) -> None:
        assert not any(write(self.client, documents))
        self.client.indices.refresh(index=f"*-{self.generation}")
