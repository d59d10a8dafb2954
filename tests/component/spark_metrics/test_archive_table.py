"""With a real Postgres as its catalog, the archive's table has each record once, from any number of writers."""

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from pyspark.sql import DataFrame, SparkSession

from local.devstack.config import StackConfig
from masscomm.errors import Stop
from masscomm.kafka.avro import InMemorySchemaRegistry
from spark_metrics.archive.archiver import Archiver
from spark_metrics.archive.iceberg import OtherWriter
from spark_metrics.archive.mark import check_table, claim_table
from spark_metrics.archive.table import ArchiveTable
from spark_metrics.common.broker import Ends
from spark_metrics.common.database import connect
from spark_metrics.counting.writers import KnownWriters
from tests.support.fault_stack.proxy import Loop, TcpProxy
from tests.support.spark.archive_writing import SENDS, Writing
from tests.support.spark.archived import NEW, OLD, SCHEMAS, WRITERS, a_send, an_outcome
from tests.support.spark.metrics_job import wait_until
from tests.support.spark.session import PY4J_SOCKETS, Record, ToFrame, new_session

pytestmark = pytest.mark.filterwarnings(PY4J_SOCKETS)


@pytest.fixture
def writing(spark: SparkSession, kafka_frame: ToFrame, database: str, tmp_path: Path) -> Writing:
    return Writing(spark, kafka_frame, database, tmp_path / "archive")


@pytest.mark.guarantee("archive.no_values_or_headers")
@pytest.mark.kills(guard="archive.one_append")
def test_second_writer_of_the_same_offsets_appends_nothing(writing: Writing) -> None:
    """The commit itself decides, so a writer that was replaced meanwhile adds no row."""
    begin = writing.table.appended()
    assert begin.offsets == {SENDS: 0}
    writing.table.append(writing.rows(a_send(0), a_send(1)), begin, {SENDS: 2})
    with pytest.raises(OtherWriter):
        writing.table.append(writing.rows(a_send(0), a_send(1), a_send(2)), begin, {SENDS: 3})
    # A writer that has lost the answer to its own commit finds it done.
    writing.table.append(writing.rows(a_send(0), a_send(1)), begin, {SENDS: 2})
    assert writing.offsets() == [0, 1]
    assert writing.table.appended().offsets == {SENDS: 2}
    poison = {"topic": "send.api", "offset": 2, "value": b"739182", "timestamp_ms": -5}
    writing.table.append(writing.rows(poison, recipients=False), writing.table.appended(), {SENDS: 3})
    assert writing.offsets() == [0, 1, 2]
    # Texts, addresses and one-time passwords must not outlive the retention of the topics.
    assert "739182" not in str([row.asDict(recursive=True) for row in writing.table.records().collect()])


@pytest.mark.nightly
def test_table_is_found_through_another_address(writing: Writing, postgres: StackConfig) -> None:
    """Neither the server's address nor the user's name or password is part of the table's name."""
    user = f"other_{uuid4().hex}"
    names = {"user": sql.Identifier(user), "owner": sql.Identifier("masscomm"), "password": sql.Literal(user)}
    with (
        psycopg.connect(writing.settings.database_url, autocommit=True) as connection,
        Loop() as loop,
    ):
        connection.execute(sql.SQL("create role {user} login password {password} in role {owner}").format(**names))
        try:
            through = TcpProxy(loop, postgres.ports.postgres)
            url = f"postgresql://{user}:{user}@localhost:{through.port}/{connection.info.dbname}"
            other = ArchiveTable(new_session(writing.spark), replace(writing.settings, database_url=url))
            end = other.appended()
            assert end.offsets == {SENDS: 0}
            other.append(writing.rows(a_send(0)), end, {SENDS: 1})
        finally:
            connection.execute(sql.SQL("drop role {user}").format(**names))
    writing.table.append(writing.rows(a_send(1)), writing.table.appended(), {SENDS: 2})
    assert writing.offsets() == [0, 1]


def test_archive_and_database_that_do_not_match_are_refused(
    writing: Writing, spark: SparkSession, tmp_path: Path
) -> None:
    with connect(writing.settings.database_url, "test") as connection:
        claim_table(connection, writing.table, {SENDS: 0})
        check_table(connection, writing.table)
        elsewhere = ArchiveTable(spark, replace(writing.settings, archive_database="elsewhere"))
        with pytest.raises(Stop, match="has no table"):
            check_table(connection, elsewhere)
        connection.execute("update stream_status set archive_id = gen_random_uuid()")
        with pytest.raises(Stop, match="belongs to another database"):
            claim_table(connection, writing.table, {SENDS: 0})
        with pytest.raises(Stop, match="is another archive"):
            check_table(connection, writing.table)
        connection.execute("update stream_status set archive_id = null")
        connection.execute("insert into stream_offsets values ('outcome', 0, 5)")
        claim_table(connection, elsewhere, {SENDS: 0})
        assert not elsewhere.exists()
        with pytest.raises(Stop, match="without an archive"):
            check_table(connection, elsewhere)


class ArchiverOfFrames(Archiver):
    """Reads records from memory instead of Kafka."""

    def __init__(self, writing: Writing, **settings: Any) -> None:
        super().__init__(replace(writing.settings, **settings), writing.spark, lambda: None)
        self.topic: list[Record] = []
        self._frame = writing.frame
        self._broker = self  # type: ignore[assignment]
        self._writers._known = {kind: dict(schemas) for kind, schemas in WRITERS.items()}

    def ends(self, topics: object, *, committed: bool) -> Ends:
        assert committed
        return Ends({SENDS: 0}, {SENDS: len(self.topic)})

    def _read(self, begin: Any, until: Any) -> DataFrame:
        return self._frame(self.topic[begin[SENDS] : until[SENDS]])


@pytest.mark.nightly
def test_archiver_continues_where_the_table_ends(writing: Writing) -> None:
    """No checkpoint: a new archiver, and one that was replaced for a while, continue at the stored offsets."""
    first, second = (ArchiverOfFrames(writing, max_offsets_per_trigger=3) for _ in range(2))
    records = [a_send(number) for number in range(7)]
    first.topic = second.topic = records[:4]
    assert first.append_some()
    assert not second.append_some()
    assert not first.append_some()
    first.topic = records
    assert not first.append_some()
    assert writing.offsets() == [*range(7)]
    first.topic = records[:2]
    with pytest.raises(Stop, match="these are not the topics"):
        first.append_some()


class ArchiverOfGrowingTopic(ArchiverOfFrames):
    """Its topic gets more records than it may append each time."""

    def ends(self, topics: object, *, committed: bool) -> Ends:
        self.topic += [a_send(len(self.topic) + number) for number in range(4)]
        return super().ends(topics, committed=committed)


@pytest.mark.nightly
@pytest.mark.kills(guard="archive.ends_at_its_start")
def test_archive_of_a_growing_topic_ends(writing: Writing, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that ends appends up to the end of the topic at its beginning."""
    archiver, stopped, appends = ArchiverOfGrowingTopic(writing, max_offsets_per_trigger=3), threading.Event(), []

    def counted() -> bool:
        appends.append(Archiver.append_some(archiver))
        if len(appends) == 5:
            stopped.set()
        return appends[-1]

    monkeypatch.setattr(archiver, "append_some", counted)
    archiver.append_all(stopped)
    assert not stopped.is_set()
    assert writing.offsets() == [*range(6)], "the topic had 4 records, and each append takes 3"


@pytest.mark.nightly
def test_archiver_learns_writers_before_it_appends(writing: Writing) -> None:
    archiver, registry = ArchiverOfFrames(writing), InMemorySchemaRegistry()
    ids = [registry.register("send.api-value", SCHEMAS[name]) for name in (OLD, NEW)]
    archiver._writers = KnownWriters(registry, lambda _: True)
    archiver.topic = [a_send(0), a_send(1, NEW)]
    assert archiver.append_some()
    assert writing.offsets() == []
    assert not archiver.append_some()
    archived = writing.table.records().orderBy("kafka_offset").select("schema_id", "problem").collect()
    assert list(map(tuple, archived)) == [(number, None) for number in ids]


def test_columns_of_recipients_are_null_without_the_log(writing: Writing) -> None:
    archiver = ArchiverOfFrames(writing, recipient_log=False)
    archiver.topic = [an_outcome(0, "send 0")]
    archiver.append_some()
    assert [row["user_ids"] for row in writing.table.records().collect()] == [None]


@pytest.mark.guarantee("archive_answer.no_bucket")
def test_archive_that_fails_is_reported_and_continues(
    writing: Writing, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Counting has no part in it: the archiver tries again until the files can be written."""
    archiver = ArchiverOfFrames(writing, archive_trigger_ms=50)
    archiver.topic = [a_send(0)]
    append, failed = ArchiveTable.append, threading.Event()

    def refuse_once(self: ArchiveTable, *arguments: Any) -> None:
        if not failed.is_set():
            failed.set()
            raise OSError("no such bucket")
        append(self, *arguments)

    monkeypatch.setattr(ArchiveTable, "append", refuse_once)
    archiver.start({SENDS: 0})
    wait_until("the record in the archive", lambda: writing.offsets() == [0] or None)
    archiver.stop()
    assert "the archive is behind: no such bucket" in caplog.text
