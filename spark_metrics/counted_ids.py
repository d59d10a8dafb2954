"""Which records are counted, by id: what refuses a redelivery.

  counted_batches        the ids of each merge and source, packed into one value: this is what is true, and costs little
  counted_sends, …       the same ids, one a row, each table with a unique index: this is what is asked

The latter are unlogged, which nearly halves what an id costs. A server that crashed has emptied them, and so has a
replica that takes over: they are then filled again from the batches before anything is merged. Where they are whole, a
row of counted_ids_loaded says so, which is unlogged as well.

Whoever calls holds the stream, so that nothing is remembered, forgotten and loaded at the same time.
"""

import logging
import struct
from collections.abc import Collection
from datetime import datetime
from typing import Any

import numpy as np
import psycopg

_log = logging.getLogger(__name__)

_ID_BYTES = 16
# The table of each source; _OTHERS holds the source beside the id.
_TABLES = {"send": "counted_sends", "delivery": "counted_deliveries", "outcome": "counted_outcomes"}
_OTHERS = "counted_others"

# (source, record id)
type Ids = Collection[tuple[str, str]]


def remember(connection: psycopg.Connection[Any], attempt: int, counted_at: datetime) -> int:
    """The staged ids of an attempt are counted; how many. Errors: psycopg.errors.UniqueViolation, one was before."""
    copied = 0
    for source, ids in _staged(connection, attempt).items():
        _copy(connection, source, ids)
        copied += len(ids) // _ID_BYTES
    connection.execute(_REMEMBER, {"attempt": attempt, "at": counted_at})
    return copied


def repeated(connection: psycopg.Connection[Any], attempt: int) -> tuple[Ids, Ids]:
    """Of an attempt's staged ids those that are counted, and those that are staged more than once."""
    connection.execute(_TEMPORARY)
    for source, ids in _staged(connection, attempt).items():
        _copy_rows(connection, "these_ids (source, record_id)", ids, source)
    return connection.execute(_COUNTED).fetchall(), connection.execute(_TWICE).fetchall()


def forget(connection: psycopg.Connection[Any], before: datetime) -> int:
    """Delete the ids of merges before then; how many."""
    forgotten = 0
    while row := connection.cursor(binary=True).execute(_FORGET_ONE, [before]).fetchone():
        source, ids = row
        connection.execute(_TEMPORARY)
        _copy_rows(connection, "these_ids (source, record_id)", ids, source)
        connection.execute(_FORGET_THESE[_TABLES.get(source, _OTHERS)])
        connection.execute("truncate these_ids")
        forgotten += len(ids) // _ID_BYTES
    return forgotten


def load(connection: psycopg.Connection[Any]) -> None:
    """Fill the tables of single ids where they are not whole. Needed once a connection: what empties them ends it."""
    if connection.execute("select from counted_ids_loaded").fetchone() is not None:
        return
    loaded = 0
    connection.execute(_EMPTY)
    with connection.cursor(name="counted_batches", binary=True) as batches:
        # One value is as much as one merge counted.
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
    """Ids as rows of a table, each after the texts `before`."""
    with (
        connection.cursor() as cursor,
        cursor.copy(f"copy {into} from stdin (format binary)".encode()) as copy,
    ):
        copy.write(_COPY_BEGIN + _rows(ids, *before) + _COPY_END)


# The binary format of COPY: a signature, then rows, each a number of fields, each of those its length and its bytes.
_COPY_BEGIN = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_COPY_END = b"\xff\xff"


def _rows(ids: bytes, *texts: str) -> bytes:
    """In the order of the index: neighbours go to the same pages."""
    before = struct.pack("!h", len(texts) + 1)
    for text in texts:
        before += struct.pack("!i", len(text.encode())) + text.encode()
    before += struct.pack("!i", _ID_BYTES)
    rows = np.empty(len(ids) // _ID_BYTES, [("before", f"V{len(before)}"), ("id", f"V{_ID_BYTES}")])
    rows["before"] = np.void(before)
    # Of equal first halves any order will do.
    order = np.argsort(np.frombuffer(ids, ">u8")[::2].astype(np.uint64))
    rows["id"] = np.frombuffer(ids, f"V{_ID_BYTES}")[order]
    return rows.tobytes()


_STAGED_IDS = "select source, array_agg(ids) from staging_ids where attempt = %s group by source"

_REMEMBER = """
insert into counted_batches (source, counted_at, ids)
select source, %(at)s, string_agg(ids, ''::bytea) from staging_ids where attempt = %(attempt)s group by source
"""

_TEMPORARY = "create temporary table if not exists these_ids (source text, record_id uuid) on commit drop"

# guard: metrics.counted_ids
_COUNTED = "select distinct source, record_id::text from these_ids join counted_records using (record_id, source)"

_TWICE = "select source, record_id::text from these_ids group by source, record_id having count(*) > 1"

_FORGET_ONE = """
delete from counted_batches
where ctid = (select ctid from counted_batches where counted_at < %s order by counted_at limit 1)
returning source, ids
"""

_EMPTY = b"truncate " + ", ".join((*_TABLES.values(), _OTHERS)).encode()

_FORGET_THESE = {
    table: f"delete from {table} as t using these_ids as f where t.record_id = f.record_id".encode()  # noqa: S608
    + (b" and t.source = f.source" if table == _OTHERS else b"")
    for table in (*_TABLES.values(), _OTHERS)
}
