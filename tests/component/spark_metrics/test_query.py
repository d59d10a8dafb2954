"""The archive answers queries, and its maintenance and erasure lose no record."""

import csv
import io
import re
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from devstack.config import ROOT
from erasure.person import ERASED_USER
from masscomm.errors import Stop
from spark_metrics.archive_table import ArchiveTable
from spark_metrics.maintenance import maintain
from spark_metrics.query import query
from tests.support.spark.archive_writing import SENDS, Writing
from tests.support.spark.archived import NOW, a_send, an_outcome
from tests.support.spark.session import PRODUCED_MS, PY4J_SOCKETS, ToFrame

pytestmark = pytest.mark.filterwarnings(PY4J_SOCKETS)

LATER = datetime.now(UTC) + timedelta(days=1)


@pytest.fixture
def writing(spark: SparkSession, kafka_frame: ToFrame, database: str, tmp_path: Path) -> Writing:
    return Writing(spark, kafka_frame, database, tmp_path / "archive")


def append(writing: Writing, rows: DataFrame, end: int) -> None:
    writing.table.append(rows, writing.table.appended(), {SENDS: end})


def answer(writing: Writing, text: str, at: datetime | None = None) -> list[list[str]]:
    out = io.StringIO()
    query(writing.settings, writing.spark, text, out, at=at, as_csv=True)
    return list(csv.reader(out.getvalue().splitlines()))


def test_documented_queries_and_time_travel(writing: Writing) -> None:
    poison = {"topic": "send.api", "offset": 2, "value": b"poison"}
    append(writing, writing.rows(a_send(0), a_send(1, send_id="send 0"), poison, an_outcome(0, "send 0")), 3)
    then = datetime.now(UTC)
    append(writing, writing.rows(a_send(3, channels=["push", "email"])), 4)
    page = (ROOT / "docs" / "metrics.md").read_text()
    questions = re.findall(r'^    masscomm query "(.*)"$', page, re.MULTILINE)
    assert len(questions) == 5
    answers = [answer(writing, question) for question in questions]
    hour = NOW.replace(minute=0, second=0, microsecond=0, tzinfo=None).isoformat(sep=" ")
    assert answers[0] == [
        ["hour", "type", "measure", "n"],
        [hour, "news", "requested", "8"],
        [hour, "news", "sent", "2"],
    ]
    assert answers[2][1:] == [["send 0", "4", "0.0"], ["send 3", "4", "0.0"]]
    assert answers[3][1][:3] == ["send.api", "undecodable", "1"]
    records = "select count(*) as records from records"
    assert answer(writing, records) == [["records"], ["5"]]
    assert answer(writing, records, then) == [["records"], ["4"]]
    with pytest.raises(Stop, match="no snapshot of 2020-01-01"):
        answer(writing, records, datetime(2020, 1, 1, tzinfo=UTC))
    with pytest.raises(Stop, match="the query failed"):
        answer(writing, "select nothing from records")
    out = io.StringIO()
    query(writing.settings, writing.spark, records, out, at=None, as_csv=False)
    assert out.getvalue() == "records\n-------\n5\n"


@pytest.mark.guarantee("erasure.counts_stay")
@pytest.mark.kills(guard="erasure.snapshots")
def test_maintenance_and_erasure_lose_no_record(writing: Writing) -> None:
    """Files are merged, hours deleted and a person erased; the next append continues at the same offsets."""
    for number in range(3):
        append(writing, writing.rows(a_send(number, timestamp=PRODUCED_MS - number * 86_400_000)), number + 1)
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
