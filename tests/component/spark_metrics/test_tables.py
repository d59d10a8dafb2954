"""Applying schemas/tables to the tables of an earlier version keeps all counts."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from devstack.provision import SCHEMAS, apply_sql
from spark_metrics import counted_ids

FILES = sorted((SCHEMAS / "tables").glob("*.sql"))
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
LATER = NOON + timedelta(hours=1)

# The tables before ids were packed; in even earlier versions counted_records was not partitioned, revised minutes had
# no club, and ids were staged in rows of their own.
PARTITIONED = b"""
drop view counted_records;
drop table counted_batches, counted_sends, counted_deliveries, counted_outcomes, counted_others, counted_ids_loaded;
create table counted_records (
    record_id  uuid        not null,
    source     text        not null,
    counted_at timestamptz not null default now()
) partition by list (source);
create table counted_sends partition of counted_records for values in ('send');
create table counted_deliveries partition of counted_records for values in ('delivery');
create table counted_outcomes partition of counted_records for values in ('outcome');
create table counted_others partition of counted_records default;
create unique index counted_sends_id on counted_sends (record_id);
create unique index counted_deliveries_id on counted_deliveries (record_id);
create unique index counted_outcomes_id on counted_outcomes (record_id);
create unique index counted_others_id on counted_others (record_id, source);
create index counted_records_at on counted_records using brin (counted_at) with (autosummarize = on);
"""
WHOLE = b"""
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
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection


def contents(connection: psycopg.Connection[Any], query: str) -> list[tuple[Any, ...]]:
    return connection.execute(query.encode()).fetchall()


@pytest.mark.parametrize("earlier", [[PARTITIONED], [PARTITIONED, WHOLE]], ids=["a row an id", "not partitioned"])
def test_ids_counted_before_the_tables_changed_are_refused_after(
    connection: psycopg.Connection[Any], database: str, earlier: list[bytes]
) -> None:
    for tables in earlier:
        connection.execute(tables)
    ids = sorted(
        (source, uuid4(), at) for source in ("send", "delivery", "outcome", "a source to come") for at in (NOON, LATER)
    )
    for source, record_id, at in ids:
        connection.execute("insert into counted_records values (%s, %s, %s)", [record_id, source, at])
    apply_sql(database, FILES)
    batches = connection.cursor(binary=True).execute("select source, ids, counted_at from counted_batches").fetchall()
    assert sorted((source, UUID(bytes=packed), at) for source, packed, at in batches) == ids
    # Repeated records are recognised by their ids, whether these were stored packed or in rows.
    with connection.transaction():
        counted_ids.load(connection)
    for source, record_id, _ in ids:
        connection.execute("truncate staging_ids")
        connection.execute("insert into staging_ids values (1, 0, 0, %s, %s)", [source, record_id.bytes])
        with pytest.raises(psycopg.errors.UniqueViolation), connection.transaction():
            counted_ids.remember(connection, 1, LATER)


def test_rows_of_the_old_shape_are_staged_again(connection: psycopg.Connection[Any], database: str) -> None:
    connection.execute(PARTITIONED)
    connection.execute(WHOLE)
    connection.execute("insert into staging_attempts values (1)")
    connection.execute("insert into staging_ids values (1, 0, 0, 'send', %s)", [uuid4()])
    connection.execute("insert into revised_minutes values ('2026-11-20T12:00:00Z', now(), 1, 5)")
    apply_sql(database, FILES)
    assert contents(connection, "select club_id, late_total from revised_minutes") == [(0, 5)]
    assert contents(connection, "select count(*) from staging_attempts") == [(0,)]
    assert contents(connection, "select ids from staging_ids") == []


def test_windows_of_trends_are_dropped(connection: psycopg.Connection[Any], database: str) -> None:
    """Earlier versions maintained them, and their API read them only while stream_views listed them."""
    connection.execute("create table trending (bucket timestamptz primary key, count_total bigint)")
    connection.execute("insert into stream_views values ('trending', now()), ('recipient_log', now())")
    apply_sql(database, FILES)
    assert contents(connection, "select to_regclass('trending')") == [(None,)]
    assert contents(connection, "select view from stream_views") == [("recipient_log",)]


def test_applying_the_tables_again_changes_nothing(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("insert into counted_batches values ('send', now(), %s)", [uuid4().bytes])
        connection.execute("insert into counted_sends values (%s)", [uuid4()])
        connection.execute("insert into staging_attempts values (1)")
        connection.execute("insert into staging_ids values (1, 0, 0, 'send', %s)", [uuid4().bytes])
        columns = """
            select table_name, column_name, data_type, column_default, is_nullable from information_schema.columns
            where table_schema = 'public' order by 1, 2
        """
        indices = "select indexdef from pg_indexes where schemaname = 'public' order by 1"
        rows = """select (select count(*) from counted_batches), (select count(*) from counted_records),
            (select count(*) from staging_ids)"""
        before = [contents(connection, query) for query in (columns, indices, rows)]
        apply_sql(database, FILES)
        assert [contents(connection, query) for query in (columns, indices, rows)] == before
        assert before[-1] == [(1, 1, 1)]
