"""Applying schemas/tables to the tables of an earlier version keeps all counts."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from local.devstack.provision import SCHEMAS, apply_sql
from spark_metrics.counting import counted_ids
from spark_metrics.counting.lane_merge import prepare

FILES = sorted((SCHEMAS / "tables").glob("*.sql"))
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
LATER = NOON + timedelta(hours=1)

# Earlier forms of the ids: packed by batch, and before that a row each, partitioned by source or not.
PACKED = b"""
drop table counted_id_tables;
create table counted_batches (source text not null, counted_at timestamptz not null, ids bytea not null);
create unlogged table counted_sends (record_id uuid not null);
create unlogged table counted_ids_loaded (loaded boolean primary key);
create view counted_records as select record_id, 'send'::text as source from counted_sends;
create unlogged table staging_attempts (attempt bigint primary key, counted_at timestamptz not null default now());
create unlogged table staging_recipients (attempt bigint, user_ids bigint[]);
insert into staging_attempts values (1);
"""
PARTITIONED = b"""
drop table counted_id_tables;
create table counted_records (
    record_id  uuid        not null,
    source     text        not null,
    counted_at timestamptz not null default now()
) partition by list (source);
create table counted_sends partition of counted_records for values in ('send');
create table counted_others partition of counted_records default;
"""
WHOLE = b"""
drop table counted_id_tables, revised_minutes;
create table counted_records (
    record_id  uuid        not null,
    source     text        not null,
    counted_at timestamptz not null default now(),
    primary key (record_id, source)
);
create table revised_minutes (
    minute       timestamptz primary key,
    revised_at   timestamptz not null,
    late_records bigint      not null,
    late_total   bigint      not null
);
insert into revised_minutes values ('2026-11-20T12:00:00Z', now(), 1, 5);
"""


@pytest.fixture
def connection(database: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection


def contents(connection: psycopg.Connection[Any], query: str) -> list[tuple[Any, ...]]:
    return connection.execute(query.encode()).fetchall()


@pytest.mark.parametrize("earlier", [PACKED, PARTITIONED, WHOLE], ids=["packed", "a row an id", "not partitioned"])
def test_ids_counted_before_the_tables_changed_are_refused_after(
    connection: psycopg.Connection[Any], database: str, earlier: bytes
) -> None:
    connection.execute(earlier)
    ids = sorted(
        (source, uuid4(), at) for source in ("send", "delivery", "outcome", "a source to come") for at in (NOON, LATER)
    )
    for source, record_id, at in ids:
        if earlier == PACKED:
            # A batch has several ids; one of them is also in another batch, of a record after the window.
            packed = record_id.bytes + ids[0][1].bytes if source == ids[0][0] else record_id.bytes
            connection.execute("insert into counted_batches values (%s, %s, %s)", [source, at, packed])
        else:
            connection.execute("insert into counted_records values (%s, %s, %s)", [record_id, source, at])
    for _ in range(2):
        apply_sql(database, FILES)
    assert contents(connection, "select name, since from counted_id_tables") == [("counted_ids_earlier", NOON)]
    left = (
        "select relname from pg_class where relname ~ '^(counted|staging)_' and relkind in ('r', 'p', 'v') order by 1"
    )
    assert contents(connection, left) == [("counted_id_tables",), ("counted_ids_earlier",)]
    tables = counted_ids.current(connection, LATER + timedelta(minutes=1), 3600)
    assert len(tables.names) == 2
    prepare(connection)
    for source in {source for source, _, _ in ids}:
        known = [record_id.bytes for kind, record_id, _ in ids if kind == source]
        with connection.transaction():
            assert counted_ids.store_new(connection, tables, source, [*known, uuid4().bytes]) == {0, 1}
    counted_ids.current(connection, LATER + timedelta(minutes=62), 3600)
    assert contents(connection, "select to_regclass('counted_ids_earlier')") == [(None,)]


def test_revised_minutes_without_a_club_are_kept(connection: psycopg.Connection[Any], database: str) -> None:
    connection.execute(WHOLE)
    apply_sql(database, FILES)
    assert contents(connection, "select club_id, late_total from revised_minutes") == [(0, 5)]


def test_old_ids_of_another_owner_are_emptied(connection: psycopg.Connection[Any], database: str) -> None:
    """The user that upgrades owns the table of earlier ids; the job cannot drop it."""
    connection.execute(PARTITIONED)
    connection.execute("insert into counted_records values (%s, 'send', %s)", [uuid4(), NOON])
    apply_sql(database, FILES)
    job = f"job_{uuid4().hex}"
    connection.execute(f"create role {job}".encode())
    connection.execute(f"grant all on all tables in schema public to {job}".encode())
    connection.execute(f"grant usage, create on schema public to {job}".encode())
    connection.execute(f"set role {job}".encode())
    counted_ids.current(connection, NOON + timedelta(hours=2), 3600)
    counted_ids.current(connection, NOON + timedelta(hours=4), 3600)
    assert contents(connection, "select count(*) from counted_ids_earlier") == [(0,)]
    connection.execute("reset role")
    connection.execute(f"drop owned by {job}; drop role {job}".encode())


def test_windows_of_trends_are_dropped(connection: psycopg.Connection[Any], database: str) -> None:
    """Earlier versions maintained them, and their API read them only while stream_views listed them."""
    connection.execute("create table trending (bucket timestamptz primary key, count_total bigint)")
    connection.execute("insert into stream_views values ('trending', now()), ('recipient_log', now())")
    apply_sql(database, FILES)
    assert contents(connection, "select to_regclass('trending')") == [(None,)]
    assert contents(connection, "select view from stream_views") == [("recipient_log",)]


def test_applying_the_tables_again_changes_nothing(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        tables = counted_ids.current(connection, NOON, 3600)
        prepare(connection)
        with connection.transaction():
            counted_ids.store_new(connection, tables, "send", [uuid4().bytes])
        columns = """
            select table_name, column_name, data_type, column_default, is_nullable from information_schema.columns
            where table_schema = 'public' order by 1, 2
        """
        indices = "select indexdef from pg_indexes where schemaname = 'public' order by 1"
        rows = f"select count(*) from {tables.names[0]}"  # noqa: S608
        before = [contents(connection, query) for query in (columns, indices, rows)]
        apply_sql(database, FILES)
        assert [contents(connection, query) for query in (columns, indices, rows)] == before
        assert before[-1] == [(1,)]
