"""Rows of the directory as the documents that cdc_consumer and device_registrar write."""

from collections.abc import Iterable, Mapping
from typing import Any

from masscomm.directory.bulk_writes import VersionedDocument
from masscomm.domain.phone_ends import phone_end
from masscomm.domain.users import Device, Template, User, UserSettings
from tests.support.contracts.directory import Row

_INDICES: dict[type, tuple[str, str]] = {
    User: ("users", "user_id"),
    UserSettings: ("user_settings", "user_id"),
    Device: ("devices", "device_id"),
    Template: ("notification_templates", "template_id"),
}


def token_of(device: Device) -> str:
    return f"t{device.device_id}"


class DirectoryDocuments:
    """Makes documents, each call with a higher version."""

    def __init__(self, generation: str) -> None:
        self.generation = generation
        self.version = 1

    def of(self, *rows: Row) -> list[VersionedDocument]:
        """Return the documents of rows, with the states of devices."""
        self.version += 1
        states = [row for row in rows if isinstance(row, Device) and (row.endpoint_arn or not row.enabled)]
        return [*(self.document(row, self.columns(row)) for row in rows), *map(self._state, states)]

    def removed(self, *rows: Row) -> list[VersionedDocument]:
        self.version += 1
        return [self.document(row, {"deleted": True, "deleted_at_ms": 1}) for row in rows]

    def optional(self, table: str, rows: Iterable[tuple[str, Mapping[str, Any]]]) -> list[VersionedDocument]:
        """Return the documents of rows of an optional table: (id, columns)."""
        self.version += 1
        index = f"{table}-{self.generation}"
        return [VersionedDocument(index=index, id=id_, version=self.version, source=source) for id_, source in rows]

    def columns(self, row: Row) -> dict[str, Any]:
        columns = {k: v for k, v in row._asdict().items() if k not in ("endpoint_arn", "enabled")}
        match row:
            case UserSettings():
                del columns["version"]
            case User():
                columns["id"] = columns.pop("user_id")
                columns |= {} if row.phone is None else {"phone_end": phone_end(row.phone)}
            case Device():
                columns |= {"id": columns.pop("device_id"), "active": True, "token": token_of(row)}
            case Template():
                columns["id"] = columns.pop("template_id")
        return columns

    def document(self, row: Row, source: dict[str, Any]) -> VersionedDocument:
        table, key = _INDICES[type(row)]
        index = f"{table}-{self.generation}"
        return VersionedDocument(index=index, id=str(getattr(row, key)), version=self.version, source=source)

    def _state(self, device: Device) -> VersionedDocument:
        source = {
            "token": token_of(device),
            "endpoint_arn": device.endpoint_arn,
            "enabled": device.enabled,
            "reason": None,
            "updated_at": 1,
            "generation": self.generation,
            "row_version": self.version,
        }
        return VersionedDocument(index="device_state", id=str(device.device_id), version=self.version, source=source)
