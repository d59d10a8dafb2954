"""Stores the ids of counted records, so that redeliveries are recognised.

  counted_batches        the ids of each merge and source, packed into one value: durable, and cheap to write
  counted_sends, …       the same ids, one per row, each table with a unique index: for look-ups

The tables with single ids are unlogged, which nearly halves the cost of an id. They are empty after a crash of the
server and on a replica that takes over; then they are loaded from counted_batches before the next merge. A row in the
unlogged table counted_ids_loaded shows that they are complete.

The caller must have locked the row in stream_status, so that no other transaction changes the ids concurrently.
"""

import logging
import struct
from collections.abc import Collection
from datetime import datetime
from typing import Any

import numpy as np
import psycopg

from spark_metrics.sql import read_sql

_log = logging.getLogger(__name__)

_ID_BYTES = 16
# The table for each source. The table _OTHERS has the ids of all other sources, with the source in a column.
_TABLES = {"send": "counted_sends", "delivery": "counted_deliveries", "outcome": "counted_outcomes"}
_OTHERS = "counted_others"

# (source, record id)
type Ids = Collection[tuple[str, str]]


def remember(connection: psycopg.Connection[Any], attempt: int, counted_at: datetime) -> int:
    """Store the staged ids of an attempt as counted, and return their number.

    Raises psycopg.errors.UniqueViolation if an id was counted before.
    """
    copied = 0
    for source, ids in _staged(connection, attempt).items():
        _copy(connection, source, ids)
        copied += len(ids) // _ID_BYTES
    connection.execute(read_sql("remember_ids"), {"attempt": attempt, "at": counted_at})
    return copied


def repeated(connection: psycopg.Connection[Any], attempt: int) -> tuple[Ids, Ids]:
    """Return the staged ids of an attempt that were counted before, and those that are staged more than once."""
    connection.execute(_TEMPORARY)
    for source, ids in _staged(connection, attempt).items():
        _copy_rows(connection, "these_ids (source, record_id)", ids, source)
    return connection.execute(_COUNTED).fetchall(), connection.execute(_TWICE).fetchall()


def forget(connection: psycopg.Connection[Any], before: datetime) -> int:
    """Delete the ids of merges before a time, and return their number."""
    forgotten = 0
    while row := connection.cursor(binary=True).execute(read_sql("oldest_ids_before"), [before]).fetchone():
        source, ids = row
        connection.execute(_TEMPORARY)
        _copy_rows(connection, "these_ids (source, record_id)", ids, source)
        connection.execute(_FORGET_THESE[_TABLES.get(source, _OTHERS)])
        connection.execute("truncate these_ids")
        forgotten += len(ids) // _ID_BYTES
    return forgotten


def load(connection: psycopg.Connection[Any]) -> None:
    """Load the tables of single ids if they are incomplete. One call per connection is enough: a crash ends the
    connection.
    """
    if connection.execute("select from counted_ids_loaded").fetchone() is not None:
        return
    loaded = 0
    connection.execute(_EMPTY)
    with connection.cursor(name="counted_batches", binary=True) as batches:
        # Each row has all ids of one merge, so fetch one row at a time.
        batches.itersize = 1
        for source, ids in batches.execute("select source, ids from counted_batches order by counted_at"):
            _copy(connection, source, ids)  # guard: metrics.counted_ids_after_crash
            loaded += len(ids) // _ID_BYTES
    connection.execute("insert into counted_ids_loaded values (true)")
    _log.info("loaded %d counted ids", loaded)


def _staged(connection: psycopg.Connection[Any], attempt: int) -> dict[str, bytes]:
    rows = connection.cursor(binary=True).execute(_STAGED_IDS, [attempt]).fetchall()
    return {source: b"".join(packed) for source, packed in rows}


def _copy(connection: psycopg.Connection[Any], source: str, ids: bytes) -> None:
    if table := _TABLES.get(source):
        _copy_rows(connection, f"{table} (record_id)", ids)
    else:
        _copy_rows(connection, f"{_OTHERS} (source, record_id)", ids, source)


def _copy_rows(connection: psycopg.Connection[Any], into: str, ids: bytes, *before: str) -> None:
    """Copy ids into a table; the texts in `before` are the columns before the id."""
    with (
        connection.cursor() as cursor,
        cursor.copy(f"copy {into} from stdin (format binary)".encode()) as copy,
    ):
        copy.write(_COPY_BEGIN + _rows(ids, *before) + _COPY_END)


# The binary format of COPY: a signature, then for each row the number of fields, and each field's length and bytes.
_COPY_BEGIN = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_COPY_END = b"\xff\xff"


def _rows(ids: bytes, *texts: str) -> bytes:
    """Return the rows in the order of the index, so that neighbouring ids are written to the same pages."""
    before = struct.pack("!h", len(texts) + 1)
    for text in texts:
        before += struct.pack("!i", len(text.encode())) + text.encode()
    before += struct.pack("!i", _ID_BYTES)
    rows = np.empty(len(ids) // _ID_BYTES, [("before", f"V{len(before)}"), ("id", f"V{_ID_BYTES}")])
    rows["before"] = np.void(before)
    # Only the first half of each id is compared: the order within equal halves does not matter.
    order = np.argsort(np.frombuffer(ids, ">u8")[::2].astype(np.uint64))
    rows["id"] = np.frombuffer(ids, f"V{_ID_BYTES}")[order]
    return rows.tobytes()


_STAGED_IDS = "select source, array_agg(ids) from staging_ids where attempt = %s group by source"

_TEMPORARY = "create temporary table if not exists these_ids (source text, record_id uuid) on commit drop"

# guard: metrics.counted_ids
_COUNTED = "select distinct source, record_id::text from these_ids join counted_records using (record_id, source)"

_TWICE = "select source, record_id::text from these_ids group by source, record_id having count(*) > 1"

_EMPTY = b"truncate " + ", ".join((*_TABLES.values(), _OTHERS)).encode()

_FORGET_THESE = {
    table: f"delete from {table} as t using these_ids as f where t.record_id = f.record_id".encode()  # noqa: S608
    + (b" and t.source = f.source" if table == _OTHERS else b"")
    for table in (*_TABLES.values(), _OTHERS)
}
