"""For any query over any rows in Postgres, the response is a group-by of the events and equals its pages together."""

from collections.abc import Iterator
from datetime import timedelta

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg.sql import SQL, Identifier, Placeholder

from functions.metrics_handler.routes.metrics import MetricsRoute
from local.devstack.config import StackConfig
from masscomm.clock import FixedClock
from masscomm.domain.grains import REASONS_TABLE
from masscomm.http.tenant import ALL_CLUBS
from masscomm.stores.metrics.postgres import PostgresMetricsStore
from masscomm.stores.metrics_database import connection_pool
from tests.support.inputs.metrics_queries import Event, events, expected, queries, rows_of, stored
from tests.support.servers.metrics_database import metrics_database

type Database = tuple[psycopg.Connection[tuple[int, ...]], MetricsRoute]


@pytest.fixture(scope="module")
def database(postgres: StackConfig) -> Iterator[Database]:
    with (
        metrics_database(postgres) as url,
        psycopg.connect(url, autocommit=True) as connection,
        connection_pool(url) as pool,
    ):
        yield connection, MetricsRoute(PostgresMetricsStore(pool), FixedClock(), timedelta())


def fill(connection: psycopg.Connection[tuple[int, ...]], happened: list[Event]) -> None:
    with connection.transaction(), connection.cursor() as cursor:
        cursor.execute("delete from counts_minute; delete from counts_hour; delete from counts_day")
        cursor.execute("delete from reasons_hour")
        for row in stored(happened):
            columns = ["bucket", "club_id", "type", "channel", "measure", "count_total"]
            columns += ["reason"] if row.reason else []
            statement = SQL("insert into {} ({}) values ({})").format(
                Identifier(REASONS_TABLE if row.reason else row.granularity.table),
                SQL(", ").join(map(Identifier, columns)),
                SQL(", ").join(map(Placeholder, columns)),
            )
            cursor.execute(statement, vars(row))


@settings(max_examples=150)
@given(events, queries(), st.integers(1, 40))
def test_answers_and_pages_are_a_group_by(
    database: Database, happened: list[Event], asked: dict[str, list[str]], limit: int
) -> None:
    connection, query = database
    fill(connection, happened)
    everything = expected(happened, asked)
    assert rows_of(query.answer(asked | {"limit": ["10000"]}, ALL_CLUBS)) == everything[:10_000]
    if len(everything) > 12 * limit:
        return
    body = query.answer(asked | {"limit": [str(limit)]}, ALL_CLUBS)
    paged = rows_of(body)
    while cursor := body["next_cursor"]:
        body = query.answer(asked | {"limit": [str(limit)], "cursor": [cursor]}, ALL_CLUBS)
        paged += rows_of(body)
    assert paged == everything
