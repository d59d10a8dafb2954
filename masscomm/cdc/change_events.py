"""Converts Debezium's records to values: changed rows, truncated tables, heartbeats with WAL positions, and progress
of the snapshot.

Source: Debezium's PostgreSQL connector 3.7 with pgoutput, REPLICA IDENTITY FULL and the JSON converter without schemas.
"""

import base64
import binascii
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Any

from masscomm.cdc.captured_tables import DEVICES, RULES, CapturedTable, captured_tables
from masscomm.cdc.changelogs import MARK
from masscomm.clock import Clock, SystemClock
from masscomm.domain.row_ids import row_id
from masscomm.domain.source_tables import SourceError, Value, directory_table, source_name
from masscomm.domain.time_limits import DATABASE_CLOCK_STEP_MS, MISSED_DELETE_AGE_MS
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
_OURS = ("deleted", "deleted_at_ms", "changed_at_ms", "snapshot_lsn", "attributes", "phone_end")

# The Python types that a column may have, by its type in the index. OpenSearch accepts more (a list, or "7" for 7), but
# the readers of the index do not.
_COLUMN_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "long": int,
    "keyword": str,
    "text": str,
    "boolean": bool,
    "date": (int, str),
}
# The same without the types that need isinstance. A bool is an int, but not of this type.
_EXACT_TYPES: Mapping[str, Collection[type]] = {
    kind: types if isinstance(types, tuple) else (types,) for kind, types in _COLUMN_TYPES.items()
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
    # The row's key of schemas/source.yaml, as text: a whole number, or a masscomm.domain.row_ids.row_id.
    id: str
    # The version of the row: SNAPSHOT_VERSION if the snapshot contains it, else the LSN of the change.
    version: int
    # The columns of the directory, with JSON parsed. None: the row was deleted.
    columns: Mapping[str, Any] | None
    # The time at which the database committed the row, in ms since the epoch.
    changed_at_ms: int
    # The snapshot generation that the record belongs to.
    generation: str
    # The LSN of the change, or the LSN at which the snapshot was taken. It orders rows of two snapshot generations.
    lsn: int
    # The preference_version of a deleted row of user settings; None: it had none.
    applied_version: int | None = None
    # The columns of the directory whose earlier values stay, because the row has lost their columns.
    kept: tuple[str, ...] = ()
    # The columns of a device before a streamed change; None: the row is new, or its earlier columns cannot be read.
    earlier: Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class RowsChanged:
    """One version of a row that several tables of the directory derive from."""

    rows: tuple[RowChanged, ...]


@dataclass(frozen=True, kw_only=True)
class MissedDelete:
    """A row was deleted, and the record of the deletion, which has its LSN, may be compacted away: only its tombstone
    was read (docs/decisions/089-changelogs.md).
    """

    # The tables of the directory that derive from the row, and the row's key as text.
    tables: tuple[str, ...]
    id: str
    generation: str
    # The time of the tombstone in ms since the epoch; 0 if it has none.
    deleted_at_ms: int

    def row(self, table: str, version: int, applied_version: int | None = None) -> RowChanged:
        """Return the deleted row of a table, in the version of the row that is known. A row that was inserted again
        after the deletion replaces it, even if it was read before.
        """
        return RowChanged(
            table=table,
            id=self.id,
            version=version,
            columns=None,
            changed_at_ms=self.deleted_at_ms,
            generation=self.generation,
            lsn=version,
            applied_version=applied_version,
        )


class RefusedRow(DeadLetter):
    """A row cannot be copied to the directory, and its earlier version must not simply stay there."""

    def __init__(
        self,
        fault: DeadLetter,
        *,
        deleted: Sequence[RowChanged] = (),
        unreadable: Sequence[RowChanged] = (),
        written: Sequence[RowChanged] = (),
    ) -> None:
        super().__init__(fault.reason, str(fault))
        # Rows without an owner, as deleted rows: the directory must not have their earlier versions any more.
        self.deleted = tuple(deleted)
        # Rows of user settings as opt-outs. They apply if the directory has no earlier settings of the user.
        self.unreadable = tuple(unreadable)
        # Rows that are written nevertheless, with the earlier values of the columns that they have lost.
        self.written = tuple(written)


@dataclass(frozen=True, kw_only=True)
class TableTruncated:
    """All rows of a table were deleted by TRUNCATE; there is no event for each row."""

    table: str
    lsn: int


@dataclass(frozen=True, kw_only=True)
class Heartbeat:
    """Debezium has read the write-ahead log up to this LSN."""

    lsn: int
    # The database's time when it wrote the heartbeat, in ms since the epoch; that of Kafka Connect when it produced the
    # record, if that is earlier.
    ts_ms: int

    def is_of_another_log(self, known: "Heartbeat") -> bool:
        """Return whether this heartbeat is from another write-ahead log than an earlier one.

        After a failover to a server that lacks the last transactions, or a restored backup, the database assigns
        positions for a second time. A store would silently refuse the rows whose versions are below its own.
        """
        # guard: directory.other_write_ahead_log
        return self.lsn < known.lsn and self.ts_ms > known.ts_ms + DATABASE_CLOCK_STEP_MS


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
    """A record that changes nothing: the tombstone after a deletion, a logical message of another writer, or a
    progress report of the snapshot.
    """


type Change = (
    RowChanged
    | RowsChanged
    | MissedDelete
    | TableTruncated
    | Heartbeat
    | SnapshotStarted
    | SnapshotCompleted
    | Irrelevant
)


@cache
def columns_of(table: str) -> Mapping[str, str]:
    """Return the columns of a captured table in the directory: name → type in the index. JSON has the type `object`.

    Source: schemas/indices/<table>.json; columns that are missing there are not copied.
    """
    mapping = json.loads(read_text(f"indices/{directory_table(table)}.json"))
    return {name: field["type"] for name, field in mapping["mappings"]["properties"].items() if name not in _OURS}


def unknown_columns(tables: Mapping[str, CapturedTable]) -> dict[str, list[str]]:
    """Return the mapped columns that the directory does not have, by captured table."""
    unknown = {name: sorted(table.source.columns.keys() - columns_of(name).keys()) for name, table in tables.items()}
    return {name: columns for name, columns in unknown.items() if columns}


class ChangeDecoder:
    """Decodes the records on the topics of one or more snapshot generations, those of a partition in their order.

    Raises:
        SourceError: schemas/source.yaml maps a column that the directory does not have.
    """

    def __init__(self, *generations: str, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        if unknown := unknown_columns(captured_tables()):
            raise SourceError(f"{source_name()} maps columns that the directory does not have: {unknown}")
        self._tables: dict[str, tuple[list[str], str]] = {}
        for each in generations:
            for table in captured_tables():
                self._tables.setdefault(topics.cdc_topic(table, each), ([], each))[0].append(table)
        self._notifications = {topics.cdc_topic("notification", each) for each in generations}
        self._heartbeats = {topics.cdc_topic("heartbeat", each) for each in generations}
        # Topic and partition → the key of its last record, if that was a deletion. Its tombstone follows.
        self._deleted: dict[tuple[str, int], bytes | None] = {}

    def decode(self, record: KafkaRecord) -> Change:
        """Return the change that a record contains.

        Raises:
            DeadLetter: The record differs from Debezium's format for its topic (undecodable, invalid).
        """
        if record.value is None:
            return self._tombstone(record)
        place = record.topic, record.partition
        self._deleted.pop(place, None)
        value = _object(record.value, "value")
        try:
            if record.topic in self._tables:
                change = _table_change(*self._tables[record.topic], record.key, value)
                if value["op"] == "d":
                    self._deleted[place] = record.key
                return change
            if record.topic in self._heartbeats:
                return _logical_message(value, record.timestamp_ms)
            if record.topic in self._notifications:
                return _notification(value)
        except (KeyError, TypeError, ValueError, binascii.Error) as error:
            raise DeadLetter("undecodable", f"not an event of Debezium's: {error!r:.500}") from error
        raise DeadLetter("undecodable", f"{record.topic} is not a topic of these generations")

    def _tombstone(self, record: KafkaRecord) -> MissedDelete | Irrelevant:
        if record.topic not in self._tables or record.key == MARK:
            return Irrelevant()
        # guard: cdc.delete_before_tombstone
        if self._deleted.pop((record.topic, record.partition), None) == record.key:
            return Irrelevant()
        # guard: cdc.young_tombstone
        if record.timestamp_ms > self._clock.now_ms() - MISSED_DELETE_AGE_MS:
            return Irrelevant()
        tables, generation = self._tables[record.topic]
        try:
            id_ = row_id_in(record.key, tables[0])
        except (KeyError, TypeError) as error:
            raise DeadLetter("undecodable", f"a tombstone without the key of a row: {error}") from error
        return MissedDelete(
            tables=tuple(tables), id=id_, generation=generation, deleted_at_ms=max(record.timestamp_ms, 0)
        )


def rows_of(change: object) -> tuple[RowChanged, ...]:
    """Return the rows of a change; none if it is not a change of a row."""
    match change:
        case RowChanged():
            return (change,)
        case RowsChanged(rows=rows):
            return rows
    return ()


def _table_change(tables: Sequence[str], generation: str, key: bytes | None, value: Mapping[str, Any]) -> Change:
    operation, source = value["op"], _mapping(value["source"])
    if operation == "t":
        return TableTruncated(table=tables[0], lsn=_lsn(source))
    if operation not in ("r", "c", "u", "d"):
        raise DeadLetter("undecodable", f"unknown operation {operation!r:.100}")
    rows = _Rows(
        tables=tables,
        id=row_id_in(key, tables[0]),
        version=SNAPSHOT_VERSION if operation == "r" else _lsn(source),
        changed_at_ms=_integer(source["ts_ms"]),
        generation=generation,
        lsn=SNAPSHOT_VERSION if operation == "r" and source.get("lsn") is None else _lsn(source),
    )
    before = value.get("before")
    found = rows.deleted(before) if operation == "d" else rows.written(_mapping(value["after"]), before)
    return found[0] if len(found) == 1 else RowsChanged(rows=found)


@dataclass(frozen=True, kw_only=True)
class _Rows:
    """The rows of the directory's tables that one version of a row of the monolith leads to."""

    tables: Sequence[str]
    id: str
    version: int
    changed_at_ms: int
    generation: str
    lsn: int

    def deleted(self, before: Any) -> tuple[RowChanged, ...]:
        return tuple(
            self._row(
                each, None, applied_version=_applied_version(each, before), earlier=_earlier(each, self.id, before)
            )
            for each in self.tables
        )

    def written(self, after: Mapping[str, Any], before: Any) -> tuple[RowChanged, ...]:
        """Return the rows with their columns.

        Raises:
            DeadLetter: A table cannot have the row (see _columns). RefusedRow if its earlier version must not simply
                stay.
        """
        found: list[RowChanged] = []
        faults: list[DeadLetter] = []
        deleted: list[RowChanged] = []
        unreadable: list[RowChanged] = []
        for table in self.tables:
            try:
                kept = tuple(_lost(captured_tables()[table], after))
                columns = _columns(table, self.id, after, before)
                found.append(self._row(table, columns, kept=kept, earlier=_earlier(table, self.id, before)))
            except DeadLetter as fault:
                faults.append(fault)
                if isinstance(fault, _WithoutOwner):  # guard: cdc.row_without_an_owner
                    deleted.append(self._row(table, None, earlier=_earlier(table, self.id, before)))
                elif directory_table(table) in RULES:  # guard: cdc.refused_settings
                    unreadable.append(self._row(table, {"channels": UNREADABLE}))
        if deleted or unreadable:
            raise RefusedRow(faults[0], deleted=deleted, unreadable=unreadable)
        if faults:
            raise faults[0]
        if lost := [(row, column) for row in found for column in row.kept]:
            row, column = lost[0]
            message = f"{row.table}.{column}: the row {row.id} has lost the column; the earlier value stays"
            raise RefusedRow(DeadLetter("invalid", message), written=found)
        return tuple(found)

    def _row(self, table: str, columns: Mapping[str, Any] | None, **more: Any) -> RowChanged:
        return RowChanged(
            table=table,
            id=self.id,
            version=self.version,
            columns=columns,
            changed_at_ms=self.changed_at_ms,
            generation=self.generation,
            lsn=self.lsn,
            **more,
        )


def _applied_version(table: str, before: Any) -> int | None:
    """Return the preference_version of a deleted row; None if it had none, or none that can be read."""
    value = captured_tables()[table].source.columns.get("preference_version")
    if value is None or not isinstance(before, dict):
        return None
    with suppress(DeadLetter, UnstorableJson):
        found = value.of(before.get, "preference_version")
        return found if has_type(found, "long") else None
    return None


def _earlier(table: str, row_id: str, before: Any) -> Mapping[str, Any] | None:
    """Return the columns of a device before a change, which tell whether the row took its token, and which it lost."""
    if table != DEVICES or not isinstance(before, dict):
        return None
    try:
        return _columns(table, row_id, before, None)
    except DeadLetter:
        return None


class _WithoutOwner(DeadLetter):
    """The column with the owner of a row is null (CapturedTable.owner)."""


def row_id_in(key: bytes | None, name: str) -> str:
    """Return the id of a row of a captured table in the key of its record.

    Raises:
        DeadLetter, KeyError or TypeError: The key is malformed.
    """
    columns, table = _object(key, "key"), captured_tables()[name]
    if len(columns) != len(table.source.key):
        raise DeadLetter("undecodable", f"a key of {len(table.source.key)} columns was expected, not of {len(columns)}")
    if not table.key:
        (value,) = columns.values()
        return str(_integer(value))
    # The values are those of the columns, such as a char(n) without its blanks.
    values = [table.source.columns[each].of(columns.__getitem__, f"{name}.{each}") for each in table.key]
    if not all(map(has_type, values, map(columns_of(name).get, table.key))):
        raise TypeError(f"a key of {', '.join(table.key)} was expected: {values!r:.100}")
    try:
        return row_id(*values)
    except ValueError as error:
        raise DeadLetter("invalid", f"{name}: {error}") from error


def _columns(name: str, row_id: str, after: Mapping[str, Any], before: Any) -> dict[str, Any]:
    """Return the columns of a document in the directory, as schemas/source.yaml derives them from a row.

    Raises:
        DeadLetter: The row lacks a required value or column, or a value has a wrong type (invalid); the database has
            not logged a value (undecodable).
    """
    table = captured_tables()[name]
    source, kinds = table.source, columns_of(name)
    # JSON without its rules could have lost an opt-out.
    strict = source.directory_table in RULES

    def read(column: str) -> Any:
        value = after.get(column)
        if value != _UNAVAILABLE:
            return value
        value = before.get(column, _UNAVAILABLE) if isinstance(before, dict) else _UNAVAILABLE
        if value == _UNAVAILABLE:
            raise DeadLetter(
                "undecodable", f"{source.qualified}.{column} was not logged: the table needs REPLICA IDENTITY FULL"
            )
        return value

    _check_present(table, row_id, after)
    found: dict[str, Any] = dict.fromkeys(table.null_where_absent)
    if "id" in kinds:
        found["id"] = int(row_id)
    for column, value in source.columns.items():
        plain = after.get(value.column) if value.column is not None else None
        # Most values are as they are in the row. All others need column_value, which takes four times as long.
        as_it_is = column in source.plain_columns and type(plain) in _EXACT_TYPES.get(kinds[column], ())
        if isinstance(plain, str):
            # guard: cdc.converted_texts
            as_it_is = as_it_is and plain[-1:] != " " and plain != _UNAVAILABLE
        if as_it_is:
            found[column] = plain
        elif value.column is None or value.column in after or value.default is not None:
            found[column] = column_value(f"{name}.{column}", kinds[column], value, read, strict=strict)
    if source.attributes:
        attributes = {
            each: column_value(f"{name}.attributes.{each}", None, value, read)
            for each, value in source.attributes.items()
        }
        found["attributes"] = {each: value for each, value in attributes.items() if value is not None}
    for column in table.required:
        if found.get(column) is None:
            value = source.columns[column]
            of = f" ({source.qualified}.{value.column})" if value.column else ""
            # A column that the table has lost says nothing about the owner.
            is_null = column == table.owner and value.column in after
            kind = _WithoutOwner if is_null else DeadLetter
            raise kind("invalid", f"{name}.{column}{of} is missing in the row {', '.join(source.key)}={row_id}")
    return found


def _check_present(table: CapturedTable, row_id: str, after: Mapping[str, Any]) -> None:
    """Check that a row has the columns whose loss does not mean null. Raises DeadLetter (invalid)."""
    source = table.source
    for name in table.present:
        value = source.columns.get(name)
        for part in value.parts() if value is not None else ():
            if part.column is not None and part.column not in after:  # guard: cdc.lost_column
                lost = f"{source.qualified}.{part.column}"
                row = f"{', '.join(source.key)}={row_id}"
                raise DeadLetter("invalid", f"{source.name}.{name}: the row {row} has no column {lost}")


def _lost(table: CapturedTable, after: Mapping[str, Any]) -> Iterator[str]:
    """Yield the columns of the directory whose earlier values stay, because a row has no such column any more."""
    for name in table.kept:
        value = table.source.columns.get(name)
        # guard: cdc.lost_time_zone
        if value is not None and any(part.column is not None and part.column not in after for part in value.parts()):
            yield name


def column_value(
    where: str, kind: str | None, value: Value, read: Callable[[str], Any], *, strict: bool = False
) -> Any:
    """Return a value of a document. Raises DeadLetter if the row's value does not fit.

    Args:
        where: The name of the value for errors.
        kind: Its type in the index; None: any JSON.
        value: The value as the source.yaml describes it.
        read: Returns the row's value in a column.
        strict: As in Value.of.
    """
    try:
        found = value.of(read, where, strict=strict)
        if kind == "object" and isinstance(found, str):
            found = _object_in(found, where, is_column=not value.path)
    except UnstorableJson:
        return UNREADABLE if kind == "object" else None
    if found is None or has_type(found, kind):
        return found
    raise DeadLetter("invalid", f"{where} is no {kind}")


def _object_in(text: str, where: str, *, is_column: bool) -> Any:
    """Return the JSON in a text: a whole column, or a value inside one, which may be any text."""
    try:
        found = read_json(text)
    except UnstorableJson:
        raise
    except InvalidJson as error:
        if is_column:
            raise DeadLetter("invalid", f"{where} is not JSON: {error}") from error
        return text
    return found if is_column or isinstance(found, dict) else text


def has_type(value: Any, kind: str | None) -> bool:
    """Return whether a value has a type in the index. JSON and attributes may be anything."""
    if kind in (None, "object"):
        return True
    return isinstance(value, _COLUMN_TYPES[str(kind)]) and isinstance(value, bool) == (kind == "boolean")


def _logical_message(value: Mapping[str, Any], produced_ms: int) -> Change:
    message = _mapping(value["message"])
    if value["op"] != "m" or message["prefix"] != HEARTBEAT_PREFIX:
        return Irrelevant()
    seconds = base64.b64decode(message["content"], validate=True)
    if not _SECONDS.fullmatch(seconds):
        raise ValueError("a heartbeat's content is its time in seconds")
    # The time is rounded down: a heartbeat time that is too early only delays the proof of completeness.
    written_ms = _time(int(Decimal(seconds.decode()) * 1000))
    # A heartbeat is written before it is produced. A later time is that of a clock that is ahead, by which the
    # directory would be complete before it has the latest users.
    ts_ms = min(written_ms, _time(produced_ms))  # guard: directory.database_clock_ahead
    return Heartbeat(lsn=_lsn(_mapping(value["source"])), ts_ms=ts_ms)


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
