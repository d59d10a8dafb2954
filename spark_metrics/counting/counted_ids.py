"""Stores the ids of counted records, so that redeliveries are recognised.

Each table in counted_id_tables has the ids that were stored from its time to that of the next one. A new table begins
when the latest one has lasted as long as the redelivery window, and a table is dropped when its successor is older than
the window. So an id is stored for at least the window and at most twice as long, its look-up is one insert into a
unique index and one probe of another, and old ids are never deleted one by one. docs/decisions/024 has the cost.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
from psycopg import sql

from spark_metrics.sql import read_sql

ID_BYTES = 16


@dataclass(frozen=True)
class IdTables:
    """The names of the tables, the latest first, and the time since which ids are stored."""

    names: tuple[str, ...]
    since: datetime


def current(connection: psycopg.Connection[Any], at: datetime, window_s: int) -> IdTables:
    """Return the tables for ids that are counted at a time. Begin a new table, and drop old ones, if it is time.

    Only the stream's driver may call this function, between two batches.
    """
    window = timedelta(seconds=window_s)
    with connection.transaction():
        known = connection.execute(
            "select name, since from counted_id_tables order by since desc, name desc"
        ).fetchall()
        if not known or known[0][1] + window <= at:
            known.insert(0, (_begin(connection, at), at))
        kept = 1 + sum(since + window > at for _, since in known[:-1])
        for name, _ in known[kept:]:
            _drop(connection, name)
    return IdTables(tuple(name for name, _ in known[:kept]), known[kept - 1][1])


def store_new(connection: psycopg.Connection[Any], tables: IdTables, source: str, ids: Sequence[bytes]) -> set[int]:
    """Store the ids that are not stored yet. Return the indices of all others; of equal ids the first is new."""
    first: dict[bytes, int] = {}
    refused = {number for number, record_id in enumerate(ids) if first.setdefault(record_id, number) != number}
    cursor = connection.cursor(binary=True)
    # As a parameter: rows of a temporary table would stay until the commit, and each later slice would read them again.
    cursor.execute(_statement(tables), {"ids": f"{{{b''.join(first).hex(',', ID_BYTES)}}}", "source": source})
    if cursor.rowcount < len(first):
        new = {record_id.bytes for (record_id,) in cursor}
        refused |= {number for record_id, number in first.items() if record_id not in new}
    return refused


def _statement(tables: IdTables) -> bytes:
    latest, *earlier = (sql.Identifier(name).as_string() for name in tables.names)
    # A scalar subquery is a look-up in the index for each id. The planner could replace NOT EXISTS by a scan.
    # guard: metrics.counted_ids
    stored = "(select true from {} as t where t.record_id = b.record_id and t.source = %(source)s) is null"
    not_earlier = " and ".join(stored.format(name) for name in earlier) or "true"
    return read_sql("count_ids", latest=latest, not_earlier=not_earlier)


def _begin(connection: psycopg.Connection[Any], at: datetime) -> str:
    name = f"counted_ids_{at.astimezone(UTC):%Y%m%d%H%M%S%f}"
    names = {"table": sql.Identifier(name), "index": sql.Identifier(f"{name}_id")}
    for text in (
        # Vacuum would mark pages for sequential scans, which never happen.
        "create table {table} (record_id uuid not null, source text not null)"
        " with (autovacuum_vacuum_insert_threshold = -1)",
        "create unique index {index} on {table} (record_id, source)",
    ):
        connection.execute(sql.SQL(text).format(**names))
    connection.execute("insert into counted_id_tables (name, since) values (%s, %s)", [name, at])
    return name


def _drop(connection: psycopg.Connection[Any], name: str) -> None:
    connection.execute("delete from counted_id_tables where name = %s", [name])
    connection.execute(sql.SQL("drop table if exists {}").format(sql.Identifier(name)))
