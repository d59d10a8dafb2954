"""Months and years are made before they are counted, and dropped as a whole."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from masscomm.domain.grains import Grain
from spark_metrics.common.database import connect
from spark_metrics.counting.partitions import LOG, TABLES, Partitioned, drop_before, make_partitions, partitions_of
from spark_metrics.counting.served import SMALL_SENDS
from spark_metrics.counting.views import kept_since
from spark_metrics.retention import delete_sends, delete_small_sends

MINUTES, DAYS = TABLES[Grain.MINUTE.table], TABLES[Grain.DAY.table]
NOW = datetime.now(UTC)
DAY = timedelta(days=1)

type Connection = psycopg.Connection[Any]


@pytest.fixture
def connection(database: str) -> Iterator[Connection]:
    with connect(database, "test") as connection:
        yield connection


def put(connection: Connection, *buckets: datetime, table: str = Grain.MINUTE.table) -> None:
    for bucket in buckets:
        connection.execute(f"insert into {table} values (%s, 1, 'news', 'push', 'sent', 1)".encode(), [bucket])  # noqa: S608


def places(connection: Connection, table: str = Grain.MINUTE.table) -> dict[str, int]:
    """Return the number of rows of each partition that has any."""
    rows = connection.execute(f"select tableoid::regclass::text, count(*) from {table} group by 1".encode())  # noqa: S608
    return dict(rows.fetchall())


def later(months: int) -> datetime:
    """Return the 15th of a later month."""
    month = NOW.month - 1 + months
    return datetime(NOW.year + month // 12, month % 12 + 1, 15, tzinfo=UTC)


@pytest.mark.parametrize(
    ("table", "moment", "first", "end"),
    [
        (MINUTES, "2228-01-31T23:59:59", "2228-01-01", "2228-02-01"),
        (MINUTES, "2228-02-29T00:00:00", "2228-02-01", "2228-03-01"),
        (MINUTES, "2227-12-01T00:00:00", "2227-12-01", "2228-01-01"),
        (DAYS, "2228-12-31T23:59:59", "2228-01-01", "2229-01-01"),
        (LOG, "2228-02-29T23:59:59", "2228-02-29", "2228-03-01"),
    ],
)
def test_partitions_are_days_months_and_years(
    connection: Connection, table: Partitioned, moment: str, first: str, end: str
) -> None:
    make_partitions(connection, datetime.fromisoformat(f"{moment}Z"), [table])
    found = {(each.first, each.end) for each in partitions_of(connection, table)}
    assert (datetime.fromisoformat(f"{first}T00Z"), datetime.fromisoformat(f"{end}T00Z")) in found


def test_rows_lie_in_the_partition_of_their_month(connection: Connection) -> None:
    """Making partitions again changes nothing."""
    for months in (2, 3, 3):
        make_partitions(connection, later(months))
    put(connection, datetime(1970, 1, 1, tzinfo=UTC), later(2), later(3), later(9))
    assert places(connection) == {
        f"counts_minute_{later(2):%Y%m}01": 1,
        f"counts_minute_{later(3):%Y%m}01": 1,
        "counts_minute_other": 2,
    }


@pytest.mark.parametrize("grain", [Grain.HOUR, Grain.DAY])
def test_pages_of_hours_and_days_are_half_filled(connection: Connection, grain: Grain) -> None:
    """Each batch updates these rows; without room in the page, an update also writes an entry of the index."""
    make_partitions(connection, NOW + 700 * DAY)
    options = connection.execute(
        "select relname, reloptions from pg_inherits join pg_class on pg_class.oid = inhrelid"
        " where inhparent = %s::regclass",
        [grain.table],
    ).fetchall()
    assert len(options) > 1
    assert [found for found in options if found[1] != ["fillfactor=50"]] == []


@pytest.mark.kills(guard="metrics.rows_of_a_new_partition")
def test_early_rows_move_into_their_new_partition(connection: Connection) -> None:
    put(connection, later(5), later(5) + DAY, later(6))
    make_partitions(connection, later(5))
    assert places(connection) == {f"counts_minute_{later(5):%Y%m}01": 2, "counts_minute_other": 1}


def test_old_partitions_are_dropped_and_the_span_is_kept(connection: Connection) -> None:
    for months in (0, 3, 4, 5):
        make_partitions(connection, later(months))
    put(connection, NOW, later(3), later(4), later(5))
    assert drop_before(connection, MINUTES, NOW) == []
    assert kept_since(connection) == {}
    dropped = drop_before(connection, MINUTES, later(4))
    assert {f"counts_minute_{moment:%Y%m}01" for moment in (NOW, later(3))} <= set(dropped)
    first = later(4).replace(day=1)
    assert set(places(connection)) == {f"counts_minute_{first:%Y%m%d}", f"counts_minute_{later(5):%Y%m}01"}
    assert kept_since(connection) == {"counts_minute": first}
    # A record that comes later is counted, and its row goes with the next run.
    put(connection, NOW)
    assert places(connection)["counts_minute_other"] == 1
    assert drop_before(connection, MINUTES, later(4)) == []
    assert "counts_minute_other" not in places(connection)
    assert drop_before(connection, DAYS, NOW) == []


def test_sends_are_deleted_as_a_whole(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_metrics.retention._SLICE", 2)
    for number in range(5):
        send = [f"send {number}"]
        connection.execute(
            "insert into sends (send_id, club_id, type, counted_at) values (%s, 1, 'news', %s)",
            [*send, NOW - number * 100 * DAY],
        )
        connection.execute("insert into send_channels values (%s, 'push', 1, 0, 1)", send)
        connection.execute("insert into send_totals values (%s, 'push', 'sent', '', 1)", send)
        connection.execute("insert into send_states values (%s, 0, 'push', 0, '')", send)
    assert delete_sends(connection, NOW - 50 * DAY) == 4
    for name in ("sends", "send_channels", "send_totals", "send_states"):
        found = connection.execute(f"select send_id from {name}".encode()).fetchall()  # noqa: S608
        assert found == [("send 0",)], name
    assert kept_since(connection) == {"sends": NOW - 50 * DAY}
    assert delete_sends(connection, NOW - 60 * DAY) == 0
    assert kept_since(connection) == {"sends": NOW - 50 * DAY}


@pytest.mark.kills(guard="retention.between_lanes")
def test_sends_are_not_deleted_while_a_lane_merges(connection: Connection, database: str) -> None:
    connection.execute("insert into stream_status (stream, epoch) values ('metrics', 1)")
    connection.execute("insert into sends (send_id, club_id, type, counted_at) values ('a', 1, 'news', 'epoch')")
    connection.execute("set lock_timeout = '50ms'")
    with psycopg.connect(database) as lane:
        lane.execute("select epoch from stream_status where stream = 'metrics' for key share")
        with pytest.raises(psycopg.OperationalError):
            delete_sends(connection, NOW)
    assert connection.execute("select count(*) from sends").fetchone() == (1,)


def insert_send(connection: Connection, send_id: str, *, requested: int = 1, chunks: int = 1, **totals: int) -> None:
    """Insert a send that was requested and changed 100 days ago."""
    at = NOW - 100 * DAY
    connection.execute(
        "insert into sends (send_id, club_id, type, requested_at, chunk_count, chunks, counted_at, changed_at)"
        " values (%s, 1, 'news', %s, %s, %s, %s, %s)",
        [send_id, at, chunks, chunks, at, at],
    )
    connection.execute("insert into send_channels values (%s, 'push', %s, 0, 0)", [send_id, requested])
    for status, number in totals.items():
        connection.execute("insert into send_totals values (%s, 'push', %s, '', %s)", [send_id, status, number])
    connection.execute("insert into send_states values (%s, 0, 'push', 0, '')", [send_id])


def of_sends(connection: Connection) -> list[list[str]]:
    """Return the ids in each table of sends."""
    return [
        [send_id for (send_id,) in connection.execute(f"select distinct send_id from {name} order by 1".encode())]  # noqa: S608
        for name in ("sends", "send_channels", "send_totals", "send_states")
    ]


@pytest.mark.kills(guard="retention.waiting_small_sends")
def test_small_sends_are_deleted_after_their_end(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_metrics.retention._SLICE", 2)
    for number in range(3):
        insert_send(connection, f"ended {number}", requested=3, sent=1, suppressed=2)
    insert_send(connection, "broadcast", requested=101, sent=101)
    insert_send(connection, "chunks", chunks=2, sent=1)
    insert_send(connection, "waiting", requested=2, sent=1, scheduled=1)
    insert_send(connection, "recent", sent=1)
    connection.execute("update sends set changed_at = %s where send_id = 'recent'", [NOW - 49 * DAY])
    assert delete_small_sends(connection, NOW - 50 * DAY) == 3
    assert of_sends(connection) == [["broadcast", "chunks", "recent", "waiting"]] * 4
    assert kept_since(connection) == {SMALL_SENDS: NOW - 50 * DAY}
    assert delete_small_sends(connection, NOW - 50 * DAY) == 0


@pytest.mark.kills(guard="retention.changed_small_sends")
def test_a_small_send_that_a_lane_changes_is_kept(connection: Connection, database: str) -> None:
    for name in ("changing", "changed", "unchanged"):
        insert_send(connection, name, sent=1)
    changed = "update sends set changed_at = now() where send_id = %s"

    class Cursor(psycopg.ServerCursor[tuple[object, ...]]):
        """Another lane changes a send after it is found."""

        def fetchmany(self, size: int = 0) -> list[tuple[object, ...]]:
            found = super().fetchmany(size)
            if found:
                lane.execute(changed, ["changed"])
            return found

    connection.server_cursor_factory = Cursor
    with psycopg.connect(database, autocommit=True) as lane, psycopg.connect(database) as slow:
        slow.execute(changed, ["changing"])
        assert delete_small_sends(connection, NOW - 50 * DAY) == 1
    assert of_sends(connection) == [["changed", "changing"]] * 4
