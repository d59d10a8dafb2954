"""With a real Postgres, the archive has each counted record once, from any writer, compacted or not."""

import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from devstack.config import ROOT
from erasure import metrics_store
from erasure.person import ERASED_USER, Person
from masscomm.domain.categories import category_table
from masscomm.domain.ids import chunk_id
from masscomm.errors import Stop
from spark_metrics.archive import LOCK, Archive
from spark_metrics.archive_mark import claim
from spark_metrics.archived_records import archived_facts
from spark_metrics.batches import count_batch
from spark_metrics.counted_ids import IdTables
from spark_metrics.decode import Writers
from spark_metrics.facts import Facts, facts
from spark_metrics.lanes import Lanes
from spark_metrics.recompute import Recompute
from spark_metrics.settings import Settings
from spark_metrics.sink import Attempt, Merged, PostgresSink
from spark_metrics.span import Span
from spark_metrics.views import load_views
from tests.support.spark.archived import NEW, NOW, OLD, WRITERS, a_send, an_outcome
from tests.support.spark.metrics_job import wait_until
from tests.support.spark.session import PRODUCED_MS, PY4J_SOCKETS, Record, ToFrame

pytestmark = pytest.mark.filterwarnings(PY4J_SOCKETS)

EVERYTHING = Span()


NO_IDS = IdTables((), NOW)


class Stream:
    """Counts batches as the job does, without Kafka and in this process."""

    def __init__(
        self, spark: SparkSession, kafka_frame: ToFrame, database: str, folder: Path, *, recipients: bool = False
    ) -> None:
        self.spark, self.frame = spark, kafka_frame
        self.recipients = recipients
        self.settings = Settings(bootstrap_servers="", registry_url="", database_url=database, archive_dir=str(folder))
        self.archive = Archive(spark, str(folder))
        self.sink = PostgresSink(database, views=load_views(self.settings.views), recipients=recipients)
        self.sink.take_over()
        claim(self.sink.connected(), self.archive)
        self.batches = 0

    def count(self, *records: Record) -> Merged:
        self.batches += 1
        merged = count_batch(
            self.frame(records),
            Facts(writers=WRITERS, far_future_ms=86_400_000, recipients=self.recipients),
            Lanes(self.spark, 2, recipients=self.recipients),
            batch_id=self.batches,
            sink=self.sink,
            archive=self.archive,
            learn=lambda unknown: set(unknown),
        )
        assert merged is not None
        return merged

    def facts(self, *records: Record) -> Any:
        return self.frame(records).transform(facts, writers=WRITERS, far_future_ms=86_400_000)

    def offsets(self) -> list[int]:
        """Return the offsets of all counted records in the archive, each as often as the archive has it."""
        frame = self.archive.read(self.archive.folders(self.sink.connected()))
        return sorted(row["kafka_offset"] for row in frame.select("kafka_offset").collect())

    def start_again(self, *, window_s: int) -> None:
        """Start another driver, with another redelivery window."""
        self.sink.close()
        self.settings = replace(self.settings, redelivery_window_s=window_s)
        self.sink = PostgresSink(self.settings.database_url, window_s=window_s, views=load_views(self.settings.views))
        self.sink.take_over()

    def pass_window(self) -> None:
        """Wait until a redelivery window of one second has passed for all counted records."""
        row = self.sink.connected().execute("select clock_timestamp()").fetchone()
        asked = "select clock_timestamp() > %s + interval '1 s'"
        wait_until("a second", lambda: self.sink.connected().execute(asked, row).fetchone() == (True,))

    def differing(self, span: Span = EVERYTHING) -> int:
        """Return the number of rows that recompute finds different, in total or in a span."""

        class WithWriters(Recompute):
            def _writers(self, wanted: Any) -> Writers:
                return WRITERS

        return WithWriters(self.settings, self.spark, span).run()


@pytest.fixture
def stream(spark: SparkSession, kafka_frame: ToFrame, database: str, tmp_path: Path) -> Iterator[Stream]:
    stream = Stream(spark, kafka_frame, database, tmp_path / "archive")
    yield stream
    stream.sink.close()


def batch_folders(stream: Stream) -> list[str]:
    return sorted(path.name for path in Path(stream.archive.folder).glob("date=*/hour=*/batch=*"))


def test_records_of_old_and_new_writers_are_read_as_one(stream: Stream) -> None:
    """Files without a later column, with a new field, and of a returning older writer are read as one archive."""
    stream.count(a_send(0))
    stream.count(a_send(1, NEW, campaign="spring"), a_send(2, OLD))
    stream.count(a_send(3, OLD))
    before = {path: path.read_bytes() for path in Path(stream.archive.folder).rglob("*.parquet")}
    assert stream.offsets() == [0, 1, 2, 3]
    assert stream.differing() == 0

    # This file lacks a column and has one of a later version.
    one = next(path for path in before if "batch=1" in str(path))
    narrow = stream.spark.read.parquet(str(one)).drop("listed").withColumn("of_a_later_version", F.lit(1)).cache()
    assert narrow.count() == 1
    narrow.write.mode("overwrite").parquet(str(one.parent))
    narrow.unpersist()
    assert stream.offsets() == [0, 1, 2, 3]
    assert stream.differing() == 0
    assert all(path.read_bytes() == raw for path, raw in before.items() if path.parent != one.parent)


SECRET = "739182"
A_HEADER = ("traceparent", b"00-secret-header-01")


def with_a_secret(number: int, **changes: Any) -> Record:
    return a_send(number, data={"code": SECRET, "address": "ada@example.org"}, **changes) | {"headers": [A_HEADER]}


def texts_of_archive(stream: Stream) -> str:
    files = [str(path) for path in Path(stream.archive.folder).rglob("*.parquet")]
    rows = [stream.spark.read.parquet(each).collect() for each in files]
    assert files
    return "\n".join(str(row.asDict(recursive=True)) for each in rows for row in each)


def written_by_an_earlier_version(stream: Stream, *records: Record) -> None:
    """Rewrite the files of the last batch with whole records, as versions before the column `run` wrote them."""
    columns = (
        *("topic", "partition", "kafka_offset", "timestamp_ms", "source", "schema_id", "problem", "record_id"),
        *("send_id", "club_id", "type", "at_ms", "chunk_index", "chunk_count", "counts", "attempt", "counted_us"),
    )
    place = ("topic", "partition", "kafka_offset")
    raw = stream.frame(records).withColumnRenamed("offset", "kafka_offset").select(*place, "value", "headers")
    for folder in Path(stream.archive.folder).glob(f"date=*/hour=*/{batch_folders(stream)[-1]}"):
        rows = stream.spark.read.parquet(str(folder)).select(*columns)
        whole = rows.join(raw, list(place)).cache()
        assert whole.count() == rows.count()
        whole.write.mode("overwrite").parquet(str(folder))
        whole.unpersist()


@pytest.mark.guarantee("archive.no_values_or_headers")
def test_no_value_or_header_of_a_record_is_archived(stream: Stream) -> None:
    """Texts, addresses and one-time passwords must not outlive the retention of the topics."""
    poison = {"topic": "send.api", "offset": 9, "value": SECRET.encode(), "headers": [A_HEADER]}
    stream.count(with_a_secret(0), poison)
    assert stream.offsets() == [0, 9]
    texts = texts_of_archive(stream)
    assert "send 0" in texts
    for secret in (SECRET, "ada@", "secret-header", "user_ids"):
        assert secret not in texts
    assert stream.differing() == 0


def test_files_of_earlier_versions_are_counted_with_later_ones(stream: Stream) -> None:
    earlier = (with_a_secret(0), a_send(1, NEW), an_outcome(0, "send 0"), an_outcome(1, "send 5"))
    poison = {"topic": "send.api", "offset": 9, "value": b"poison"}
    stream.count(*earlier, poison)
    written_by_an_earlier_version(stream, *earlier, poison)
    assert SECRET in texts_of_archive(stream)
    stream.count(with_a_secret(10), an_outcome(10, "send 1"), an_outcome(11, "send 0"))
    assert stream.differing() == 0
    stream.sink.connected().execute("update send_totals set count_total = 5 where send_id = 'send 0'")
    assert stream.differing() == 1


@pytest.mark.guarantee("erasure.counts_stay")
@pytest.mark.kills(guard="erasure.archive")
def test_erased_user_is_in_no_file_and_counts_stay(
    spark: SparkSession, kafka_frame: ToFrame, database: str, tmp_path: Path
) -> None:
    """Files of this and earlier versions are erased; a user of another tenant with the same id is not."""
    stream = Stream(spark, kafka_frame, database, tmp_path / "archive", recipients=True)
    earlier = (with_a_secret(0), an_outcome(0, "send 0"))
    stream.count(*earlier)
    written_by_an_earlier_version(stream, *earlier)
    stream.count(a_send(1), an_outcome(1, "send 1"), an_outcome(2, "send 2", club_id=8))
    connection = stream.sink.connected()

    def counts() -> list[Any]:
        tables = ("counts_minute", "counts_day", "sends", "send_channels", "send_totals", "send_states")
        return [connection.execute(f"select * from {table} order by 1, 2, 3, 4").fetchall() for table in tables]  # noqa: S608

    before = counts()
    assert stream.differing() == 0
    person = Person(user_id=2, club_id=7)
    metrics_store.learn(connection, person)
    assert person.clubs == {7, 8}
    assert metrics_store.erase_log(connection, person) == 2
    assert stream.differing() > 0, "the archive still names the user"
    erased = partial(metrics_store.erase_archive, spark, connection, stream.archive.folder, person, lambda _: WRITERS)
    assert erased() == 1
    assert stream.differing() == 0
    assert counts() == before
    logged = connection.execute("select send_id, user_id, club_id from recipient_log order by 1, 2").fetchall()
    assert logged == [
        *[("send 0", user_id, 7) for user_id in (ERASED_USER, 1)],
        *[("send 1", user_id, 7) for user_id in (ERASED_USER, 1)],
        *[("send 2", user_id, 8) for user_id in (1, 2)],
    ]
    rows = stream.archive.read(stream.archive.folders(connection)).where("source = 'outcome'").collect()
    assert sorted((row["club_id"], *sorted(row["user_ids"])) for row in rows) == [(7, 0, 1), (7, 0, 1), (8, 1, 2)]
    assert SECRET not in texts_of_archive(stream)
    assert erased() == 0
    assert metrics_store.erase_log(connection, person) == 0
    stream.count(a_send(10))
    assert stream.differing() == 0
    stream.sink.close()


@pytest.mark.guarantee("archive.earlier_files_are_counted")
@pytest.mark.kills(guard="archive.values_of_earlier_versions")
def test_compaction_removes_values_of_earlier_versions(stream: Stream) -> None:
    earlier = (with_a_secret(0), an_outcome(0, "send 0"))
    stream.count(*earlier)
    written_by_an_earlier_version(stream, *earlier)
    stream.count(with_a_secret(1))
    known = stream.offsets()
    reduced = partial(archived_facts, writers_of=lambda _: WRITERS, recipients=False)
    assert stream.archive.compact(stream.sink.connected(), reduced, before=NOW + timedelta(hours=1)) == 1
    assert SECRET not in texts_of_archive(stream)
    assert stream.offsets() == known
    assert stream.differing() == 0


def test_the_code_that_writes_a_batch_is_compiled_once(stream: Stream) -> None:
    """The generated code must not contain values of a batch, or Spark would compile it for each batch."""
    facts = stream.facts(a_send(0))
    texts = set()
    for number in (1, 2):
        rows: Any = stream.archive.rows(facts, Attempt(number, NOW + timedelta(seconds=number), NO_IDS))
        compiled = rows._jdf.queryExecution().debug().codegenToSeq()
        texts.add("".join(compiled.apply(place)._2() for place in range(compiled.size())))
        assert {(row["attempt"], row["batch"]) for row in rows.collect()} == {(number, number)}
    assert len(texts) == 1
    assert "project" in texts.pop()


def test_another_archive_is_not_counted_again(stream: Stream, tmp_path: Path) -> None:
    stream.count(a_send(0))
    stream.settings = replace(stream.settings, archive_dir=str(tmp_path / "elsewhere"))
    with pytest.raises(Stop, match="holds no archive"):
        stream.differing()


def test_compaction_leaves_each_record_once(stream: Stream) -> None:
    for number in range(3):
        stream.count(a_send(2 * number), a_send(2 * number + 1, timestamp=PRODUCED_MS - 3_600_000))
    stream.count({"topic": "send.api", "offset": 20, "value": b"poison"})
    everything = stream.offsets()
    assert everything == [0, 1, 2, 3, 4, 5, 20]
    connection = stream.sink.connected()
    assert stream.archive.compact(connection, before=NOW) == 1
    assert stream.offsets() == everything
    assert stream.archive.compact(connection, before=NOW + timedelta(hours=1)) == 1
    assert stream.offsets() == everything
    assert len(batch_folders(stream)) == 2
    assert stream.archive.compact(connection, before=NOW + timedelta(hours=1)) == 0
    # A later batch of a compacted hour is compacted together with the hour's file.
    stream.count(a_send(30))
    assert stream.archive.compact(connection, before=NOW + timedelta(hours=1)) == 1
    assert stream.offsets() == [*everything, 30]
    assert stream.differing() == 0


def test_a_compaction_that_was_cut_off_leaves_each_record_once(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    """The compaction was killed between its commit and the removal of the replaced files."""
    stream.count(a_send(0))
    stream.count(a_send(1))
    connection = stream.sink.connected()

    def refuse(self: Archive, path: str) -> None:
        raise OSError(f"no such bucket: {path}")

    with monkeypatch.context() as broken:
        broken.setattr(Archive, "_delete", refuse)
        with pytest.raises(OSError, match="no such bucket"):
            stream.archive.compact(connection, before=NOW + timedelta(hours=1))
    assert len(batch_folders(stream)) == 3
    assert stream.offsets() == [0, 1]
    assert stream.archive.compact(connection, before=NOW + timedelta(hours=1)) == 0
    assert len(batch_folders(stream)) == 1
    assert stream.offsets() == [0, 1]


def test_outcomes_before_their_send_are_compared(stream: Stream) -> None:
    """A send whose chunk is late or unreadable has no hour, so only a comparison without a span includes it."""
    stream.count(a_send(0), an_outcome(0, "send 1"))
    assert stream.differing() == 0
    updated = stream.sink.connected().execute("update send_totals set count_total = 3 where send_id = 'send 1'")
    assert updated.rowcount == 1
    assert stream.differing() == 1
    assert stream.differing(Span(end=NOW + timedelta(days=1))) == 0


@pytest.mark.kills(guard="metrics.remembered_window")
def test_changed_window_recounts_no_earlier_batch(stream: Stream) -> None:
    """Recompute applies to each batch the window with which it was counted."""
    stream.count(a_send(0))
    stream.pass_window()
    stream.count(a_send(1, send_id="send 0"))
    assert stream.differing() == 0
    # An id is stored for the window at least, and at most twice as long.
    stream.start_again(window_s=1)
    assert stream.differing() == 0
    stream.count(a_send(2, send_id="send 0"))
    assert stream.differing() == 0
    stream.pass_window()
    # A longer window does not restore forgotten ids.
    for _ in range(2):
        stream.sink.connected().execute("update counted_id_tables set since = since - interval '2 s'")
        stream.sink.begin()
    stream.start_again(window_s=86_400)
    stream.count(a_send(3, send_id="send 0"))
    stream.count(a_send(4, send_id="send 0"))
    (chunks,) = stream.sink.connected().execute("select chunks from sends").fetchone() or (0,)
    assert chunks == 2
    assert stream.differing() == 0
    stream.archive.compact(stream.sink.connected(), before=NOW + timedelta(hours=1))
    assert stream.differing() == 0


def test_changed_future_limit_recounts_no_earlier_batch(stream: Stream) -> None:
    stream.count(a_send(0, timestamp=PRODUCED_MS + 7_200_000))
    stream.settings = replace(stream.settings, far_future_s=3_600)
    assert stream.differing() == 0


def test_recompute_uses_category_channels_of_counting_time(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recompute uses the category's channels at the time of counting; a send with channels of its own keeps them."""
    stream.count(a_send(0), a_send(1, channels=["sms"]), a_send(2, to_users=[]))
    known = category_table()
    later = {name: replace(entry, channels=("webhook", "sms")) for name, entry in known.categories.items()}
    monkeypatch.setattr("spark_metrics.facts.category_table", lambda: replace(known, categories=later))
    assert stream.differing() == 0
    stream.count(a_send(3))
    channels = stream.sink.connected().execute("select channel from send_channels where send_id = 'send 3'").fetchall()
    assert sorted(channels) == [("sms",), ("webhook",)]
    assert stream.differing() == 0


@pytest.mark.parametrize(
    "order",
    [
        pytest.param((0, 1, 2, 3), marks=pytest.mark.nightly),
        pytest.param((3, 2, 1, 0), marks=pytest.mark.nightly),
        (2, 0, 3, 1),
    ],
)
def test_send_with_conflicting_chunks_follows_the_first_request(stream: Stream, order: tuple[int, ...]) -> None:
    """The earliest request wins in any order of arrival; if times are equal, the smallest values win."""
    chunks = [
        a_send(0, chunk_index=0, club_id=9, timestamp=PRODUCED_MS + 1),
        a_send(1, chunk_index=1, club_id=8, type="a", send_id="send 0"),
        a_send(2, chunk_index=2, club_id=8, type="Z", send_id="send 0"),
        a_send(3, chunk_index=3, club_id=7, send_id="send 0", timestamp=PRODUCED_MS + 2),
    ]
    first, *others = order
    stream.count(chunks[first] | {"offset": 0})
    stream.count(*(chunks[number] | {"offset": place} for place, number in enumerate(others, 1)))
    (served,) = stream.sink.connected().execute("select club_id, type, requested_at, chunks from sends").fetchall()
    assert served == (8, "Z", NOW, 4)
    assert stream.differing() == 0


_WAITS = """
select 1 from pg_locks join pg_database on pg_database.oid = database
where datname = current_database() and locktype = 'advisory' and not granted
"""


def test_compaction_waits_for_readers(stream: Stream, database: str) -> None:
    """An advisory lock keeps the folders that a running recompute has listed."""
    stream.count(a_send(0))
    stream.count(a_send(1))
    listed = batch_folders(stream)
    done = threading.Event()

    def compact() -> None:
        with psycopg.connect(database, autocommit=True) as connection:
            stream.archive.compact(connection, before=NOW + timedelta(hours=1))
        done.set()

    thread = threading.Thread(target=compact)
    with psycopg.connect(database, autocommit=True) as reader:
        reader.execute("select pg_advisory_lock_shared(%s)", [LOCK])
        thread.start()
        while not reader.execute(_WAITS).fetchone():
            assert not done.wait(0.05)
        assert batch_folders(stream) == listed
    thread.join(60)
    assert len(batch_folders(stream)) == 1


@pytest.mark.guarantee("archive_answer.no_bucket")
@pytest.mark.kills(guard="archive.uncounted_batch_is_not_read")
@pytest.mark.kills(guard="archive.uncounted_batch_is_removed")
def test_files_of_an_uncounted_batch_are_ignored_and_removed(stream: Stream) -> None:
    """A driver that was killed after archiving a batch has not counted the batch."""
    stream.count(a_send(0))
    attempt = stream.sink.begin()
    assert stream.sink.archiving(attempt) == []
    stream.archive.write(stream.facts(a_send(1), a_send(2)).withColumn("refused", F.lit(False)), attempt)
    left = f"batch={attempt.number}"
    assert left in batch_folders(stream)
    assert stream.offsets() == [0]
    assert stream.archive.compact(stream.sink.connected(), before=NOW + timedelta(hours=1)) == 0
    assert stream.differing() == 0
    stream.count(a_send(1), a_send(2))
    assert left not in batch_folders(stream)
    assert stream.offsets() == [0, 1, 2]
    rows = stream.sink.connected().execute("select count(*), count(committed_at) from archive_batches")
    assert rows.fetchone() == (2, 2)


@pytest.mark.kills(guard="archive.concurrent_write")
def test_archived_batch_that_failed_to_merge_is_archived_anew(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    """If merging fails, the job still waits for the concurrent write of the archive."""

    def refuse(*_: Any, **__: Any) -> None:
        raise ConnectionError("the database is down")

    with monkeypatch.context() as broken:
        broken.setattr(Lanes, "merge", refuse)
        with pytest.raises(ConnectionError):
            stream.count(a_send(0))
    (left,) = batch_folders(stream)
    assert stream.offsets() == []
    stream.count(a_send(0))
    assert left not in batch_folders(stream)
    assert stream.offsets() == [0]


@pytest.mark.kills(guard="archive.failed_write")
def test_a_batch_that_cannot_be_archived_is_not_counted(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of the concurrent write to the archive fails the batch."""

    def refuse(*_: Any) -> None:
        raise OSError("no such bucket")

    with monkeypatch.context() as broken:
        broken.setattr(Archive, "rows", refuse)
        with pytest.raises(OSError, match="no such bucket"):
            stream.count(a_send(0))
    assert stream.sink.next_offsets() == {}
    stream.count(a_send(0))
    assert stream.offsets() == [0]


@pytest.mark.kills(guard="archive.one_writer")
def test_archive_has_one_writer_or_remover_at_a_time(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the lock Spark's committer would remove the other writer's unfinished files."""
    facts, rows = stream.facts(a_send(0)), Archive.rows
    begun, go_on = threading.Semaphore(0), threading.Semaphore(0)

    def held_up(self: Archive, facts: DataFrame, attempt: Attempt) -> DataFrame:
        begun.release()
        assert go_on.acquire(timeout=60)
        return rows(self, facts, attempt)

    monkeypatch.setattr(Archive, "rows", held_up)
    with stream.archive.written_beside(facts, Attempt(101, NOW, NO_IDS)):
        assert begun.acquire(timeout=60)
        others = [
            threading.Thread(target=stream.archive.write, args=(facts, Attempt(102, NOW, NO_IDS))),
            threading.Thread(target=stream.archive.remove, args=([101],)),
        ]
        for other in others:
            other.start()
        assert not begun.acquire(timeout=0.1)
        assert all(other.is_alive() for other in others)
        go_on.release(2)
    for other in others:
        other.join(60)
    assert batch_folders(stream) == ["batch=102"]


def test_a_redelivery_is_archived_and_not_counted_again(stream: Stream) -> None:
    """The archive has the redelivered record at its own position."""
    stream.count(a_send(0), a_send(1) | {"offset": 5})
    stream.count(a_send(0) | {"offset": 6})
    assert stream.offsets() == [0, 5, 6]
    assert stream.differing() == 0
    refused = stream.sink.connected().execute("select kafka_offset, record_id::text from redelivered").fetchall()
    assert refused == [(6, chunk_id("send 0", 0))]


def test_documented_query_reads_the_archive(stream: Stream, spark: SparkSession) -> None:
    stream.count(a_send(0, channels=["push", "email"]), a_send(1, type="newsletter"))
    page = (ROOT / "docs" / "metrics.md").read_text()
    found = re.search(r'spark-sql -e "(.*)"', page)
    assert found is not None
    query = found[1].replace("\\`", "`").replace("$SPARK_ARCHIVE_DIR", stream.archive.folder)
    rows: list[Row] = spark.sql(re.sub(r"date = '[0-9-]+'", f"date = '{NOW:%Y-%m-%d}'", query)).collect()
    assert sorted(map(tuple, rows)) == [("news", "requested", 4), ("newsletter", "requested", 2)]


def test_batch_is_merged_by_two_spark_jobs(
    spark: SparkSession, kafka_frame: ToFrame, database: str, tmp_path: Path
) -> None:
    """The jobs are the two sides of one shuffle. Counts, states and the log of recipients are read in one pass, because
    planning each job takes longer than counting a small batch.
    """
    stream = Stream(spark, kafka_frame, database, tmp_path / "archive", recipients=True)
    lanes = Lanes(spark, 2, recipients=True)
    spark.sparkContext.setJobGroup("a batch", "counted in this test")
    try:
        merged = count_batch(
            kafka_frame([a_send(0), a_send(1), *(an_outcome(n, f"send {n}") for n in range(3))]),
            Facts(writers=WRITERS, far_future_ms=86_400_000, recipients=True),
            lanes,
            batch_id=1,
            sink=stream.sink,
            archive=None,
            learn=lambda unknown: set(unknown),
        )
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", "")
    assert merged is not None
    assert merged.records == 5
    assert stream.sink.connected().execute("select count(*) from recipient_log").fetchone() == (6,)
    assert len(spark.sparkContext.statusTracker().getJobIdsForGroup("a batch")) == 2
    stream.sink.close()
