"""The results of webhook messages in Postgres."""

from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
import pytest
from psycopg.sql import SQL, Identifier, Placeholder

from local.devstack.config import StackConfig
from masscomm.domain.grains import Grain
from masscomm.stores.metrics.in_memory import StoredWebhookCount
from masscomm.stores.metrics.port import MetricsStore, WebhookLogQuery, WebhookLogRow
from masscomm.stores.metrics.postgres import PostgresMetricsStore
from masscomm.stores.metrics_database import connection_pool
from tests.support.contracts.webhook_results import ENDPOINT, NOON, Stored, WebhookResultsContract
from tests.support.servers.metrics_database import metrics_database


@pytest.fixture(scope="module")
def url(postgres: StackConfig) -> Iterator[str]:
    with metrics_database(postgres) as url:
        yield url


def insert(connection: psycopg.Connection[Any], table: str, columns: dict[str, Any]) -> None:
    columns.pop("key")
    names = SQL(", ").join(map(Identifier, columns))
    statement = SQL("insert into {} ({}) values ({})").format(
        Identifier(table), names, SQL(", ").join(map(Placeholder, columns))
    )
    connection.execute(statement, columns)


class TestPostgresMetricsStore(WebhookResultsContract):
    @pytest.fixture
    def stored(self, url: str) -> Iterator[Stored]:
        with psycopg.connect(url) as connection, connection_pool(url) as pool:

            def store(rows: Sequence[WebhookLogRow], counts: Sequence[StoredWebhookCount]) -> MetricsStore:
                for row in rows:
                    insert(connection, "webhook_log", vars(row.key) | vars(row))
                for each in counts:
                    columns = vars(each.count.key) | vars(each.count) | {"endpoint_id": each.endpoint_id}
                    # Each lane has rows of its own until the bucket is complete.
                    of_lane = {"lane": 3, "count_total": 1, "duration_ms_total": 4}
                    rest = {name: columns[name] - of_lane[name] for name in ("count_total", "duration_ms_total")}
                    for row_of_lane in (columns | rest, columns | of_lane):
                        insert(connection, each.granularity.webhook_table, row_of_lane)
                connection.commit()
                return PostgresMetricsStore(pool)

            yield store
            connection.execute("truncate webhook_log")
            for grain in Grain:
                connection.execute(f"truncate {grain.webhook_table}".encode())

    def test_deleted_days_are_named(self, stored: Stored, url: str) -> None:
        with psycopg.connect(url) as connection:
            connection.execute("insert into stream_retention values ('webhook_log', %s)", [NOON])
        assert stored([], []).webhook_log(WebhookLogQuery(endpoint_id=ENDPOINT)).kept_since == NOON
        with psycopg.connect(url) as connection:
            connection.execute("delete from stream_retention")
