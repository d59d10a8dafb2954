"""The tables into which the lanes of a recompute merge, on a real Postgres."""

from collections.abc import Iterator
from datetime import UTC, datetime

import psycopg
import pytest

from masscomm.errors import Retry
from spark_metrics.common.database import connect
from spark_metrics.common.sources import kinds_of_topics
from spark_metrics.counting import lane_merge
from spark_metrics.counting.lane_merge import LaneResult, LaneRow, Plan, run_lane
from spark_metrics.counting.served import SCHEMA, TABLES, RecomputedTables

NAMES = [*TABLES, "recipient_log"]
LEFT = "select count(*) from pg_class where relnamespace = 'recompute'::regnamespace and relkind = 'r'"

type Connection = psycopg.Connection[tuple[object, ...]]


@pytest.fixture
def connection(database: str) -> Iterator[Connection]:
    with connect(database, "a test") as connection:
        yield connection


def merged(database: str, epoch: int, *offsets: int) -> LaneResult:
    plan = Plan(
        database_url=database,
        schema=SCHEMA,
        epoch=epoch,
        lanes=1,
        counted_at=datetime.now(UTC),
        tables=None,
        kinds=kinds_of_topics(),
        recipients=True,
    )
    rows = [
        LaneRow(
            lane=0,
            hash=0,
            topic="outcome",
            partition=0,
            kafka_offset=offset,
            send_id="a send",
            club_id=7,
            type="news",
            at_ms=1_700_000_000_000,
            channel="push",
            measure="sent",
            total=2,
            listed='{"positions": [0, 1], "index": [0, 0], "statuses": ["sent"], "reasons": [null]}',
            users="1,2",
            only=0,
        )
        for offset in offsets
    ]
    [result] = run_lane(plan, rows)
    return result


def test_recomputed_rows_are_not_served(connection: Connection, database: str) -> None:
    tables = RecomputedTables(connection, NAMES)
    assert merged(database, tables.begin_part(), 0, 1).records == 2
    for name, rows in (("counts_day", 1), ("send_totals", 1), ("recipient_log", 4), ("lane_offsets", 1)):
        found = f"select (select count(*) from recompute.{name}), (select count(*) from public.{name})"  # noqa: S608
        assert connection.execute(found.encode()).fetchone() == (rows, 0)


def test_task_of_a_part_that_runs_twice_adds_nothing(connection: Connection, database: str) -> None:
    tables = RecomputedTables(connection, NAMES)
    epoch = tables.begin_part()
    assert merged(database, epoch, 0, 5).replayed == 0
    assert merged(database, epoch, 0, 5).replayed == 2
    # Another hour may have the records between.
    assert merged(database, tables.begin_part(), 3).replayed == 0
    assert connection.execute("select count_total from recompute.counts_day").fetchall() == [(6,)]


def test_task_of_an_earlier_part_merges_nothing(connection: Connection, database: str) -> None:
    tables = RecomputedTables(connection, NAMES)
    earlier, later = tables.begin_part(), tables.begin_part()
    assert merged(database, earlier, 0).taken_by == later
    assert connection.execute("select count(*) from recompute.counts_day").fetchone() == (0,)


@pytest.mark.kills(guard="recompute.earlier_part")
def test_next_part_begins_after_all_tasks_of_the_last(connection: Connection, database: str) -> None:
    tables = RecomputedTables(connection, NAMES)
    tables.begin_part()
    connection.execute("set lock_timeout = '50ms'")
    with psycopg.connect(database) as task:
        task.execute("select epoch from recompute.stream_status for key share")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            tables.begin_part()
    assert tables.begin_part()


def test_lanes_of_a_recompute_do_not_wait_for_the_streams(connection: Connection, database: str) -> None:
    connection.execute(f"alter database {connection.info.dbname} set lock_timeout = '5s'".encode())
    tables = RecomputedTables(connection, NAMES)
    with psycopg.connect(database) as stream:
        stream.execute(lane_merge._LANE, [1, 0])
        stream.execute("select epoch from stream_status for key share")
        assert merged(database, tables.begin_part(), 0).records == 1


@pytest.mark.kills(guard="recompute.one_at_a_time")
def test_second_recompute_is_refused(connection: Connection, database: str) -> None:
    with connect(database, "killed") as killed:
        RecomputedTables(killed, NAMES)
        with pytest.raises(Retry, match="another recompute runs"):
            RecomputedTables(connection, NAMES, wait_s=0.05)
    connection.execute("create table recompute.sends_7 (id integer)")
    tables = RecomputedTables(connection, NAMES)
    assert connection.execute("select to_regclass('recompute.sends_7')").fetchone() == (None,)
    tables.close()
    assert connection.execute(LEFT).fetchone() == (0,)
