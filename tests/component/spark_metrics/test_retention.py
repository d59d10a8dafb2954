"""Retention removes old rows from Postgres and stores the kept span; a later run completes an interrupted one."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from spark_metrics.common.database import connect
from spark_metrics.counting.partitions import LOG, drop_before, make_partitions, partitions_of
from spark_metrics.counting.problems import Problem
from spark_metrics.counting.sink import PostgresSink
from spark_metrics.counting.views import kept_since
from spark_metrics.retention import delete_buckets, delete_quarantined, disk_days, main
from tests.support.spark.club_days import CLUB_DAYS, TABLE

TODAY = datetime.now(UTC).date()
NOW = datetime.now(UTC)
DAY = timedelta(days=1)

type Connection = psycopg.Connection[tuple[object, ...]]


@pytest.fixture
def connection(database: str) -> Iterator[Connection]:
    with psycopg.connect(database) as connection:
        connection.execute(TABLE)
    sink = PostgresSink(database, views=[CLUB_DAYS], recipients=True)
    sink.take_over()
    sink.close()
    with connect(database, "test") as connection:
        yield connection


def write(connection: Connection, day: date) -> None:
    """Write a row of the log of recipients, counted on this day."""
    moment = datetime(day.year, day.month, day.day, 23, 59, 59, tzinfo=UTC)
    with connection.transaction():
        make_partitions(connection, moment, [LOG])
        connection.execute(
            "insert into recipient_log select user_id, now(), 'a send', 'push', 7, 'news', 'sent', '', %s"
            " from unnest(array[1, 2]) as user_id",
            [moment],
        )


def table_of(day: date) -> str:
    return f"recipient_log_{day:%Y%m%d}"


def days(connection: Connection) -> list[object]:
    rows = connection.execute("select distinct (counted_at at time zone 'UTC')::date from recipient_log order by 1")
    return [day for (day,) in rows]


def test_days_beyond_the_retention_are_dropped(connection: Connection) -> None:
    for n in range(4):
        write(connection, TODAY - n * DAY)
        write(connection, TODAY - n * DAY)
    assert drop_before(connection, LOG, NOW - DAY) == [table_of(TODAY - n * DAY) for n in (3, 2)]
    assert days(connection) == [TODAY - DAY, TODAY]
    assert drop_before(connection, LOG, NOW - 3 * DAY) == []
    first = datetime(TODAY.year, TODAY.month, TODAY.day, tzinfo=UTC) - DAY
    assert kept_since(connection) == {"recipient_log": first}
    write(connection, TODAY)


def test_next_run_finishes_an_interrupted_one(connection: Connection, database: str) -> None:
    for n in (1, 2, 3):
        write(connection, TODAY - n * DAY)
    connection.execute(f"alter table recipient_log detach partition {table_of(TODAY - 3 * DAY)}".encode())
    # A reader with an old snapshot blocks the second step until the lock times out.
    with psycopg.connect(database) as reader:
        reader.execute("select from recipient_log")
        connection.execute("set lock_timeout = '100ms'")
        with pytest.raises(psycopg.OperationalError):
            drop_before(connection, LOG, NOW - DAY)
    assert [each.name for each in partitions_of(connection, LOG) if each.detaching] == [table_of(TODAY - 2 * DAY)]
    assert drop_before(connection, LOG, NOW - DAY) == [table_of(TODAY - 2 * DAY)]
    assert days(connection) == [TODAY - DAY]


def test_view_buckets_are_deleted_by_whole_days(connection: Connection) -> None:
    assert CLUB_DAYS.keep is not None
    first = (NOW - CLUB_DAYS.keep).replace(hour=0, minute=0, second=0, microsecond=0)
    for bucket in (first - timedelta(minutes=1), first, NOW):
        connection.execute("insert into club_days values (%s, 1, 1)", [bucket])
    assert delete_buckets(connection, CLUB_DAYS, NOW) == 1
    assert kept_since(connection) == {"club_days": first}
    assert delete_buckets(connection, CLUB_DAYS, NOW - DAY) == 0
    assert kept_since(connection) == {"club_days": first}


def test_quarantined_positions_beyond_the_days_are_deleted(connection: Connection) -> None:
    for n in (1, 9, 11):
        connection.execute("insert into quarantine values ('outcome', 0, %s, 'x', null, now() - %s)", [n, n * DAY])
    assert delete_quarantined(connection, 10) == 1


@pytest.mark.kills(guard="retention.archived_without_a_problem")
@pytest.mark.parametrize("reason", [Problem.UNSTORABLE, Problem.UNKNOWN_SCHEMA, Problem.LATE_SCHEMA])
def test_positions_that_the_archive_may_have_are_kept(connection: Connection, reason: Problem) -> None:
    """Else recompute would count their records."""
    connection.execute("insert into quarantine values ('outcome', 0, 1, %s, 9, now() - %s)", [reason, 11 * DAY])
    assert delete_quarantined(connection, 10) == 0


def test_old_results_of_webhooks_are_deleted(connection: Connection, database: str) -> None:
    """Of the minutes, seven days are kept, of the log 30, of the hours more."""
    counted = "insert into {} values (%s, 7, 'ep_7_a', 'match.finished', 'delivered', 1, 9)"
    listed = "insert into {} values ('ep_7_a', %s, 'm', 1, 7, 'match.finished', 'delivered', 9, 'e', 200, '')"
    tables = {"webhook_counts_minute": counted, "webhook_counts_hour": counted, "webhook_log": listed}
    for n in (40, 8, 0):
        for table, statement in tables.items():
            connection.execute(SQL(statement).format(Identifier(table)), [NOW - n * DAY])
    assert main([], {"METRICS_DATABASE_URL": database}) == 0
    kept = {table: connection.execute(SQL("select from {}").format(Identifier(table))).rowcount for table in tables}
    assert kept == {"webhook_counts_minute": 1, "webhook_counts_hour": 3, "webhook_log": 2}
    assert {"webhook_counts_minute", "webhook_log"} <= kept_since(connection).keys()


def test_retention_command_deletes_old_rows(connection: Connection, database: str) -> None:
    today = datetime.now(UTC).date()
    write(connection, today - 32 * DAY)
    # Midnight may pass before the command runs.
    write(connection, today - 29 * DAY)
    assert main([], {"METRICS_DATABASE_URL": database}) == 0
    assert days(connection) == [today - 29 * DAY]
    assert main(["--recipient-log-days", "1"], {"METRICS_DATABASE_URL": database, "SPARK_VIEWS": "none"}) == 0
    assert days(connection) == []
    assert main([], {}) == 2
    with pytest.raises(SystemExit):
        main(["--recipient-log-days", "0"], {"METRICS_DATABASE_URL": database})


@pytest.mark.parametrize(
    ("grown", "days", "left"),
    [(None, 1, None), (10**8, 2, 20.0), (-(10**8), 1, 3_650.0), (10**8, 0.01, None), (2 * 10**9, 1, 0.5)],
    ids=["first run", "grows", "shrinks", "repeated run", "full"],
)
def test_days_until_the_disk_is_full(
    connection: Connection, grown: int | None, days: float, left: float | None
) -> None:
    """The volume has a gigabyte more than the database."""
    [(size,)] = connection.execute("select pg_database_size(current_database())").fetchall()
    assert isinstance(size, int)
    if grown is not None:
        stored = "update stream_status set database_bytes = %s, sized_at = now() - %s"
        connection.execute(stored, [size - grown, days * DAY])
    assert disk_days(connection, size + 10**9) == (left if left is None else pytest.approx(left, rel=0.01))
    [(at,)] = connection.execute("select sized_at > now() - interval '1 minute' from stream_status").fetchall()
    assert at is not (days == 0.01)
