"""Applying schemas/tables again keeps all tables and rows."""

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import psycopg

from local.devstack.provision import SCHEMAS, apply_sql
from spark_metrics.counting import counted_ids
from spark_metrics.counting.lane_merge import prepare

FILES = sorted((SCHEMAS / "tables").glob("*.sql"))
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def contents(connection: psycopg.Connection[Any], query: str) -> list[tuple[Any, ...]]:
    return connection.execute(query.encode()).fetchall()


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
