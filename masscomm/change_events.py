"""What Debezium says, as values: rows that changed, tables emptied, how far the WAL was read, how the snapshot went.

Source: Debezium's PostgreSQL connector 3.7 with pgoutput, REPLICA IDENTITY FULL and the JSON converter without schemas.
"""

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import cache
from typing import Any

from masscomm import topics
from masscomm.errors import DeadLetter
from masscomm.kafka_event import KafkaRecord
from schemas import read_text

# Below every LSN: PostgreSQL's first WAL position is far above it.
SNAPSHOT_VERSION = 1

# Written by the connector's heartbeat.action.query: the database's clock, in seconds, as text.
HEARTBEAT_PREFIX = "masscomm.heartbeat"

# What we write beside the columns.
_OURS = ("deleted", "deleted_at_ms", "changed_at_ms")

# What stands for a large value that an update left alone and PostgreSQL therefore did not log.
_UNAVAILABLE = "__debezium_unavailable_value"


@dataclass(frozen=True, kw_only=True)
class RowChanged:
    """A row as it is from a version on; the same for a row of the snapshot and of the stream.

    id: the primary key, as text; columns: those that schemas/indices describes, jsonb parsed, None: the row is deleted;
    changed_at_ms: when the database committed it.

    version: 1 for a row of the snapshot, else the LSN of the change. The LSN, because it is the database's: it orders
    the changes of a row across topics, partitions and restarts of the connector, is the same when Debezium sends a
    change twice, and differs for two changes of a row in one transaction. An offset does none of this (a repetition
    gets a higher one), and a time cannot tell two changes of one transaction apart. And 1, not the snapshot's own LSN:
    a transaction that was open during the snapshot is streamed with an LSN below the snapshot's, and must still win.
    """

    table: str
    id: str
    version: int
    columns: Mapping[str, Any] | None
    changed_at_ms: int


@dataclass(frozen=True, kw_only=True)
class TableTruncated:
    """Every row of a table is gone, and no event says so of each."""

    table: str
    lsn: int


@dataclass(frozen=True, kw_only=True)
class Heartbeat:
    """Debezium has read the WAL up to lsn, where the database's clock said ts_ms (ms since the epoch)."""

    lsn: int
    ts_ms: int


@dataclass(frozen=True, kw_only=True)
class SnapshotStarted:
    """A snapshot has begun; snapshot_id differs for each."""

    snapshot_id: str


@dataclass(frozen=True, kw_only=True)
class SnapshotCompleted:
    """Debezium has read every row of the snapshot. Its producer may still hold some of them."""

    at_ms: int


@dataclass(frozen=True)
class Irrelevant:
    """Nothing to do: a tombstone, another's logical message, the snapshot's progress."""


type Change = RowChanged | TableTruncated | Heartbeat | SnapshotStarted | SnapshotCompleted | Irrelevant


@cache
def columns_of(table: str) -> Mapping[str, bool]:
    """The columns the directory keeps of a table, and whether each is jsonb: schemas/indices/<table>.json.

    A column that is not described there is left out: what is not needed is not copied.
    """
    mapping = json.loads(read_text(f"indices/{table}.json"))
    return {
        name: field["type"] == "object"
        for name, field in mapping["mappings"]["properties"].items()
        if name not in _OURS
    }


class ChangeDecoder:
    """Reads the records of one snapshot generation's topics."""

    def __init__(self, generation: str) -> None:
        self._tables = {topics.cdc_topic(table, generation): table for table in topics.CDC_TABLES}
        self._notification = topics.cdc_topic("notification", generation)
        self._heartbeat = topics.cdc_topic("heartbeat", generation)

    def decode(self, record: KafkaRecord) -> Change:
        """What a record says. Errors: DeadLetter(undecodable) where it is not what Debezium writes there."""
        if record.value is None:
            return Irrelevant()
        value = _object(record.value, "value")
        try:
            if record.topic in self._tables:
                return _table_change(self._tables[record.topic], record.key, value)
            if record.topic == self._heartbeat:
                return _logical_message(value)
            if record.topic == self._notification:
                return _notification(value)
        except (KeyError, TypeError, ValueError, binascii.Error, InvalidOperation) as error:
            raise DeadLetter("undecodable", f"not an event of Debezium's: {error!r}") from error
        raise DeadLetter("undecodable", f"{record.topic} is no topic of this generation")


def _table_change(table: str, key: bytes | None, value: Mapping[str, Any]) -> Change:
    operation, source = value["op"], value["source"]
    if operation == "t":
        return TableTruncated(table=table, lsn=_integer(source["lsn"]))
    if operation not in ("r", "c", "u", "d"):
        raise DeadLetter("undecodable", f"unknown operation {operation!r}")
    name = _primary_key(key)
    return RowChanged(
        table=table,
        id=name,
        version=SNAPSHOT_VERSION if operation == "r" else _integer(source["lsn"]),
        columns=None if operation == "d" else _columns(table, value["after"], value.get("before") or {}),
        changed_at_ms=_integer(source["ts_ms"]),
    )


def _primary_key(key: bytes | None) -> str:
    columns = _object(key, "key")
    if len(columns) != 1:
        raise DeadLetter("undecodable", f"a primary key of one column was expected: {sorted(columns)}")
    (value,) = columns.values()
    if isinstance(value, bool) or not isinstance(value, int | str) or value == "":
        raise DeadLetter("undecodable", "the primary key is neither a number nor a text")
    return str(value)


def _columns(table: str, after: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    found = {}
    for name, is_json in columns_of(table).items():
        if name not in after:
            continue
        value = after[name]
        if value == _UNAVAILABLE:
            value = before.get(name, _UNAVAILABLE)
            if value == _UNAVAILABLE:
                raise DeadLetter("undecodable", f"{table}.{name} was not logged: the table needs REPLICA IDENTITY FULL")
        found[name] = json.loads(value) if is_json and isinstance(value, str) else value
    return found


def _logical_message(value: Mapping[str, Any]) -> Change:
    message = value["message"]
    if value["op"] != "m" or message["prefix"] != HEARTBEAT_PREFIX:
        return Irrelevant()
    seconds = Decimal(base64.b64decode(message["content"], validate=True).decode())
    # Rounded down: a position that claims less than it is does no harm.
    return Heartbeat(lsn=_integer(value["source"]["lsn"]), ts_ms=int(seconds * 1000))


def _notification(value: Mapping[str, Any]) -> Change:
    if value["aggregate_type"] != "Initial Snapshot":
        return Irrelevant()
    match value["type"]:
        case "STARTED":
            return SnapshotStarted(snapshot_id=str(value["id"]))
        case "COMPLETED":
            return SnapshotCompleted(at_ms=_integer(value["timestamp"]))
    return Irrelevant()


def _object(data: bytes | None, what: str) -> dict[str, Any]:
    try:
        found = json.loads(data or b"")
    except ValueError as error:
        raise DeadLetter("undecodable", f"the {what} is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise DeadLetter("undecodable", f"the {what} is not a JSON object")
    return found


def _integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"a whole number was expected: {value!r}")
    return value
