"""Converts Debezium's records to values: changed rows, truncated tables, heartbeats with WAL positions, and progress
of the snapshot.

Source: Debezium's PostgreSQL connector 3.7 with pgoutput, REPLICA IDENTITY FULL and the JSON converter without schemas.
"""

import base64
import binascii
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Any

from masscomm.cdc.captured_tables import captured_tables
from masscomm.errors import DeadLetter
from masscomm.json_reader import InvalidJson, UnstorableJson, read_json
from masscomm.kafka import topics
from masscomm.kafka.event import KafkaRecord
from schemas import read_text

# The document version of every row of a snapshot. It is lower than any LSN: PostgreSQL's first WAL position is far
# above it.
SNAPSHOT_VERSION = 1

# Prefix of the logical message that the connector's heartbeat.action.query writes. Its content is the database's clock
# in seconds, as text.
HEARTBEAT_PREFIX = "masscomm.heartbeat"

# Fields that masscomm adds to a document, next to the table's columns.
_OURS = ("deleted", "deleted_at_ms", "changed_at_ms")

# The Python types that a column may have, by its type in the index. OpenSearch accepts more (a list, or "7" for 7), but
# the readers of the index do not.
_COLUMN_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "long": int,
    "keyword": str,
    "text": str,
    "boolean": bool,
    "date": (int, str),
}
# A text that replaces JSON which our stores cannot hold. It is not an object, so that user settings with it count as an
# opt-out.
UNREADABLE = "unreadable"

# The last millisecond of the year 9999, in ms since the epoch.
_LAST_MS = 253_402_300_799_999
_SECONDS = re.compile(rb"\d{1,12}(\.\d{1,9})?")
_LONGEST_NAME = 200

# Debezium's placeholder for a large value that an update did not change, so that PostgreSQL did not write it to the
# WAL.
_UNAVAILABLE = "__debezium_unavailable_value"


@dataclass(frozen=True, kw_only=True)
class RowChanged:
    """One version of a row, read from the snapshot or from the stream of changes.

    The version of a streamed change is its LSN, because the database assigns it. LSNs order the changes of a row across
    topics, partitions and restarts of the connector. A change that Debezium sends twice has the same LSN, and two
    changes of a row in one transaction have different ones. Kafka offsets and commit times do not have these
    properties: a repeated change has a higher offset, and two changes of one transaction can have the same time.

    The version of a row in a snapshot is 1, not the LSN of the snapshot. The changes of a transaction that was open
    during the snapshot are streamed with LSNs below that of the snapshot, and must replace its rows.
    """

    table: str
    # The row's primary key, as text.
    id: str
    # The version of the row: SNAPSHOT_VERSION if the snapshot contains it, else the LSN of the change.
    version: int
    # The columns that schemas/indices describes, with jsonb values parsed. None: the row was deleted.
    columns: Mapping[str, Any] | None
    # The time at which the database committed the row, in ms since the epoch.
    changed_at_ms: int
    # The snapshot generation that the record belongs to.
    generation: str
    # The LSN of the change, or the LSN at which the snapshot was taken. It orders rows of two snapshot generations.
    lsn: int


@dataclass(frozen=True, kw_only=True)
class TableTruncated:
    """All rows of a table were deleted by TRUNCATE; there is no event for each row."""

    table: str
    lsn: int


@dataclass(frozen=True, kw_only=True)
class Heartbeat:
    """Debezium has read the write-ahead log up to this LSN."""

    lsn: int
    # The database's time when it wrote the heartbeat, in ms since the epoch.
    ts_ms: int


@dataclass(frozen=True, kw_only=True)
class SnapshotStarted:
    """A snapshot has begun. Each snapshot has its own snapshot_id."""

    snapshot_id: str


@dataclass(frozen=True, kw_only=True)
class SnapshotCompleted:
    """Debezium has read every row of the snapshot. Its Kafka producer may not have sent some of them yet."""

    at_ms: int


@dataclass(frozen=True)
class Irrelevant:
    """A record that changes nothing: a tombstone, a logical message of another writer, or a progress report of the
    snapshot.
    """


type Change = RowChanged | TableTruncated | Heartbeat | SnapshotStarted | SnapshotCompleted | Irrelevant


@cache
def columns_of(table: str) -> Mapping[str, str]:
    """Return the columns of a table that the directory keeps: name → type in the index. A jsonb column has the type
    `object`.

    Source: schemas/indices/<table>.json; columns that are missing there are not copied.
    """
    mapping = json.loads(read_text(f"indices/{table}.json"))
    return {name: field["type"] for name, field in mapping["mappings"]["properties"].items() if name not in _OURS}


class ChangeDecoder:
    """Decodes the records on the topics of one or more snapshot generations."""

    def __init__(self, *generations: str) -> None:
        self._tables = {
            topics.cdc_topic(table, each): (table, each) for table in captured_tables() for each in generations
        }
        self._notifications = {topics.cdc_topic("notification", each) for each in generations}
        self._heartbeats = {topics.cdc_topic("heartbeat", each) for each in generations}

    def decode(self, record: KafkaRecord) -> Change:
        """Return the change that a record contains.

        Raises:
            DeadLetter: The record differs from Debezium's format for its topic (undecodable, invalid).
        """
        if record.value is None:
            return Irrelevant()
        value = _object(record.value, "value")
        try:
            if record.topic in self._tables:
                return _table_change(*self._tables[record.topic], record.key, value)
            if record.topic in self._heartbeats:
                return _logical_message(value)
            if record.topic in self._notifications:
                return _notification(value)
        except (KeyError, TypeError, ValueError, binascii.Error) as error:
            raise DeadLetter("undecodable", f"not an event of Debezium's: {error!r:.500}") from error
        raise DeadLetter("undecodable", f"{record.topic} is not a topic of these generations")


def _table_change(table: str, generation: str, key: bytes | None, value: Mapping[str, Any]) -> Change:
    operation, source = value["op"], _mapping(value["source"])
    if operation == "t":
        return TableTruncated(table=table, lsn=_lsn(source))
    if operation not in ("r", "c", "u", "d"):
        raise DeadLetter("undecodable", f"unknown operation {operation!r:.100}")
    name = _primary_key(key)
    return RowChanged(
        table=table,
        id=name,
        version=SNAPSHOT_VERSION if operation == "r" else _lsn(source),
        columns=None if operation == "d" else _columns(table, _mapping(value["after"]), value.get("before")),
        changed_at_ms=_integer(source["ts_ms"]),
        generation=generation,
        lsn=SNAPSHOT_VERSION if operation == "r" and source.get("lsn") is None else _lsn(source),
    )


def _primary_key(key: bytes | None) -> str:
    columns = _object(key, "key")
    if len(columns) != 1:
        raise DeadLetter("undecodable", f"a primary key of one column was expected, not of {len(columns)}")
    (value,) = columns.values()
    return str(_integer(value))


def _columns(table: str, after: Mapping[str, Any], before: Any) -> dict[str, Any]:
    found: dict[str, Any] = dict.fromkeys(captured_tables()[table].null_where_absent)
    for name, kind in columns_of(table).items():
        if name not in after:
            continue
        value = after[name]
        if value == _UNAVAILABLE:
            value = before.get(name, _UNAVAILABLE) if isinstance(before, dict) else _UNAVAILABLE
            if value == _UNAVAILABLE:
                raise DeadLetter("undecodable", f"{table}.{name} was not logged: the table needs REPLICA IDENTITY FULL")
        found[name] = _column(table, name, kind, value)
    for name in captured_tables()[table].required:
        if found.get(name) is None:
            raise DeadLetter("invalid", f"{table}.{name} is missing")
    return found


def _column(table: str, name: str, kind: str, value: Any) -> Any:
    if kind == "object":
        try:
            return read_json(value) if isinstance(value, str) else value
        except UnstorableJson:
            return UNREADABLE
    if value is None or (isinstance(value, _COLUMN_TYPES[kind]) and isinstance(value, bool) == (kind == "boolean")):
        return value
    raise DeadLetter("invalid", f"{table}.{name} is no {kind}")


def _logical_message(value: Mapping[str, Any]) -> Change:
    message = _mapping(value["message"])
    if value["op"] != "m" or message["prefix"] != HEARTBEAT_PREFIX:
        return Irrelevant()
    seconds = base64.b64decode(message["content"], validate=True)
    if not _SECONDS.fullmatch(seconds):
        raise ValueError("a heartbeat's content is its time in seconds")
    # The time is rounded down: a heartbeat time that is too early only delays the proof of completeness.
    ts_ms = int(Decimal(seconds.decode()) * 1000)
    return Heartbeat(lsn=_lsn(_mapping(value["source"])), ts_ms=_time(ts_ms))


def _notification(value: Mapping[str, Any]) -> Change:
    if value["aggregate_type"] != "Initial Snapshot":
        return Irrelevant()
    match value["type"]:
        case "STARTED":
            return SnapshotStarted(snapshot_id=_name(value["id"]))
        case "COMPLETED":
            return SnapshotCompleted(at_ms=_time(value["timestamp"]))
    return Irrelevant()


def _object(data: bytes | None, what: str) -> dict[str, Any]:
    try:
        found = read_json(data or b"")
    except InvalidJson as error:
        raise DeadLetter("undecodable", f"the {what} is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise DeadLetter("undecodable", f"the {what} is not a JSON object")
    return found


def _mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise TypeError("an object was expected")
    return value


def _integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"a whole number was expected: {value!r:.100}")
    return value


def _lsn(source: Mapping[str, Any]) -> int:
    """Return the LSN of a change. An LSN below the allowed range is refused here: OpenSearch refuses a whole bulk
    request if one version is negative.
    """
    lsn = _integer(source["lsn"])
    if lsn < SNAPSHOT_VERSION:
        raise ValueError(f"no LSN: {lsn}")
    return lsn


def _time(value: Any) -> int:
    ms = _integer(value)
    if not 0 <= ms <= _LAST_MS:
        raise ValueError(f"no time: {ms}")
    return ms


def _name(value: Any) -> str:
    if not isinstance(value, str) or not value or len(value) > _LONGEST_NAME:
        raise ValueError("no name")
    return value
