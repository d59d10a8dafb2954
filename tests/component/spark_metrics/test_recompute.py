"""Recompute counts the archive as the stream has counted the topics, over any span."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from masscomm.domain.categories import category_table
from masscomm.errors import Retry, Stop
from spark_metrics.archive.iceberg import Appended
from spark_metrics.common.span import Span
from spark_metrics.recompute import Recompute
from tests.support.spark.archived import NOW, a_send, an_outcome
from tests.support.spark.counted_stream import DAY_MS, CountedStream
from tests.support.spark.session import PRODUCED_MS, PY4J_SOCKETS, ToFrame

pytestmark = pytest.mark.filterwarnings(PY4J_SOCKETS)

VIEWS = [f"tests.support.spark.club_days:{name}" for name in ("CLUB_DAYS", "CLUB_WEEKS")]
TODAY = NOW.replace(hour=0, minute=0, second=0, microsecond=0)


@pytest.fixture
def stream(spark: SparkSession, kafka_frame: ToFrame, database: str, tmp_path: Path) -> Iterator[CountedStream]:
    stream = CountedStream(spark, kafka_frame, database, tmp_path / "archive", VIEWS)
    yield stream
    stream.sink.close()


@pytest.mark.kills(guard="metrics.archived_beyond_the_counts")
def test_recompute_counts_the_records_of_the_stream(stream: CountedStream) -> None:
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


@pytest.mark.nightly
def test_span_is_compared_from_its_own_hours(stream: CountedStream) -> None:
    """The first day's send has an outcome on the third day; the second day's rows are not read for it."""
    day = TODAY
    first = PRODUCED_MS - 2 * DAY_MS
    stream.both(a_send(0, timestamp=first), a_send(1, timestamp=PRODUCED_MS - 5 * DAY_MS), an_outcome(0, "send 0"))
    assert stream.differing(Span(end=day)) == 0
    stream.sink.connected().execute("update sends set chunks = 7 where send_id = 'send 1'")
    stream.sink.connected().execute("update send_totals set count_total = 3 where send_id = 'send 0'")
    assert stream.differing(Span(day - timedelta(days=2), day - timedelta(days=1))) == 1
    assert stream.differing(Span(day - timedelta(days=1))) == 0
    assert stream.differing() == 2


@pytest.mark.nightly
def test_hours_are_merged_one_after_the_other(stream: CountedStream, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here each in a part of its own: the records of one send are in several."""
    monkeypatch.setattr("spark_metrics.recompute._PART", 1)
    times = [PRODUCED_MS - 3_600_000 * hours for hours in (0, 1, 40)]
    stream.both(*[a_send(n, timestamp=at_ms, chunk_index=n, send_id="send 0") for n, at_ms in enumerate(times)])
    stream.both(*[an_outcome(n, f"send {n}", timestamp=at_ms) for n, at_ms in enumerate(times)])
    assert len(stream.table.hours(stream.table.appended().snapshot)) == len(times)
    assert stream.differing() == 0
    stream.sink.connected().execute("update sends set chunks = 2")
    assert stream.differing(Span(TODAY)) == 0
    assert stream.differing(Span(TODAY - timedelta(days=2), TODAY)) == 1


@pytest.mark.nightly
def test_bucket_of_a_view_that_the_span_cuts_is_counted_whole(stream: CountedStream) -> None:
    """The week begins before the days of which a send's records may be."""
    stream.both(a_send(0, timestamp=PRODUCED_MS - 4 * DAY_MS), a_send(1))
    assert stream.differing(Span(TODAY)) == 0
    stream.sink.connected().execute("update club_weeks set count_total = count_total + 1")
    assert stream.differing(Span(TODAY)) == 1
    stream.table.delete_before(TODAY - timedelta(days=3))
    assert stream.differing() == 0


@pytest.mark.nightly
@pytest.mark.kills(guard="recompute.wrong_clock")
def test_outcome_of_a_wrong_clock_belongs_to_its_send(stream: CountedStream) -> None:
    """It counts in a day of 1970, and in the totals of a send of today."""
    stream.both(a_send(0), an_outcome(0, "send 0", timestamp=PRODUCED_MS - 30 * DAY_MS))
    assert stream.differing(Span(TODAY)) == 0
    assert stream.differing(Span(end=TODAY)) == 0
    stream.table.delete_before(TODAY)
    assert stream.table.records().count() == 2


@pytest.mark.nightly
def test_deleted_records_are_not_compared(stream: CountedStream, capsys: pytest.CaptureFixture[str]) -> None:
    early = PRODUCED_MS - 5 * DAY_MS
    stream.both(a_send(0, timestamp=early) | {"timestamp_ms": early}, a_send(1))
    stream.table.delete_before(TODAY - timedelta(days=3))
    assert stream.table.records().count() == 1
    assert stream.differing() == 0
    assert "compared from 2023-11-12 01:00:00+00:00 on" in capsys.readouterr().out
    with pytest.raises(Stop, match="no records before 2023-11-11"):
        stream.differing(Span(end=TODAY - timedelta(days=2)))


@pytest.mark.kills(guard="recompute.deleted_records")
def test_records_deleted_during_a_recompute_stop_it(stream: CountedStream, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a swap would remove the counts of the deleted records."""
    early = PRODUCED_MS - 5 * DAY_MS
    stream.both(a_send(0, timestamp=early) | {"timestamp_ms": early}, a_send(1))
    await_archive = Recompute._await_archive

    def delete_first(self: Recompute, *arguments: Any) -> Appended:
        stream.table.delete_before(TODAY)
        return await_archive(self, *arguments)

    monkeypatch.setattr(Recompute, "_await_archive", delete_first)
    with pytest.raises(Retry, match="deleted from the archive meanwhile"):
        Recompute(stream.settings, stream.spark, Span()).run(wait_s=0, swap=True)
    kept = stream.sink.connected().execute("select count(*) from sends").fetchone()
    assert kept == (2,)
    left = "select count(*) from pg_class where relnamespace = 'recompute'::regnamespace and relkind = 'r'"
    assert stream.sink.connected().execute(left).fetchone() == (0,)


@pytest.mark.nightly
def test_ids_that_were_counted_twice_are_reported(stream: CountedStream, capsys: pytest.CaptureFixture[str]) -> None:
    stream.both(a_send(0), a_send(1, send_id="send 0"))
    assert stream.differing() == 0
    stream.sink.connected().execute("delete from redelivered")
    assert stream.differing() > 0
    assert "1 record ids were counted twice within the redelivery window" in capsys.readouterr().out


@pytest.mark.nightly
def test_changed_settings_recount_no_earlier_record(stream: CountedStream, monkeypatch: pytest.MonkeyPatch) -> None:
    """The configuration at the time of archiving applies to a record."""
    stream.both(a_send(0), a_send(1, channels=["fax"]))
    known = category_table()
    later = {name: replace(entry, channels=("webhook", "fax")) for name, entry in known.categories.items()}
    monkeypatch.setattr("spark_metrics.counting.facts.category_table", lambda: replace(known, categories=later))
    assert stream.differing() == 0


def test_another_archive_is_refused(stream: CountedStream, tmp_path: Path) -> None:
    stream.settings = replace(stream.settings, archive_database="elsewhere")
    with pytest.raises(Stop, match="has no table"):
        stream.differing()


@pytest.mark.nightly
def test_swap_serves_the_recomputed_rows(stream: CountedStream) -> None:
    stream.both(a_send(0), an_outcome(0, "send 0"))
    stream.sink.connected().execute("update counts_day set count_total = 9")
    stream.sink.connected().execute("delete from send_totals")
    assert Recompute(stream.settings, stream.spark, Span()).run(wait_s=0, swap=True).swapped
    assert stream.differing() == 0
