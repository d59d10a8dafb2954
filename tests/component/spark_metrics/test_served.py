"""Comparing and swapping the served tables on a real Postgres, while the stream runs."""

import threading
import time
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import LiteralString

import psycopg
import pytest
from psycopg import sql

from masscomm.domain.notification_codes import BLOCK, stored
from masscomm.domain.statuses import RANK, Status
from masscomm.errors import Retry
from spark_metrics.common.database import STREAM
from spark_metrics.common.span import Span
from spark_metrics.counting.partitions import keep_since
from spark_metrics.counting.served import SMALL_SENDS, TABLES, RecomputedTables, Served, Table, log_of, tables_of
from spark_metrics.counting.sink import PostgresSink
from spark_metrics.counting.views import kept_since
from tests.support.spark.session import PY4J_SOCKETS

# A session of an earlier test of this process may leave sockets.
pytestmark = pytest.mark.filterwarnings(PY4J_SOCKETS)
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)

type Connection = psycopg.Connection[tuple[object, ...]]


def block(status: Status) -> array[int]:
    return array("H", [(RANK[status] + 1) * 256, *[0] * (BLOCK - 1)])


@pytest.fixture
def connection(database: str) -> Iterator[Connection]:
    """A database with a send to one held user, and a count of five sent in the minute of noon."""
    sink = PostgresSink(database)
    sink.take_over()
    sink.close()
    with psycopg.connect(database, autocommit=True, options="-c timezone=UTC") as connection:
        connection.execute("insert into sends values ('s', 7, 'news', %s, 1, 1)", [NOON])
        connection.execute("insert into send_states values ('s', 0, 'push', 0, %s)", [stored(block(Status.HELD))])
        connection.execute("insert into send_totals values ('s', 'push', 'held', '', 1)")
        for table in ("minute", "hour", "day"):
            connection.execute(
                f"insert into counts_{table} values (date_trunc(%s, %s, 'UTC'), 7, 'news', 'push', 'sent', 5)".encode(),  # noqa: S608
                [table, NOON],
            )
        yield connection


def compared(
    connection: Connection,
    *,
    sent: int = 5,
    status: Status = Status.HELD,
    tables: Mapping[str, Table] = TABLES,
    log: Sequence[tuple[object, ...]] = (),
) -> Served:
    """Return the comparison with tables of the schema `recompute` that have these rows."""
    RecomputedTables(connection, tables)
    served = Served(connection, Span(), tables)
    with connection.transaction():
        connection.execute("set transaction isolation level repeatable read")
        served.remember()
    for grain in ("minute", "hour", "day"):
        bucket = NOON.replace(hour=0) if grain == "day" else NOON
        insert(connection, f"counts_{grain}", bucket, 7, "news", "push", "sent", sent)
    insert(connection, "sends", "s", 7, "news", NOON, 1, 1)
    insert(connection, "send_states", "s", 0, "push", 0, stored(block(status)))
    insert(connection, "send_totals", "s", "push", status, "", 1)
    for row in log:
        insert(connection, "recipient_log", *row)
    return served


def insert(connection: Connection, table: str, *values: object) -> None:
    places = ", ".join(["%s"] * len(values))
    connection.execute(f"insert into recompute.{table} values ({places})".encode(), values)  # noqa: S608 - our own names


def test_equal_counts_do_not_differ(connection: Connection) -> None:
    served = compared(connection)
    assert (served.differing(), list(served.report())) == (0, [])


def test_a_span_takes_whole_buckets_of_each_grain(connection: Connection) -> None:
    """The span begins after the minute of noon, but overlaps the hour and the day of noon."""
    RecomputedTables(connection, TABLES)
    served = Served(connection, Span(NOON + MINUTE, NOON + 2 * MINUTE))
    served.remember()
    assert served.differing() == 2
    assert sorted(line.split(":")[0] for line in served.report()) == ["counts_day", "counts_hour"]


@pytest.mark.parametrize(("since", "differing"), [(NOON, 1), (NOON + MINUTE, 0)])
def test_counts_beyond_retention_are_not_compared(connection: Connection, since: datetime, differing: int) -> None:
    tables = {"counts_minute": replace(TABLES["counts_minute"], kept_since=since)}
    RecomputedTables(connection, tables)
    served = Served(connection, Span(), tables)
    served.remember()
    assert served.differing() == differing


def test_swap_keeps_counts_made_by_the_stream_since(connection: Connection) -> None:
    served = compared(connection, sent=7, status=Status.SENT)
    # The differing rows are a count in each of three grains, the send's block and two totals.
    assert served.differing() == 6
    connection.execute("update counts_minute set count_total = count_total + 1")
    connection.execute("insert into counts_minute values (%s, 7, 'news', 'push', 'sent', 9)", [NOON + MINUTE])
    served.swap()
    rows = connection.execute("select count_total from counts_minute order by bucket").fetchall()
    assert rows == [(8,), (9,)]
    assert connection.execute("select status, count_total from send_totals").fetchall() == [("sent", 1)]
    assert connection.execute("select codes from send_states").fetchall() == [(stored(block(Status.SENT)),)]


@pytest.mark.kills(guard="recompute.rows_of_lanes")
@pytest.mark.parametrize(("sent", "rows"), [(12, [(-1, 13)]), (3, [(-1, 4)]), (0, [(-1, 1)])])
def test_swap_replaces_the_rows_of_all_lanes(connection: Connection, sent: int, rows: list[tuple[int, int]]) -> None:
    """The rows have 5 and 4, and the stream adds 1 before the swap."""
    connection.execute("insert into counts_minute values (%s, 7, 'news', 'push', 'sent', 4, 2)", [NOON])
    served = compared(connection, sent=sent)
    if not sent:
        connection.execute("delete from recompute.counts_minute")
    assert served.differing() == 3
    connection.execute("update counts_minute set count_total = count_total + 1 where lane = 2")
    served.swap()
    assert connection.execute("select lane, count_total from counts_minute").fetchall() == rows


def test_rows_of_lanes_are_compared_by_their_sum(connection: Connection) -> None:
    connection.execute("update counts_minute set count_total = 2")
    connection.execute("insert into counts_minute values (%s, 7, 'news', 'push', 'sent', 3, 2)", [NOON])
    assert compared(connection).differing() == 0


@pytest.mark.kills(guard="recompute.announced_sends")
@pytest.mark.parametrize(("status", "changed"), [(Status.SENT, True), (Status.HELD, False)])
def test_swap_announces_the_sends_that_it_changes(connection: Connection, status: Status, *, changed: bool) -> None:
    served = compared(connection, sent=7, status=status)
    served.differing()
    served.swap()
    assert connection.execute("select distinct send_id from send_changes").fetchall() == [("s",)] * changed


def test_swap_revises_complete_minutes(connection: Connection) -> None:
    connection.execute(
        "insert into stream_watermark (stream, watermark, updated_at) values (%s, %s, now())", [STREAM, NOON + MINUTE]
    )
    served = compared(connection, sent=7)
    assert served.differing() == 3
    connection.execute("update stream_watermark set grace_ms = 1")
    served.swap()
    assert connection.execute("select * from revised_minutes").fetchall() == []
    connection.execute("update stream_watermark set grace_ms = 0")
    served.swap()
    assert connection.execute("select minute, club_id from revised_minutes").fetchall() == [(NOON, 7)]


@pytest.mark.kills(guard="recompute.changed_meanwhile")
def test_swap_of_a_send_that_changed_is_refused(connection: Connection) -> None:
    """The stream has counted an earlier chunk of the send meanwhile."""
    connection.execute("update sends set chunks = 4")
    served = compared(connection)
    assert served.differing() == 1
    connection.execute("update sends set chunks = 5, requested_at = %s", [NOON - MINUTE])
    with pytest.raises(Retry, match="row of sends"):
        served.swap()
    assert connection.execute("select chunks, requested_at from sends").fetchall() == [(5, NOON - MINUTE)]


def test_swap_waits_for_a_running_merge_and_keeps_its_blocks(connection: Connection, database: str) -> None:
    """The lock on stream_status makes the swap wait."""
    served = compared(connection, status=Status.SENT)
    assert served.differing() == 3
    raised: list[BaseException] = []

    def swap() -> None:
        try:
            served.swap()
        except Retry as error:
            raised.append(error)

    thread = threading.Thread(target=swap)
    with psycopg.connect(database) as merge:
        merge.execute("select 1 from stream_status where stream = %s for update", [STREAM])
        merge.execute("update send_states set codes = %s", [stored(block(Status.DELIVERED))])
        merge.execute("update send_totals set status = 'delivered'")
        thread.start()
        _await(lambda: _waits_for_a_lock(database, connection.info.backend_pid))
        merge.commit()
    thread.join(10)
    assert [type(error) for error in raised] == [Retry]
    assert connection.execute("select codes from send_states").fetchall() == [(stored(block(Status.DELIVERED)),)]
    assert connection.execute("select status, count_total from send_totals").fetchall() == [("delivered", 1)]


def test_the_log_is_compared_by_its_rows_and_never_swapped(connection: Connection) -> None:
    connection.execute(
        "create table a_day partition of recipient_log for values from ('2026-11-20 00:00Z') to ('2026-11-23 00:00Z')"
    )
    for user_id, at in ((7, NOON), (-(2**63), NOON), (8, NOON - MINUTE)):
        connection.execute(
            "insert into recipient_log values (%s, %s, 's', 'push', 7, 'news', 'sent', '', %s)",
            [user_id, at, NOON],
        )
    tables = TABLES | log_of(NOON)
    same = [(user, NOON, "s", "push", 7, "news", "sent", "", NOON + MINUTE) for user in (-(2**63), 7)]
    other = (8, NOON, "t", "push", 7, "news", "sent", "", NOON)
    served = compared(connection, status=Status.SENT, tables=tables, log=[*same, other])
    assert served.differing() == 3 + 1
    checksum = 8 * round(NOON.timestamp() * 1000) % 1_000_003
    assert [line for line in served.report() if line.startswith("recipient_log")] == [
        f'recipient_log: served None, recomputed (t,push,sent,"",1,8,{checksum})'
    ]
    served.swap()
    assert connection.execute("select count(*) from recipient_log").fetchone() == (3,)
    assert connection.execute("select status from send_totals").fetchall() == [("sent",)]


def test_one_day_of_the_log_is_read(connection: Connection) -> None:
    """Events of thirty days, each counted on its day, and each a minute after the one before it."""
    first, days, rows_a_day = datetime(2026, 10, 1, tzinfo=UTC), 30, 1440
    for day in range(days):
        begin = first + timedelta(days=day)
        connection.execute(
            sql.SQL("create table {} partition of recipient_log for values from ({}) to ({})").format(
                sql.Identifier(f"day_{day}"), begin.isoformat(), (begin + timedelta(days=1)).isoformat()
            )
        )
    connection.execute(
        "insert into recipient_log select n, at, 's', 'push', 7, 'news', 'sent', '', at"
        " from generate_series(1, %s) as n, lateral (select %s + n * interval '1 minute') as event (at)",
        [days * rows_a_day - 1, first],
    )
    # In operation, autovacuum does it.
    connection.execute("vacuum analyze recipient_log")
    compared_day = Span(first + timedelta(days=12), first + timedelta(days=13))
    before, stored = _pages_read(connection), _pages(connection)
    Served(connection, compared_day, log_of(None)).remember()
    assert connection.execute("select rows from was_recipient_log").fetchall() == [(rows_a_day,)]
    assert stored / days <= _pages_read(connection) - before < 3 * stored / days


def _pages(connection: Connection) -> int:
    """Return the pages of the log's partitions."""
    query = (
        "select sum(pg_relation_size(inhrelid) / 8192)::bigint from pg_inherits"
        " where inhparent = 'recipient_log'::regclass"
    )
    return _number(connection, query)


def _pages_read(connection: Connection) -> int:
    """Return how often a page of the log's partitions was read."""
    connection.execute("select pg_stat_force_next_flush()")
    query = (
        "select sum(heap_blks_hit + heap_blks_read)::bigint from pg_statio_user_tables"
        " join pg_inherits on relid = inhrelid where inhparent = 'recipient_log'::regclass"
    )
    return _number(connection, query)


def _number(connection: Connection, query: LiteralString) -> int:
    [[number]] = connection.execute(query)
    return int(str(number))


def _waits_for_a_lock(database: str, pid: int) -> bool:
    with psycopg.connect(database) as other:
        row = other.execute("select wait_event_type = 'Lock' from pg_stat_activity where pid = %s", [pid]).fetchone()
    return row == (True,)


def _await(look: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not look():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.kills(guard="recompute.deleted_small_sends")
@pytest.mark.parametrize(
    ("status", "requested", "differing"),
    [("sent", 1, 0), ("scheduled", 1, 3), ("sent", 101, 3)],
    ids=["deleted", "waiting", "broadcast"],
)
def test_deleted_small_sends_are_not_served_again(
    connection: Connection, status: str, requested: int, differing: int
) -> None:
    """The served tables lack the recomputed send."""
    sends = ("sends", "send_channels", "send_totals")
    keep_since(connection, SMALL_SENDS, NOON + timedelta(days=1))
    tables = {name: table for name, table in tables_of([], kept_since(connection), None).items() if name in sends}
    RecomputedTables(connection, tables)
    served = Served(connection, Span(), tables)
    served.remember()
    for name in sends:
        connection.execute(f"insert into recompute.{name} select * from {name}".encode())  # noqa: S608 - our own names
    insert(connection, "sends", "small", 7, "news", NOON, 1, 1)
    insert(connection, "send_channels", "small", "push", requested, 0, requested)
    insert(connection, "send_totals", "small", "push", status, "", requested)
    assert served.differing() == differing
    served.swap()
    found = connection.execute("select send_id from sends order by 1").fetchall()
    assert found == [("s",), ("small",)][: 2 if differing else 1]


def test_small_sends_that_are_served_are_compared(connection: Connection) -> None:
    keep_since(connection, SMALL_SENDS, NOON + timedelta(days=1))
    connection.execute("insert into send_channels values ('s', 'push', 1, 0, 0)")
    connection.execute("update send_totals set status = 'sent'")
    served = compared(connection, status=Status.SENT, tables=tables_of([], kept_since(connection), None))
    insert(connection, "send_channels", "s", "push", 1, 0, 1)
    assert served.differing() == 2
    assert [line.split(":")[0] for line in served.report()] == ["send_channels", "send_states"]
