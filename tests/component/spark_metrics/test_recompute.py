"""Recompute counts the archive as the stream has counted the topics, over any span."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from masscomm.domain.categories import category_table
from masscomm.errors import Retry, Stop
from spark_metrics.archive_mark import claim_table
from spark_metrics.archive_table import ArchiveTable, rows_of
from spark_metrics.batches import count_batch
from spark_metrics.facts import Facts
from spark_metrics.lanes import Lanes
from spark_metrics.recompute import Recompute
from spark_metrics.settings import Settings
from spark_metrics.sink import PostgresSink
from spark_metrics.span import Span
from tests.support.spark.archived import NOW, WRITERS, a_send, an_outcome
from tests.support.spark.session import PRODUCED_MS, PY4J_SOCKETS, Record, ToFrame

pytestmark = pytest.mark.filterwarnings(PY4J_SOCKETS)

DAY_MS = 86_400_000


class Stream:
    """Counts and archives records as the job does, without Kafka and in this process."""

    def __init__(self, spark: SparkSession, kafka_frame: ToFrame, database: str, folder: Path) -> None:
        self.spark, self.frame = spark, kafka_frame
        self.settings = Settings(bootstrap_servers="", registry_url="", database_url=database, archive_dir=str(folder))
        self.table = ArchiveTable(spark, self.settings)
        self.sink = PostgresSink(database, recipients=True)
        self.sink.take_over()
        claim_table(self.sink.connected(), self.table, {("send.api", 0): 0, ("outcome", 0): 0})
        self.batches = 0

    def count(self, *records: Record) -> None:
        self.batches += 1
        lanes = Lanes(self.spark, 2, recipients=True)
        count_batch(
            self.frame(records),
            self.facts(),
            lanes,
            attempt=self.sink.begin(),
            batch_id=self.batches,
            sink=self.sink,
            learn=lambda unknown: set(unknown),
        )

    def archive(self, *records: Record) -> None:
        before = self.table.appended()
        after = dict(before.offsets)
        for record in records:
            place = (record["topic"], 0)
            after[place] = max(after[place], record["offset"] + 1)
        self.table.append(rows_of(self.facts()(self.frame(records))), before, after)

    def both(self, *records: Record) -> None:
        self.archive(*records)
        self.count(*records)

    def facts(self) -> Facts:
        return Facts(writers=WRITERS, far_future_ms=DAY_MS, recipients=True)

    def differing(self, span: Span | None = None) -> int:
        return Recompute(self.settings, self.spark, span or Span()).run(wait_s=0)


@pytest.fixture
def stream(spark: SparkSession, kafka_frame: ToFrame, database: str, tmp_path: Path) -> Iterator[Stream]:
    stream = Stream(spark, kafka_frame, database, tmp_path / "archive")
    yield stream
    stream.sink.close()


@pytest.mark.kills(guard="metrics.archived_beyond_the_counts")
def test_recompute_counts_the_records_of_the_stream(stream: Stream) -> None:
    """Left out are redeliveries, quarantined records, and archived records beyond the stream's offsets."""
    poison = {"topic": "send.api", "offset": 3, "value": b"poison"}
    stream.both(a_send(0), a_send(1), a_send(2, send_id="send 0"), poison, an_outcome(0, "send 0"))
    stream.archive(a_send(4))
    assert stream.differing() == 0
    stream.count(a_send(4), a_send(5))
    with pytest.raises(Retry, match=r"send\.api-0 ends at 5, counted are 6"):
        stream.differing()
    stream.archive(a_send(5))
    assert stream.differing() == 0
    stream.sink.connected().execute("update counts_minute set count_total = count_total + 1 where measure = 'sent'")
    assert stream.differing() == 1


def test_span_is_compared_from_its_own_hours(stream: Stream) -> None:
    """The first day's send has an outcome on the third day; the second day's rows are not read for it."""
    day = NOW.replace(hour=0, minute=0, second=0, microsecond=0)
    first = PRODUCED_MS - 2 * DAY_MS
    stream.both(a_send(0, timestamp=first), a_send(1, timestamp=PRODUCED_MS - 5 * DAY_MS), an_outcome(0, "send 0"))
    assert stream.differing(Span(day - timedelta(days=2), day - timedelta(days=1))) == 0
    assert stream.differing(Span(end=day)) == 0
    stream.sink.connected().execute("update sends set chunks = 7 where send_id = 'send 1'")
    stream.sink.connected().execute("update send_totals set count_total = 3 where send_id = 'send 0'")
    assert stream.differing(Span(day - timedelta(days=2), day - timedelta(days=1))) == 1
    assert stream.differing(Span(day - timedelta(days=1))) == 0
    assert stream.differing() == 2


def test_ids_that_were_counted_twice_are_reported(stream: Stream, capsys: pytest.CaptureFixture[str]) -> None:
    stream.both(a_send(0), a_send(1, send_id="send 0"))
    assert stream.differing() == 0
    stream.sink.connected().execute("delete from redelivered")
    assert stream.differing() > 0
    assert "1 record ids were counted twice within the redelivery window" in capsys.readouterr().out


def test_changed_settings_recount_no_earlier_record(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    """The configuration at the time of archiving applies to a record."""
    stream.both(a_send(0), a_send(1, channels=["sms"]), a_send(2, timestamp=PRODUCED_MS + 7_200_000))
    known = category_table()
    later = {name: replace(entry, channels=("webhook", "sms")) for name, entry in known.categories.items()}
    monkeypatch.setattr("spark_metrics.facts.category_table", lambda: replace(known, categories=later))
    stream.settings = replace(stream.settings, far_future_s=3_600)
    assert stream.differing() == 0


def test_another_archive_is_refused(stream: Stream, tmp_path: Path) -> None:
    stream.settings = replace(stream.settings, archive_database="elsewhere")
    with pytest.raises(Stop, match="has no table"):
        stream.differing()


def test_swap_serves_the_recomputed_rows(stream: Stream) -> None:
    stream.both(a_send(0), an_outcome(0, "send 0"))
    stream.sink.connected().execute("update counts_day set count_total = 9")
    stream.sink.connected().execute("delete from send_totals")
    assert Recompute(stream.settings, stream.spark, Span()).run(wait_s=0, swap=True) > 0
    assert stream.differing() == 0
