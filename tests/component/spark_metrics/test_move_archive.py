"""The Parquet archive of an earlier version becomes the table, with the same counts.

tests/support/spark/earlier_archive has the files and the rows of a database, written by that version: records of two
writers, whole records of a version before it, an uncountable record, two redeliveries and two hours.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession

from masscomm.errors import Stop
from spark_metrics import move_archive
from spark_metrics.archive.mark import check_table
from spark_metrics.archive.table import ArchiveTable
from spark_metrics.common.settings import Settings
from spark_metrics.common.span import Span
from spark_metrics.counting.sink import PostgresSink
from spark_metrics.move_archive import redelivered
from spark_metrics.recompute import Recompute
from tests.support.spark.archived import OUTCOME, WRITERS
from tests.support.spark.session import PY4J_SOCKETS

pytestmark = pytest.mark.filterwarnings(PY4J_SOCKETS)

EARLIER = Path(__file__).parents[2] / "support" / "spark" / "earlier_archive"
HOUR_US = 3_600_000_000
# Fields of outcomes that the earlier version did not have.
LATER_FIELDS = {"template", "locale", "settings_changed_at"}


def without_later_fields(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {name: without_later_fields(each) for name, each in schema.items()}
    if isinstance(schema, list):
        return [
            without_later_fields(each)
            for each in schema
            if not (isinstance(each, dict) and each.get("name") in LATER_FIELDS)
        ]
    return schema


_OUTCOME = without_later_fields(json.loads(WRITERS["outcome"][OUTCOME]))
EARLIER_WRITERS = {**WRITERS, "outcome": {OUTCOME: json.dumps(_OUTCOME)}}


def restore(database: str) -> None:
    """Fill a new database with the rows of the earlier one."""
    sink = PostgresSink(database, recipients=True)
    sink.take_over()
    sink.close()
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(
            "create table if not exists archive_batches"
            " (batch bigint primary key, counted_at timestamptz not null, committed_at timestamptz,"
            " remembers_since timestamptz)"
        )
        connection.execute(
            "create table if not exists archive_compactions (batch bigint primary key, date date not null,"
            " hour text not null, holds bigint[] not null, removed boolean not null default false)"
        )
        connection.execute("create table recipient_log_all partition of recipient_log default")
        for file in sorted(EARLIER.glob("*.csv")):
            columns, _, rows = file.read_text().partition("\n")
            with (
                connection.cursor() as cursor,
                cursor.copy(f"copy {file.stem} ({columns}) from stdin (format csv)".encode()) as copy,
            ):
                copy.write(rows)
        mark = (EARLIER / "archive_id").read_text()
        connection.execute("update stream_status set archive_id = %s", [mark])


@pytest.mark.guarantee("archive.earlier_files_are_counted")
@pytest.mark.kills(guard="archive.uncounted_batch_is_not_read")
@pytest.mark.kills(guard="archive.moved_before_deleted")
def test_archive_of_an_earlier_version_is_moved_once(
    spark: SparkSession, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "archive"
    shutil.copytree(EARLIER / "archive", folder)
    shutil.copytree(folder / "date=2023-11-14/hour=22/batch=2", folder / "date=2023-11-14/hour=22/batch=99")
    restore(database)
    settings = Settings(bootstrap_servers="", registry_url="", database_url=database, archive_dir=str(folder))
    table = ArchiveTable(spark, settings)
    monkeypatch.setattr(move_archive, "archived_writers", lambda *_: EARLIER_WRITERS)
    with psycopg.connect(database, autocommit=True) as connection:
        with pytest.raises(Stop, match=r"run `python -m spark_metrics\.move_archive`"):
            check_table(connection, table)
        with monkeypatch.context() as killed:
            killed.setattr(ArchiveTable, "append", lambda *_: None)
            with pytest.raises(Stop, match="the files are kept"):
                move_archive.move(settings, spark)
        assert move_archive.move(settings, spark) == 9
        assert move_archive.move(settings, spark) == 0
        assert not list(folder.rglob("*.parquet")) or not list(folder.glob("date=*"))
        offsets = {
            (t, p): o for t, p, o in connection.execute("select topic, partition, next_offset from stream_offsets")
        }
        assert table.appended().offsets == offsets
        refused = connection.execute("select topic, kafka_offset from redelivered order by 2").fetchall()
        assert refused == [("send.api", 3), ("send.api", 6)]
        check_table(connection, table)
    assert Recompute(settings, spark, Span()).run(wait_s=0) == 0


@pytest.mark.kills(guard="metrics.remembered_window")
@pytest.mark.parametrize(
    ("hours", "remembered", "refused"),
    [
        ([0, 0, 1], {}, [1, 2]),
        ([0, 1, 2, 3], {}, [1, 2]),  # the record of hour 3 counts, because the rejected records begin no window
        ([0, 2.0001, 4.0001], {}, [2]),
        ([0, 1], {1: 0.5}, []),  # batch 1 was counted with a shorter window
    ],
)
def test_earlier_rule_of_redeliveries(
    spark: SparkSession, hours: list[float], remembered: dict[int, float], refused: list[int]
) -> None:
    rows = [("outcome", "an id", None, n, "outcome", 0, n, int(hour * HOUR_US)) for n, hour in enumerate(hours)]
    rows += [("send", "an id", None, 9, "send.api", 0, 0, 0)]
    schema = (
        "source string, record_id string, problem string, attempt long, topic string, partition int,"
        " kafka_offset long, counted_us long"
    )
    windows = {attempt: int(hour * HOUR_US) for attempt, hour in remembered.items()}
    found = redelivered(spark.createDataFrame(rows, schema), 2 * 3600, windows)
    assert sorted(offset for _, _, offset, *_ in found) == refused
