"""The tables of schemas/tables over those of an earlier version: what was counted stays counted."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from devstack.provision import SCHEMAS, apply_sql

FILES = sorted((SCHEMAS / "tables").glob("*.sql"))

# As they stood before counted_records was partitioned, revised minutes had a club, and ids were staged in rows of many.
EARLIER = b"""
drop table counted_records, revised_minutes, staging_ids, staging_states;
create table counted_records (
    record_id  uuid        not null,
    source     text        not null,
    counted_at timestamptz not null default now(),
    primary key (record_id, source)
);
create index counted_records_at on counted_records using brin (counted_at) with (autosummarize = on);
create table revised_minutes (
    minute       timestamptz primary key,
    revised_at   timestamptz not null,
    late_records bigint      not null,
    late_total   bigint      not null
);
create unlogged table staging_ids (
    attempt bigint, part integer, try integer, source text, record_id uuid
);
create unlogged table staging_states (
    attempt bigint, part integer, try integer, send_id text, chunk_index integer, channel text, placed bigint[]
);
"""


@pytest.fixture
def connection(database: str) -> Iterator[psycopg.Connection[Any]]:
    """Of a database with the tables of the earlier version."""
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(EARLIER)
        yield connection


def contents(connection: psycopg.Connection[Any], query: str) -> list[tuple[Any, ...]]:
    return connection.execute(query.encode()).fetchall()


def test_ids_counted_before_the_tables_changed_are_refused_after(
    connection: psycopg.Connection[Any], database: str
) -> None:
    ids = [(uuid4(), source) for source in ("send", "delivery", "outcome", "a source to come")]
    for record_id, source in ids:
        connection.execute("insert into counted_records values (%s, %s, '2026-11-20T12:00:00Z')", [record_id, source])
    connection.execute("insert into staging_attempts values (1)")
    connection.execute("insert into staging_ids values (1, 0, 0, 'send', %s)", [uuid4()])
    connection.execute("insert into revised_minutes values ('2026-11-20T12:00:00Z', now(), 1, 5)")
    apply_sql(database, FILES)
    kept = contents(
        connection, "select record_id, source from counted_records where counted_at = '2026-11-20T12:00:00Z'"
    )
    assert sorted(kept, key=str) == sorted(ids, key=str)
    assert contents(connection, "select to_regclass('counted_records_before')") == [(None,)]
    # A record of either kind that is counted again meets its id.
    for record_id, source in ids:
        with pytest.raises(psycopg.errors.UniqueViolation):
            connection.execute("insert into counted_records values (%s, %s)", [record_id, source])
    assert contents(connection, "select club_id, late_total from revised_minutes") == [(0, 5)]
    # What was on its way is staged again, in the new shape.
    assert contents(connection, "select count(*) from staging_attempts") == [(0,)]
    assert contents(connection, "select ids from staging_ids") == []


def test_applying_the_tables_again_changes_nothing(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("insert into counted_records values (%s, 'send')", [uuid4()])
        connection.execute("insert into staging_attempts values (1)")
        connection.execute("insert into staging_ids values (1, 0, 0, 'send', %s)", [uuid4().bytes])
        columns = """
            select table_name, column_name, data_type, column_default, is_nullable from information_schema.columns
            where table_schema = 'public' order by 1, 2
        """
        indices = "select indexdef from pg_indexes where schemaname = 'public' order by 1"
        rows = "select (select count(*) from counted_records), (select count(*) from staging_ids)"
        before = [contents(connection, query) for query in (columns, indices, rows)]
        apply_sql(database, FILES)
        assert [contents(connection, query) for query in (columns, indices, rows)] == before
        assert before[-1] == [(1, 1)]
