"""Latencies in a real Postgres: counted once, in the bins of all lanes, and found again from the archive."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from masscomm.domain.grains import LATENCY_GRAINS, Grain
from masscomm.domain.latencies import bin_of
from spark_metrics.archive.archiver import Archiver
from spark_metrics.common.span import Span
from spark_metrics.counting.folding import Folder
from spark_metrics.counting.sink import PostgresSink
from spark_metrics.counting.views import LATENCIES
from tests.component.spark_metrics.test_sink import AT_MS, Record, count
from tests.support.spark.archive_writing import SENDS, Writing
from tests.support.spark.archived import NOW, a_send, an_outcome
from tests.support.spark.counted_stream import DAY_MS, CountedStream
from tests.support.spark.session import PRODUCED_MS, PY4J_SOCKETS, ToFrame

pytestmark = pytest.mark.filterwarnings(PY4J_SOCKETS)


@pytest.fixture
def sink(database: str) -> Iterator[PostgresSink]:
    with closing(PostgresSink(database, views=LATENCIES)) as sink:
        sink.take_over()
        yield sink


def bins(sink: PostgresSink, grain: Grain = Grain.MINUTE) -> list[tuple[str, int, int]]:
    """Return measure, bin and count over all lanes."""
    query = f"select measure, bin, sum(count_total)::bigint from {grain.latency_table} group by 1, 2 order by 1, 2"  # noqa: S608
    return sink.connected().execute(query.encode()).fetchall()


@pytest.mark.kills(guard="metrics.measured_statuses")
def test_sent_and_delivered_count_by_their_latency(sink: PostgresSink) -> None:
    counts = [("push", "sent", None, 3), ("push", "failed", "no_template", 2), ("push", "held", None, 1)]
    records = [
        Record(0, number=1, due_ms=AT_MS - 700, counts=counts),
        Record(1, number=2, due_ms=AT_MS - 700, send_id="another"),
        # A receipt, an outcome whose due time is unknown, and one of a clock that is ahead.
        Record(2, number=3, due_ms=AT_MS - 5_000, counts=[("push", "delivered", None, 1)]),
        Record(3, number=4),
        Record(4, number=5, due_ms=AT_MS + 9_000),
    ]
    count(sink, *records)
    expected = [("delivered", bin_of(5_000), 1), ("sent", 0, 3), ("sent", bin_of(700), 6)]
    for grain in LATENCY_GRAINS:
        assert bins(sink, grain) == expected
    # The same records again, redelivered at later offsets.
    count(sink, *[Record(**vars(each) | {"offset": 10 + each.offset}) for each in records], batch_id=1)
    assert bins(sink) == expected


def test_complete_buckets_have_one_row_a_bin(sink: PostgresSink) -> None:
    folder = Folder([view.sums_of_lanes for view in LATENCIES], grace=timedelta(0))
    count(sink, *[Record(n, number=n, send_id=f"send {n}", due_ms=AT_MS - 700) for n in range(9)])
    before = bins(sink)
    folder.fold(sink.connected(), datetime.fromtimestamp(AT_MS / 1000, UTC) + timedelta(hours=2))
    assert bins(sink) == before == [("sent", bin_of(700), 27)]
    for grain in LATENCY_GRAINS:
        lanes = sink.connected().execute(f"select lane from {grain.latency_table}".encode()).fetchall()  # noqa: S608
        assert lanes == [(-1,)]


@pytest.mark.kills(guard="recompute.later_views")
def test_recompute_finds_the_latencies_of_the_stream(
    spark: SparkSession, kafka_frame: ToFrame, database: str, tmp_path: Path
) -> None:
    stream = CountedStream(spark, kafka_frame, database, tmp_path / "archive")
    with closing(stream.sink):
        stream.both(a_send(0), an_outcome(0, "send 0", due_at=PRODUCED_MS - 700))
        assert stream.differing() == 0
        assert sum(total for _, _, total in bins(stream.sink)) > 0
        stream.sink.connected().execute("update latency_minute set bin = bin + 1")
        assert stream.differing() == 2  # one served row, and one that is recomputed
        # The job counts latencies since later than these records: a version before it has counted them.
        stream.sink.connected().execute("update stream_views set since = %s where view like 'latency_%%'", [NOW])
        assert stream.differing() == 0
        assert stream.differing(Span(NOW - timedelta(milliseconds=DAY_MS))) == 0


@pytest.mark.kills(guard="archive.columns_of_a_version")
def test_archive_of_an_earlier_version_continues(
    spark: SparkSession, kafka_frame: ToFrame, database: str, tmp_path: Path
) -> None:
    writing = Writing(spark, kafka_frame, database, tmp_path / "archive")
    spark.sql(f"alter table {writing.table.name} drop column due_ms")
    writing.rows(a_send(0)).drop("due_ms").writeTo(writing.table.name).append()
    # Before the job of this version has started, its archive is read.
    assert [row["due_ms"] for row in writing.table.records().collect()] == [None]
    Archiver(replace(writing.settings, bootstrap_servers="localhost:1"), spark, lambda: None).claim({SENDS: 0})
    writing.table.append(writing.rows(a_send(1)), writing.table.appended(), {SENDS: 2})
    assert writing.offsets() == [0, 1]
