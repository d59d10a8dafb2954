"""The archive answers queries, and its maintenance and erasure lose no record."""

import csv
import io
import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import DataFrame, SparkSession

from local.devstack.config import ROOT
from local.devstack.service import base_environment
from local.devstack.services.spark import driver_options, spark_jars
from masscomm.errors import Stop
from ops.erasure.person import ERASED_USER
from spark_metrics.archive.table import ArchiveTable
from spark_metrics.archive.uncounted import UncountedTable
from spark_metrics.maintenance import maintain
from spark_metrics.query import query
from tests.support.spark.archive_writing import SENDS, Writing
from tests.support.spark.archived import NOW, a_send, an_outcome
from tests.support.spark.counted_stream import CountedStream
from tests.support.spark.metrics_job import WAIT_S
from tests.support.spark.session import PRODUCED_MS, PY4J_SOCKETS, ToFrame

pytestmark = pytest.mark.filterwarnings(PY4J_SOCKETS)

LATER = datetime.now(UTC) + timedelta(days=1)


@pytest.fixture
def writing(spark: SparkSession, kafka_frame: ToFrame, database: str, tmp_path: Path) -> Writing:
    writing = Writing(spark, kafka_frame, database, tmp_path / "archive")
    UncountedTable(spark, writing.settings).make()
    return writing


@pytest.fixture
def stream(spark: SparkSession, kafka_frame: ToFrame, database: str, tmp_path: Path) -> Iterator[CountedStream]:
    stream = CountedStream(spark, kafka_frame, database, tmp_path / "archive")
    yield stream
    stream.sink.close()


def append(writing: Writing, rows: DataFrame, end: int) -> None:
    writing.table.append(rows, writing.table.appended(), {SENDS: end})


def answer(writing: Writing | CountedStream, text: str, at: datetime | None = None) -> list[list[str]]:
    out = io.StringIO()
    query(writing.settings, writing.spark, text, out, at=at, form="csv")
    return list(csv.reader(out.getvalue().splitlines()))


POISON = {"topic": "send.api", "offset": 2, "value": b"poison"}


def test_documented_queries_and_time_travel(stream: CountedStream) -> None:
    """One record is redelivered and one cannot be decoded: the documented queries leave both out."""
    stream.both(a_send(0), a_send(1, send_id="send 0"), POISON, an_outcome(0, "send 0"))
    then = datetime.now(UTC)
    stream.both(a_send(3, channels=["push", "email"]))
    page = (ROOT / "docs" / "internals" / "metrics-job.md").read_text()
    questions = re.findall(r'^    masscomm query "(.*)"$', page, re.MULTILINE)
    assert len(questions) == 5
    answers = [answer(stream, question) for question in questions]
    hour = NOW.replace(minute=0, second=0, microsecond=0, tzinfo=None).isoformat(sep=" ")
    assert answers[0] == [
        ["hour", "type", "measure", "n"],
        [hour, "news", "requested", "6"],
        [hour, "news", "sent", "2"],
    ]
    assert answers[2][1:] == [["send 3", "4", "0.0"], ["send 0", "2", "0.0"]]
    assert answers[3][1][:3] == ["send.api", "undecodable", "1"]
    assert answers[4][1:] == [["send.api", answers[4][1][1], "1"]]
    records = "select count(*) as records from records"
    assert answer(stream, records) == [["records"], ["5"]]
    assert answer(stream, records, then) == [["records"], ["4"]]
    with pytest.raises(Stop, match="Cannot find a snapshot older than 2020-01-01"):
        answer(stream, records, datetime(2020, 1, 1, tzinfo=UTC))
    with pytest.raises(Stop, match="the query failed"):
        answer(stream, "select nothing from records")
    out = io.StringIO()
    query(stream.settings, stream.spark, records, out, at=None)
    assert out.getvalue().splitlines() == ["+-------+", "|records|", "+-------+", "|5      |", "+-------+", ""]
    rows = "select topic, null as nothing, count(*) as n from records group by topic order by topic"
    out = io.StringIO()
    query(stream.settings, stream.spark, rows, out, at=then, form="json")
    assert [json.loads(line) for line in out.getvalue().splitlines()] == [
        {"topic": "outcome", "nothing": None, "n": 1},
        {"topic": "send.api", "nothing": None, "n": 3},
    ]
    with pytest.raises(Stop, match="several columns are named topic"):
        query(stream.settings, stream.spark, "select topic, topic from records", io.StringIO(), at=None, form="json")


def served(stream: CountedStream) -> list[tuple[Any, ...]]:
    """Return what the metrics API sums for each hour, channel and measure."""
    text = "select to_char(bucket, 'YYYY-MM-DD HH24:MI:SS'), channel, measure, sum(count_total)::text from counts_hour"
    return sorted(stream.sink.connected().execute(f"{text} group by 1, 2, 3").fetchall())


ARCHIVED_COUNTS = """select date_trunc('hour', at), c.channel, c.measure, sum(c.count_total) from counted
lateral view explode(counts) as c group by 1, 2, 3"""


@pytest.mark.nightly
@pytest.mark.guarantee("archive.counted_records_equal_the_api")
@pytest.mark.kills(guard="archive.uncounted_positions")
def test_counted_records_equal_the_served_counts(stream: CountedStream) -> None:
    """Also after a redelivery, with a quarantined record, and while archive or stream is behind the other."""
    stream.both(a_send(0), a_send(1, send_id="send 0"), POISON, an_outcome(0, "send 0"))
    stream.archive(a_send(3))
    assert sorted(map(tuple, answer(stream, ARCHIVED_COUNTS)[1:])) == served(stream)
    reasons = "select kafka_offset, reason from uncounted order by 1"
    assert answer(stream, reasons)[1:] == [["1", "redelivered"], ["2", "undecodable"]]
    stream.count(a_send(3), a_send(4), a_send(5, send_id="send 3"))
    stream.archive(a_send(4), a_send(5, send_id="send 3"))
    assert sorted(map(tuple, answer(stream, ARCHIVED_COUNTS)[1:])) == served(stream)
    UncountedTable(stream.spark, stream.settings).continue_from(stream.sink.connected())
    assert answer(stream, reasons)[1:] == [["1", "redelivered"], ["2", "undecodable"], ["5", "redelivered"]]


def test_archive_without_uncounted_positions_is_reported(
    spark: SparkSession, kafka_frame: ToFrame, database: str, tmp_path: Path
) -> None:
    writing = Writing(spark, kafka_frame, database, tmp_path / "archive")
    with pytest.raises(Stop, match="`uncounted` does not exist yet"):
        answer(writing, "select 1")


@pytest.mark.nightly
def test_old_uncounted_positions_are_deleted(stream: CountedStream) -> None:
    stream.both(a_send(0), POISON)
    maintain(stream.uncounted, LATER, snapshots=timedelta(hours=1), keep=timedelta(days=4))
    assert stream.uncounted.positions().count() == 1
    maintain(stream.uncounted, LATER + timedelta(days=4), snapshots=timedelta(hours=1), keep=timedelta(days=1))
    assert stream.uncounted.positions().count() == 0
    assert stream.uncounted.appended().offsets == {SENDS: 3}


@pytest.mark.nightly
@pytest.mark.guarantee("erasure.counts_stay")
@pytest.mark.kills(guard="erasure.snapshots")
def test_maintenance_and_erasure_lose_no_record(writing: Writing) -> None:
    """Files are merged, hours deleted and a person erased; the next append continues at the same offsets."""
    for number in range(3):
        at_ms = PRODUCED_MS - number * 86_400_000
        append(writing, writing.rows(a_send(number, timestamp=at_ms) | {"timestamp_ms": at_ms}), number + 1)
    append(writing, writing.rows(an_outcome(0, "send 0"), an_outcome(1, "send 1", club_id=8)), 3)
    append(writing, writing.rows(an_outcome(2, "send 2")), 3)
    everything = sorted(map(tuple, writing.table.records().select("topic", "kafka_offset").collect()))
    maintain(writing.table, LATER, snapshots=timedelta(hours=1))
    assert sorted(map(tuple, writing.table.records().select("topic", "kafka_offset").collect())) == everything
    files = f"select count(*) from {writing.table.name}.files"  # noqa: S608
    assert writing.spark.sql(files).first() == (4,), "one file an hour, and one with the next offsets"

    assert writing.table.replace_user(7, 2, ERASED_USER) == 2
    users = writing.table.records().where("source = 'outcome'").select("club_id", "user_ids").collect()
    assert sorted((row[0], *row[1]) for row in users) == [(7, 1, ERASED_USER), (7, 1, ERASED_USER), (8, 1, 2)]
    assert writing.spark.sql(f"select count(*) from {writing.table.name}.snapshots").first() == (1,)  # noqa: S608
    assert writing.table.replace_user(7, 2, ERASED_USER) == 0

    assert writing.table.appended().offsets == {SENDS: 3}
    kept = NOW.replace(hour=0, minute=0, second=0, microsecond=0)
    maintain(writing.table, LATER, snapshots=timedelta(hours=1), keep=LATER - kept)
    assert writing.table.kept_since() == kept
    assert sorted(row[0] for row in writing.table.records().select("kafka_offset").collect()) == [0, 0, 1, 2]
    append(writing, writing.rows(a_send(3)), 4)
    assert writing.table.appended().offsets == {SENDS: 4}


COMMANDS = [
    "drop table {table}",
    "drop view records",
    "truncate table {table}",
    "insert into {table} select * from records",
    "from records insert into {table} select *",
    "with one as (select * from records) insert into {table} select * from one",
    "delete from {table}",
    "update {table} set club_id = 1",
    "call archive.system.expire_snapshots(table => 'masscomm.records', older_than => timestamp '2099-01-01')",
    "select 1; drop table {table}",
    "select 1) as one; drop table {table}; select * from (select 1",
    "create table archive.masscomm.other using iceberg as select * from records",
    "set",
    "set spark.sql.catalog.archive.jdbc.password",
    "show tblproperties {table}",
    "describe extended {table}",
    "",
]


@pytest.mark.kills(guard="archive.queries_only")
def test_statement_other_than_a_query_is_rejected(writing: Writing) -> None:
    append(writing, writing.rows(a_send(0)), 1)
    tables = writing.spark.sql("show tables in archive.masscomm").collect()
    end = writing.table.appended()
    for command in COMMANDS:
        with pytest.raises(Stop, match=r"^the query failed: \[") as rejected:
            answer(writing, command.format(table=writing.table.name))
        assert "\n" not in str(rejected.value)
    assert writing.table.appended() == end
    assert writing.spark.sql("show tables in archive.masscomm").collect() == tables


def test_queries_of_every_form_are_answered(writing: Writing) -> None:
    append(writing, writing.rows(a_send(0), a_send(1)), 2)
    assert answer(writing, "select kafka_offset from records order by 1 desc;") == [["kafka_offset"], ["1"], ["0"]]
    assert answer(writing, "with one as (select 1 as a) select a, a from one -- twice") == [["a", "a"], ["1", "1"]]
    assert answer(writing, "values (true, null, 'a,\"b')") == [["col1", "col2", "col3"], ["true", "", 'a,"b']]
    setting = "'${spark.sql.catalog.archive.jdbc.password}'"
    assert answer(writing, f"select {setting} as a") == [["a"], [setting.strip("'")]]
    assert answer(writing, "select counts[0] as c, array(1, 2) as a from records limit 1") == [
        ["c", "a"],
        ["{push, requested, null, 2}", "[1, 2]"],
    ]


WRONG = [
    ("select nothing from records", r"`nothing` cannot be resolved.* line 1 pos 7"),
    ("select\nnothing from records", r"line 2 pos 0"),
    ("selekt 1", r"Syntax error at or near '1'.*line 1, pos 7"),
    ("select raise_error('at ' || kafka_offset) from records", r"at 0"),
]


def test_wrong_query_is_reported_in_one_line(writing: Writing) -> None:
    append(writing, writing.rows(a_send(0)), 1)
    for wrong, reason in WRONG:
        with pytest.raises(Stop, match=reason) as reported:
            answer(writing, wrong)
        assert "\n" not in str(reported.value)


@pytest.mark.nightly
def test_command_reports_errors_without_secrets(writing: Writing) -> None:
    """Neither Spark nor Python adds a stack trace, and a database that is down is named without its password."""
    append(writing, writing.rows(a_send(0)), 1)
    url = psycopg.conninfo.conninfo_to_dict(writing.settings.database_url)
    environment = {
        **base_environment(),
        "KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1",
        "SCHEMA_REGISTRY_URL": "http://127.0.0.1:1",
        "METRICS_DATABASE_URL": writing.settings.database_url,
        "SPARK_ARCHIVE_DIR": writing.settings.archive_dir,
        "SPARK_JARS": spark_jars(),
        "SPARK_SUBMIT_OPTS": driver_options(),
    }

    def run(text: str, **other: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "spark_metrics.query", text, "--csv"]
        return subprocess.run(
            command, cwd=ROOT, env=environment | other, capture_output=True, text=True, timeout=WAIT_S, check=False
        )

    done = run("select count(*) as n from records")
    assert (done.returncode, done.stdout) == (0, "n\n1\n"), done.stderr
    for wrong in (
        "select nothing from records",
        "select raise_error('boom') from records",
        "set",
        "drop table records",
    ):
        done = run(wrong)
        assert (done.returncode, done.stdout) == (2, "")
        lines = [line for line in done.stderr.splitlines() if not line.startswith("WARNING: Using incubator")]
        assert len(lines) == 1, done.stderr
        assert "ERROR spark_metrics: the query failed: " in lines[0]
    down = run("select 1", METRICS_DATABASE_URL="postgresql://masscomm:a-secret@127.0.0.1:1/metrics")
    assert down.returncode == 2
    assert "Connection refused" in down.stderr
    assert "a-secret" not in down.stderr + down.stdout
    assert "Traceback" not in down.stderr
    assert str(url["password"]) not in down.stderr


@pytest.mark.nightly
def test_append_concurrent_with_maintenance_is_kept(writing: Writing) -> None:
    for number in range(4):
        append(writing, writing.rows(a_send(number)), number + 1)
    other = ArchiveTable(writing.spark, writing.settings)
    thread = threading.Thread(target=maintain, args=(other, LATER), kwargs={"snapshots": timedelta(hours=1)})
    thread.start()
    done = 4
    while thread.is_alive() or done < 6:
        append(writing, writing.rows(a_send(done)), done + 1)
        done += 1
    thread.join()
    assert writing.offsets() == [*range(done)]
