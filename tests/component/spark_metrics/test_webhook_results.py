"""Results of webhook messages are counted once and listed, and recompute finds the same."""

import json
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from itertools import permutations
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession

from masscomm.domain.grains import Grain
from spark_metrics.common.database import connect
from spark_metrics.common.span import Span
from spark_metrics.counting.lane_merge import prepare
from spark_metrics.counting.webhook_results import WebhookResults
from tests.support.spark.archived import NOW, Result, result_columns, webhook_results
from tests.support.spark.counted_stream import CountedStream
from tests.support.spark.metrics_job import wait_until
from tests.support.spark.session import PRODUCED_MS, PY4J_SOCKETS, ToFrame

pytestmark = pytest.mark.filterwarnings(PY4J_SOCKETS)

HOUR_MS = 3_600_000
FAILED: dict[str, Any] = {"status": "retried", "http_status": 503, "duration_ms": 30}

type Connection = psycopg.Connection[Any]


@pytest.fixture
def stream(spark: SparkSession, kafka_frame: ToFrame, database: str, tmp_path: Path) -> Iterator[CountedStream]:
    stream = CountedStream(spark, kafka_frame, database, tmp_path / "archive")
    yield stream
    stream.sink.close()


@contextmanager
def a_lane(database: str) -> Iterator[Connection]:
    """The connection of a lane's task."""
    with connect(database, "a lane") as connection:
        prepare(connection)
        yield connection


def merge(connection: Connection, *records: Iterable[Result], successes: int = 3) -> None:
    """Merge the results of records in the open transaction."""

    def copy(table: str, rows: Iterable[tuple[Any, ...]]) -> None:
        with connection.cursor() as cursor, cursor.copy(f"copy {table} from stdin".encode()) as stdin:
            for row in rows:
                stdin.write_row(row)

    connection.execute("delete from batch_lane; insert into batch_lane values (0)")
    results = WebhookResults(successes)
    for record in records:
        results.add(json.dumps(result_columns(*record)))
    results.send(copy)
    results.merge(connection)


def listed(connection: Connection) -> list[Any]:
    rows = connection.execute("select message_id, attempt from webhook_log order by at, message_id, attempt")
    return [f"{message_id} {attempt}" for message_id, attempt in rows]


def test_results_are_counted_once_by_endpoint_and_type(stream: CountedStream) -> None:
    first = (
        Result(message_id="m1"),
        Result(message_id="m2", type="match.started"),
        Result(message_id="m3", club_id=8, endpoint_id="ep_7_b", **FAILED),
    )
    stream.both(
        webhook_results(0, *first),
        webhook_results(0, Result(message_id="m1"), offset=1),
        webhook_results(2, Result(message_id="m3", club_id=8, endpoint_id="ep_7_b", attempt=2)),
    )
    connection = stream.sink.connected()
    for grain in Grain:
        columns = "club_id, endpoint_id, type, status, count_total, duration_ms_total"
        counted = connection.execute(f"select {columns} from {grain.webhook_table}".encode()).fetchall()  # noqa: S608
        assert sorted(counted) == [
            (7, "ep_7_a", "match.finished", "delivered", 1, 10),
            (7, "ep_7_a", "match.started", "delivered", 1, 10),
            (8, "ep_7_b", "match.finished", "delivered", 1, 10),
            (8, "ep_7_b", "match.finished", "retried", 1, 30),
        ]
    columns = "endpoint_id, message_id, attempt, status, event_id, http_status, error"
    log = connection.execute(f"select {columns} from webhook_log order by 1, 2, 3".encode())  # noqa: S608
    assert log.fetchall() == [
        ("ep_7_a", "m1", 1, "delivered", "event of m1", 200, ""),
        ("ep_7_a", "m2", 1, "delivered", "event of m2", 200, ""),
        ("ep_7_b", "m3", 1, "retried", "event of m3", 503, ""),
        ("ep_7_b", "m3", 2, "delivered", "event of m3", 200, ""),
    ]
    assert connection.execute("select count(*) from sends").fetchall() == [(0,)]


@pytest.mark.nightly
@pytest.mark.kills(guard="recompute.results_of_webhooks")
def test_recompute_finds_the_results_of_a_span(stream: CountedStream) -> None:
    """A result counts at the time of its attempt, which may be in the day before its record's."""
    midnight = NOW.replace(hour=0, minute=0, second=0, microsecond=0)
    midnight_ms = round(midnight.timestamp() * 1000)
    late = Result(message_id="late", at_ms=midnight_ms - 1, **FAILED)
    here = Result(message_id="here", at_ms=midnight_ms)
    stream.both(webhook_results(0, here, late, timestamp=midnight_ms + 1), webhook_results(1, Result()))
    assert stream.differing(Span(midnight - timedelta(days=1), midnight)) == 0
    stream.sink.connected().execute("update webhook_counts_hour set duration_ms_total = 0 where status = 'retried'")
    stream.sink.connected().execute("update webhook_log set error = 'x' where message_id = 'late'")
    assert stream.differing() == 2


def test_log_has_the_first_successes_of_an_hour(database: str) -> None:
    """Failures, repetitions and another hour are not limited, and no order of the records changes the log."""
    at_ms = PRODUCED_MS // HOUR_MS * HOUR_MS
    records = [
        [Result(message_id=f"a{n}", at_ms=at_ms + 10 * n) for n in (4, 3, 9)],
        [Result(message_id=f"b{n}", at_ms=at_ms + 10 * n) for n in (2, 4)],
        [
            Result(message_id="next", at_ms=at_ms + HOUR_MS),
            Result(message_id="again", at_ms=at_ms + 900, attempt=2),
            Result(message_id="failed", at_ms=at_ms + 901, **FAILED),
            Result(message_id="other", at_ms=at_ms + 902, endpoint_id="ep_7_b"),
        ],
    ]
    with a_lane(database) as connection:
        for order in permutations(records):
            for record in order:
                with connection.transaction():
                    merge(connection, record)
            assert listed(connection) == ["b2 1", "a3 1", "a4 1", "again 2", "failed 1", "other 1", "next 1"]
            connection.execute("truncate webhook_log")
        with connection.transaction():
            merge(connection, *records)
        assert listed(connection) == ["b2 1", "a3 1", "a4 1", "again 2", "failed 1", "other 1", "next 1"]


@pytest.mark.kills(guard="metrics.sample_of_several_lanes")
def test_concurrent_lanes_list_no_more_successes(database: str) -> None:
    one, other = ([Result(message_id=f"{name}{n}", type=name) for n in range(3)] for name in ("b", "a"))
    with a_lane(database) as first, a_lane(database) as second, ThreadPoolExecutor(1) as thread:
        pid = second.info.backend_pid
        with connect(database, "watch") as watch, first.transaction():
            merge(first, one)

            def merge_other() -> None:
                with second.transaction():
                    merge(second, other)

            merging = thread.submit(merge_other)
            waits = "select from pg_locks where pid = %s and locktype = 'advisory' and not granted"
            wait_until("the second lane", lambda: merging.done() or watch.execute(waits, [pid]).fetchone() is not None)
        merging.result()
        assert listed(first) == ["a0 1", "a1 1", "a2 1"]
