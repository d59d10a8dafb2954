"""The merge into a real Postgres counts a record once, even if it is staged again or has another position."""

import itertools
import json
import random
import struct
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID
from zlib import crc32

import psycopg
import pytest

from local.devstack.provision import SCHEMAS, apply_sql
from masscomm.domain.notification_codes import RUN
from masscomm.errors import Retry, Stop
from masscomm.observability import metrics
from masscomm.observability.metric_names import RECORDS_QUARANTINED
from spark_metrics.common.broker import Broker, Ends
from spark_metrics.common.database import STREAM, connect
from spark_metrics.counting import lane_merge
from spark_metrics.counting.folding import COUNTS as COUNTS_OF_LANES
from spark_metrics.counting.folding import WEBHOOK_COUNTS, Folder
from spark_metrics.counting.lane_merge import LaneResult, LaneRow, Plan, merge_lane, prepare
from spark_metrics.counting.problems import Problem
from spark_metrics.counting.sink import BATCH_LOCK, Fenced, Merged, PostgresSink, between_batches
from spark_metrics.counting.status import StatusWriter
from spark_metrics.sql import read_sql
from tests.support.spark.metrics_job import wait_until

AT_MS = 1_700_000_000_000
HOUR_MS, DAY_MS = 3_600_000, 86_400_000
COUNTS = ("counts_minute", "counts_hour", "counts_day")
STEP_MS = {"counts_minute": 60_000, "counts_hour": HOUR_MS, "counts_day": DAY_MS}


@dataclass
class Record:
    """A Kafka record's counted values.

    Attributes:
        counts: (channel, measure, reason, count).
        codes: The states' codes by position.
    """

    offset: int
    number: int = 0  # the record id derives from this number
    source: str = "outcome"
    topic: str = "outcome"
    partition: int = 0
    send_id: str = "a send"
    club_id: int = 7
    type: str = "news"
    at_ms: int = AT_MS
    chunk_index: int = 0
    chunk_count: int | None = None
    due_ms: int | None = None
    counts: list[tuple[str, str, str | None, int]] = field(default_factory=lambda: [("push", "sent", None, 3)])
    # first of an outcome's consecutive positions; None: positions that no other record has
    first_position: int | None = None
    problem: str | None = None
    schema_id: int = 1
    users: tuple[int, ...] = ()
    decisions: str | None = None

    @property
    def record_id(self) -> str:
        return str(UUID(int=self.number))

    @property
    def place(self) -> tuple[str, int, int]:
        return self.topic, self.partition, self.offset

    def results(self) -> Iterator[tuple[int, str, str]]:
        """Return (position, status, reason) of an outcome record's recipients, in the order of its counts."""
        position = self.number * 10_000 if self.first_position is None else self.first_position
        for _, status, reason, n in self.counts:
            for _ in range(n):
                yield position, status, reason or ""
                position += 1


def a_chunk(offset: int, **changes: Any) -> Record:
    counts = [("push", "requested", None, 10), ("push", "duplicate", None, 2)]
    values: dict[str, Any] = {"source": "send", "topic": "send.api", "chunk_count": 1, "counts": counts} | changes
    return Record(offset, **values)


def rows_of(record: Record, lanes: int) -> Iterator[LaneRow]:
    """Return the rows that spark_metrics.counting.lanes makes of a record."""
    r = record
    if r.problem == Problem.NOT_LEARNED:
        hashed = crc32(repr(r.place).encode())
        for lane in range(lanes):
            yield LaneRow(lane, hashed, *r.place, r.schema_id, r.problem)
        return
    hashed = crc32(r.send_id.encode())
    if r.problem:
        yield LaneRow(hashed % lanes, hashed, *r.place, r.schema_id, r.problem)
        return
    channel, measure, reason, total = r.counts[0] if len(r.counts) == 1 else (None, None, None, None)
    run = listed = None
    if r.source == "outcome" and r.counts:
        positions, statuses, found = zip(*r.results(), strict=True)
        if len({*zip(statuses, found, strict=True)}) == 1 and random.Random(r.number).random() < 0.5:  # noqa: S311
            run = struct.pack("!q", positions[0] * RUN + len(positions))
        else:
            results = {"positions": positions, "index": range(len(positions)), "statuses": statuses}
            results["reasons"] = [reason or None for reason in found]
            listed = json.dumps({name: list(values) for name, values in results.items()})
    yield LaneRow(
        hashed % lanes,
        hashed,
        *r.place,
        r.schema_id,
        None,
        UUID(r.record_id).bytes,
        r.send_id,
        r.club_id,
        r.type,
        r.at_ms,
        r.chunk_index,
        r.chunk_count,
        None,
        r.due_ms,
        channel,
        measure,
        reason,
        total,
        [[text if text is None else str(text) for text in column] for column in zip(*r.counts, strict=True)]
        if len(r.counts) > 1
        else None,
        run,
        listed,
        ",".join(map(str, r.users)) if r.users else None,
        0 if r.users else None,
        decisions=r.decisions,
    )


@contextmanager
def a_task(sink: PostgresSink) -> Iterator[psycopg.Connection[Any]]:
    """A connection of an executor's task."""
    connection = connect(sink.database_url, "a task")
    prepare(connection)
    try:
        yield connection
    finally:
        connection.close()


def merge_lanes(
    sink: PostgresSink, plan: Plan, records: Iterable[Record], *, only: Collection[int] | None = None
) -> list[LaneResult]:
    """Merge the lanes of a batch, all or some; lanes without rows have no task."""
    by_lane: dict[int, list[LaneRow]] = {}
    for record in sorted(records, key=lambda record: record.place):
        for row in rows_of(record, plan.lanes):
            by_lane.setdefault(row.lane, []).append(row)
    with a_task(sink) as connection:
        return [
            merge_lane(connection, plan, lane, rows) for lane, rows in by_lane.items() if only is None or lane in only
        ]


def count(sink: PostgresSink, *records: Record, batch_id: int = 0, lanes: int = 3, **more: Any) -> Merged:
    """Count a batch as spark_metrics.counting.batches does, without Spark."""
    results = merge_lanes(sink, replace(sink.begin(lanes), **more), records)
    return sink.complete(results, batch_id=batch_id)


@pytest.fixture
def sink(database: str) -> Iterator[PostgresSink]:
    sink = PostgresSink(database)
    sink.take_over()
    yield sink
    sink.close()


type Served = dict[str, Any]


def served(sink: PostgresSink) -> Served:
    order = "group by 1, 2, 3, 4, 5 order by 1, 2, 3, 4, 5"
    tables = {
        name: f"select bucket, club_id, type, channel, measure, sum(count_total) from {name} {order}"  # noqa: S608
        for name in COUNTS
    }
    tables |= {
        "sends": "select send_id, club_id, type, requested_at, chunk_count, chunks from sends order by 1",
        "send_channels": "select send_id, channel, requested, duplicates, queued from send_channels order by 1, 2",
        "send_totals": "select send_id, channel, status, reason, count_total from send_totals order by 1, 2, 3, 4",
        "quarantine": "select topic, partition, kafka_offset, reason from quarantine order by 1, 2, 3",
    }
    return {name: sink.connected().execute(query).fetchall() for name, query in tables.items()}


def totals(sink: PostgresSink, table: str = "counts_minute") -> dict[str, int]:
    rows = sink.connected().execute(f"select measure, sum(count_total)::int from {table} group by 1")  # noqa: S608
    return dict(rows.fetchall())


def test_record_is_counted_in_each_table(sink: PostgresSink) -> None:
    merged = count(
        sink,
        a_chunk(0, number=1),
        Record(0, number=2, counts=[("push", "sent", None, 7), ("push", "suppressed", "opted_out", 3)]),
        Record(0, number=3, source="delivery", topic="delivery", counts=[("push", "queued", None, 7)]),
    )
    assert merged == Merged(records=3, refused=0, quarantined=0, replayed=0)
    for table in COUNTS:
        assert totals(sink, table) == {"requested": 10, "duplicate": 2, "sent": 7, "suppressed": 3, "queued": 7}
    found = served(sink)
    assert [row[3:] for row in found["send_totals"]] == [("", 7), ("opted_out", 3)]
    assert found["send_channels"] == [("a send", "push", 10, 2, 7)]
    assert [(row[0], row[4], row[5]) for row in found["sends"]] == [("a send", 1, 1)]


@pytest.mark.parametrize("batches", [1, 2, 4])
def test_disagreeing_chunks_give_one_row_in_any_order(sink: PostgresSink, batches: int) -> None:
    """The earliest chunk has the send's club and type; of several the smallest club, then type."""
    changes: list[dict[str, Any]] = [
        {"club_id": 8, "type": "Z", "at_ms": AT_MS},
        {"club_id": 8, "type": "a", "at_ms": AT_MS},
        {"club_id": 9, "type": "A", "at_ms": AT_MS},
        {"club_id": 1, "type": "A", "at_ms": AT_MS + 1},
    ]
    offsets = itertools.count()
    for number, order in enumerate(itertools.permutations(changes)):
        chunks = [
            a_chunk(offset := next(offsets), number=offset, send_id=f"send {number}", chunk_count=4, **each)
            for each in order
        ]
        size = len(chunks) // batches
        for first in range(0, len(chunks), size):
            count(sink, *chunks[first : first + size])
    rows = sink.connected().execute(
        "select club_id, type, requested_at, chunk_count, chunks, count(*) from sends group by 1, 2, 3, 4, 5"
    )
    assert rows.fetchall() == [(8, "Z", datetime.fromtimestamp(AT_MS / 1000, UTC), 4, 4, 24)]


def test_disagreeing_outcomes_give_one_row_in_any_order(sink: PostgresSink) -> None:
    """Outcomes that are counted before any chunk of their send."""
    changes: list[dict[str, Any]] = [{"club_id": 9, "at_ms": AT_MS}, {"club_id": 8, "at_ms": AT_MS + 1}]
    orders = [[[0, 1]], [[1, 0]], [[0], [1]], [[1], [0]]]
    offsets = itertools.count()
    for number, order in enumerate(orders):
        for some in order:
            count(
                sink,
                *[Record(offset := next(offsets), number=offset, send_id=f"send {number}", **changes[n]) for n in some],
            )
    rows = sink.connected().execute("select club_id, requested_at, chunks, count(*) from sends group by 1, 2, 3")
    assert rows.fetchall() == [(8, None, 0, len(orders))]


def test_buckets_are_utc_and_begin_at_their_own_start(sink: PostgresSink) -> None:
    last_ms_of_a_day = AT_MS // DAY_MS * DAY_MS + DAY_MS - 1
    count(sink, Record(0, number=1, at_ms=last_ms_of_a_day), Record(1, number=2, at_ms=last_ms_of_a_day + 1))
    for table, step in STEP_MS.items():
        rows = sink.connected().execute(f"select extract(epoch from bucket)::bigint * 1000 from {table} order by 1")  # noqa: S608
        assert [ms for (ms,) in rows] == [last_ms_of_a_day // step * step, last_ms_of_a_day + 1]


def test_the_same_record_produced_again_adds_nothing(sink: PostgresSink) -> None:
    """The table counted_ids recognises the record's id."""
    count(sink, a_chunk(0, number=1), Record(0, number=2))
    before = served(sink)
    merged = count(sink, a_chunk(1, number=1), Record(1, number=2), Record(0, number=2, partition=3))
    assert merged == Merged(records=3, refused=3, quarantined=0, replayed=0)
    assert served(sink) == before
    rows = sink.connected().execute(
        "select topic, partition, kafka_offset, record_id from redelivered order by 1, 2, 3"
    )
    assert rows.fetchall() == [
        ("outcome", 0, 1, UUID(int=2)),
        ("outcome", 3, 0, UUID(int=2)),
        ("send.api", 0, 1, UUID(int=1)),
    ]


def test_the_same_record_twice_in_one_batch_counts_once(sink: PostgresSink) -> None:
    """Of two positions with one record id, only the first is counted."""
    first, second = Record(4, number=2), Record(9, number=2, counts=[("push", "failed", "x", 3)])
    assert count(sink, second, first).refused == 1
    assert totals(sink) == {"sent": 3}


def test_ids_are_stored_for_the_window_at_least(database: str) -> None:
    """An id is forgotten with its table, which is dropped when its successor is older than the window."""
    sink = PostgresSink(database, window_s=3600)
    sink.take_over()
    a, b, c = (Record(number, number=number) for number in (1, 2, 3))
    count(sink, a)
    age(sink, "61 minutes")
    count(sink, b)
    assert len(id_tables(sink)) == 2
    age(sink, "59 minutes")
    # The first id is two hours old, but it may have been counted until an hour ago.
    assert count(sink, *(replace(record, offset=record.offset + 10) for record in (a, b))).refused == 2
    age(sink, "2 minutes")
    assert count(sink, *(replace(record, offset=record.offset + 20) for record in (a, b, c))).refused == 1
    assert len(id_tables(sink)) == 2
    assert remembered(sink) == [("outcome", UUID(int=number)) for number in (1, 2, 3)]
    sink.close()


def test_ids_are_stored_after_a_failover(sink: PostgresSink) -> None:
    """Postgres empties unlogged tables after a crash, and a replica never has their rows."""
    count(sink, Record(0, number=1))
    unlogged = sink.connected().execute(
        "select relname from pg_class where relname = any(%s) and relpersistence <> 'p'", [id_tables(sink)]
    )
    assert unlogged.fetchall() == []


def age(sink: PostgresSink, time: str) -> None:
    sink.connected().execute("update counted_id_tables set since = since - %s::interval", [time])


def id_tables(sink: PostgresSink) -> list[str]:
    """Return the tables of counted ids; no other is left."""
    names = [name for (name,) in sink.connected().execute("select name from counted_id_tables order by name")]
    left = sink.connected().execute("select relname from pg_class where relname ~ '^counted_ids_[0-9a-z]+$' order by 1")
    assert [name for (name,) in left] == names
    return names


def remembered(sink: PostgresSink) -> list[tuple[str, UUID]]:
    queries = [f"select source, record_id from {name}" for name in id_tables(sink)]  # noqa: S608
    return sink.connected().execute(" union all ".join(queries) + " order by 1, 2").fetchall()


@pytest.mark.kills(guard="metrics.counted_ids")
def test_an_id_of_an_earlier_table_is_refused(sink: PostgresSink) -> None:
    count(sink, Record(0, number=1))
    age(sink, "8 days")
    assert count(sink, Record(1, number=1), Record(2, number=2)).refused == 1
    assert len(id_tables(sink)) == 2
    assert remembered(sink) == [("outcome", UUID(int=1)), ("outcome", UUID(int=2))]


def test_equal_ids_in_two_lanes_count_once(sink: PostgresSink) -> None:
    """A copy with another send belongs to another lane; the unique index sees both."""
    copies = [Record(n, number=1, send_id=f"send {n}") for n in range(9)]
    assert count(sink, *copies, lanes=5).refused == 8
    assert totals(sink) == {"sent": 3}


def test_notification_is_in_totals_once_under_its_last_status(sink: PostgresSink) -> None:
    """Statuses are merged by the rank in masscomm.domain.notification_codes."""
    shared: dict[str, Any] = {"first_position": 510}
    count(sink, Record(0, number=1, counts=[("push", "held", None, 4)], **shared))
    assert [row[2:] for row in served(sink)["send_totals"]] == [("held", "", 4)]
    sent = Record(1, number=2, counts=[("push", "sent", None, 2), ("push", "failed", "too_large", 1)], **shared)
    count(sink, sent, Record(2, number=3, counts=[("push", "expired", "expired", 1)], **shared))
    assert [row[2:] for row in served(sink)["send_totals"]] == [
        ("failed", "too_large", 1),
        ("held", "", 1),
        ("sent", "", 2),
    ]
    ended: list[tuple[str, str, str | None, int]] = [("push", "delivered", None, 2), ("push", "bounced", "new", 2)]
    count(sink, Record(3, number=4, counts=ended, **shared))
    assert [row[2:] for row in served(sink)["send_totals"]] == [("bounced", "other", 2), ("delivered", "", 2)]
    assert totals(sink) == {"held": 4, "sent": 2, "failed": 1, "expired": 1, "delivered": 2, "bounced": 2}


def test_same_id_in_two_sources_counts_in_each(sink: PostgresSink) -> None:
    count(sink, Record(0, number=1), Record(0, number=1, source="delivery", topic="delivery"))
    assert totals(sink) == {"sent": 6}


@pytest.mark.kills(guard="metrics.counted_offsets")
def test_consumed_positions_add_nothing_without_their_ids(sink: PostgresSink) -> None:
    """The table stream_offsets excludes consumed positions."""
    batch = [Record(5, number=1), Record(6, number=2), Record(7, number=3, partition=1)]
    count(sink, *batch)
    before = served(sink)
    sink.connected().execute("truncate lane_offsets")
    forget_ids(sink)
    merged = count(sink, *batch, Record(7, number=4))
    assert merged == Merged(records=1, refused=0, quarantined=0, replayed=3)
    assert totals(sink) == {"sent": 12}
    assert served(sink)["sends"] == before["sends"]
    assert sink.next_offsets() == {("outcome", 0): 8, ("outcome", 1): 8}


def forget_ids(sink: PostgresSink) -> None:
    for name in id_tables(sink):
        sink.connected().execute(f"truncate {name}".encode())


@pytest.mark.kills(guard="metrics.lane_offsets")
@pytest.mark.parametrize("lanes", [1, 2, 3, 5, 8])
def test_merged_lanes_add_nothing_with_any_number_of_lanes(sink: PostgresSink, database: str, lanes: int) -> None:
    """A driver dies when some lanes are merged; the next one has more records and another number of lanes."""
    batch = [Record(n, number=n, send_id=f"send {n % 11}", partition=n % 2) for n in range(40)]
    later = [Record(n, number=n, send_id=f"send {n % 13}", partition=n % 2) for n in range(40, 60)]
    some = merge_lanes(sink, sink.begin(3), batch, only={0, 2})
    assert 0 < sum(result.records for result in some) < 40
    assert sink.next_offsets() == {}
    # The ids would also refuse the records, but as redeliveries.
    forget_ids(sink)
    other = PostgresSink(database)
    other.take_over()
    more = merge_lanes(other, other.begin(lanes), batch + later, only={0})
    forget_ids(sink)
    last = PostgresSink(database)
    last.take_over()
    merged = count(last, *batch, *later, lanes=4)
    assert merged.refused == 0
    assert sum(result.records for result in [*some, *more]) + merged.records == 60
    assert totals(last) == {"sent": 180}
    assert [row[4:] for row in served(last)["send_totals"]] == [
        (3 * sum(record.send_id == send for record in batch + later),)
        for send in sorted({record.send_id for record in batch + later})
    ]
    assert last.next_offsets() == {("outcome", 0): 59, ("outcome", 1): 60}
    assert last.connected().execute("select from redelivered").fetchall() == []
    last.take_over()
    assert last.connected().execute("select from lane_offsets").fetchall() == []
    for each in (other, last):
        each.close()


def test_a_task_that_runs_again_adds_nothing(sink: PostgresSink) -> None:
    """Also after its batch, and while the next batch is merged."""
    plan, record = sink.begin(3), Record(0, number=1)
    first = merge_lanes(sink, plan, [record])
    forget_ids(sink)
    (again,) = merge_lanes(sink, plan, [record])
    assert (again.records, again.replayed) == (0, 1)
    assert sink.complete(first, batch_id=0).records == 1
    (after,) = merge_lanes(sink, plan, [record])
    assert (after.records, after.replayed) == (0, 1)
    assert totals(sink) == {"sent": 3}


@pytest.mark.kills(guard="metrics.one_task_a_lane")
def test_second_run_of_a_task_waits_for_the_first(sink: PostgresSink) -> None:
    plan = sink.begin(3)
    (row,) = rows_of(Record(0, number=1), plan.lanes)
    with a_task(sink) as first, ThreadPoolExecutor() as pool:
        with first.transaction():
            merge_lane(first, plan, row.lane, [row])
            forget_ids_of = pool.submit(merge_lanes, sink, plan, [Record(0, number=1)])
            waits = "select from pg_locks where locktype = 'advisory' and not granted"
            wait_until("the second run to wait", lambda: first.execute(waits).fetchone() is not None or None)
        (second,) = forget_ids_of.result()
    assert (second.records, second.refused, second.replayed) == (0, 0, 1)
    assert totals(sink) == {"sent": 3}


def test_lanes_update_late_counts_in_order_of_keys(sink: PostgresSink, database: str) -> None:
    """So no two lanes wait for each other. A lane that waits for a row holds the rows before it, and none behind it."""
    with closing(PostgresSink(database)) as other:
        StatusWriter(other, Broker(""), epoch=1, grace_ms=0).write(AT_MS + DAY_MS, {}, {})
    clubs = random.Random(3).sample(range(100), 100)  # noqa: S311
    count(sink, *[Record(n, number=n, club_id=club) for n, club in enumerate(clubs)])
    plan = sink.begin(3)
    records = [Record(200 + n, number=200 + n, club_id=club) for n, club in enumerate(reversed(clubs))]
    with ThreadPoolExecutor() as pool, psycopg.connect(database) as holding:
        holding.execute("select from counts_minute where club_id = 50 for update")
        merging = pool.submit(merge_lanes, sink, plan, records)
        waits = "select from pg_locks where not granted"
        wait_until("the lane to wait", lambda: holding.execute(waits).fetchone() is not None or None)
        with psycopg.connect(database) as other:
            free = other.execute("select club_id from counts_minute for update skip locked").fetchall()
        assert sorted(club for (club,) in free) == list(range(51, 100))
        holding.rollback()
        merging.result()


def test_batch_that_is_counted_again_adds_nothing(sink: PostgresSink) -> None:
    """The answer to the last commit of a batch may be lost."""
    count(sink, Record(0, number=1), batch_id=0)
    before = served(sink)
    assert count(sink, Record(0, number=1), batch_id=0) == Merged(records=0, refused=0, quarantined=0, replayed=1)
    assert served(sink) == before


@pytest.mark.kills(guard="metrics.second_driver")
def test_a_driver_that_was_replaced_merges_nothing(sink: PostgresSink, database: str) -> None:
    """The replaced driver's epoch is older than the epoch of the stream."""
    plan = sink.begin(3)
    other = PostgresSink(database)
    other.take_over()
    (result,) = merge_lanes(sink, plan, [Record(0, number=1)])
    assert (result.taken_by, result.records) == (2, 0)
    with pytest.raises(Fenced):
        sink.begin(3)
    with pytest.raises(Fenced):
        sink.complete([], batch_id=0)
    with pytest.raises(Fenced):
        sink.store_topic_ids({"outcome": "another id"})
    assert totals(sink) == {}
    count(other, Record(0, number=1))
    assert totals(other) == {"sent": 3}
    other.close()


def test_takeover_waits_for_the_lanes(sink: PostgresSink, database: str) -> None:
    """Afterwards no lane of the replaced driver can merge."""
    plan, other = sink.begin(3), PostgresSink(database)
    other.connected().execute("set lock_timeout = '50ms'")
    (row,) = rows_of(Record(0, number=1), plan.lanes)
    with a_task(sink) as task, task.transaction():
        merge_lane(task, plan, row.lane, [row])
        with pytest.raises(psycopg.errors.LockNotAvailable):
            other.take_over()
    other.close()


@pytest.mark.kills(guard="metrics.unfinished_batch")
def test_no_batch_is_partly_merged_between_batches(sink: PostgresSink, database: str) -> None:
    records = [Record(n, number=n, send_id=f"send {n}") for n in range(20)]
    with psycopg.connect(database, autocommit=True) as other:
        plan = sink.begin(3)
        with pytest.raises(Retry), between_batches(other, wait_s=0.05):
            pass
        merge_lanes(sink, plan, records, only={0})
        # The driver dies: its lock is free, and the batch is unfinished.
        sink.close()
        with pytest.raises(Retry), between_batches(other, wait_s=0.05):
            pass
        count(sink, *records)
        with between_batches(other), ThreadPoolExecutor() as pool:
            beginning = pool.submit(sink.begin, 3)
            waits = "select from pg_locks where locktype = 'advisory' and not granted"
            wait_until("the batch to wait", lambda: other.execute(waits).fetchone() is not None or None)
            assert not beginning.done()
            other.execute("select pg_advisory_unlock(%s)", [BATCH_LOCK])
            beginning.result()


def test_failed_lane_changes_nothing(sink: PostgresSink) -> None:
    huge: list[tuple[str, str, str | None, int]] = [("push", "queued", None, 2**62)] * 4
    records = [Record(0, number=1), Record(1, number=2, source="delivery", topic="delivery", counts=huge)]
    with pytest.raises(psycopg.errors.NumericValueOutOfRange):
        count(sink, *records, lanes=1)
    assert totals(sink) == {}
    assert sink.next_offsets() == {}
    assert remembered(sink) == []
    # The others are counted when the lane looks for the record that Postgres rejects.
    merged = count(sink, *records, lanes=1, find_unstorable=True)
    assert (merged.records, merged.quarantined) == (2, 1)
    assert totals(sink) == {"sent": 3}
    assert served(sink)["quarantine"] == [("delivery", 0, 1, "unstorable")]


def test_only_unstorable_records_are_quarantined(sink: PostgresSink, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lane can store any one of its huge counts, which are in several slices, but no two of them."""
    monkeypatch.setattr(lane_merge, "_SLICE", 20)
    huge = dict.fromkeys((3, 5, 30, 47), 2**62 + 2**61)
    records = [
        Record(
            n,
            number=n,
            source="delivery",
            topic="delivery",
            send_id=f"send {n % 7}",
            counts=[("push", "queued", None, huge.get(n, 2))],
        )
        for n in range(60)
    ]
    merged = count(sink, *records, find_unstorable=True)
    lanes = {row.lane for record in records if record.offset in huge for row in rows_of(record, 3)}
    assert (merged.records, merged.quarantined) == (60, len(huge) - len(lanes))
    quarantined = [place[2] for place in served(sink)["quarantine"]]
    assert set(quarantined) < set(huge)
    row = sink.connected().execute("select sum(count_total) from counts_day").fetchone()
    assert row == (len(lanes) * (2**62 + 2**61) + 56 * 2,)
    assert len(remembered(sink)) == 60 - len(quarantined)
    assert count(sink, *records).replayed == 60


def test_lane_that_stays_unstorable_is_an_error(sink: PostgresSink) -> None:
    sink.connected().execute("alter table quarantine add check (reason <> 'unstorable')")
    huge: list[tuple[str, str, str | None, int]] = [("push", "queued", None, 2**62)] * 4
    record = Record(0, number=1, source="delivery", topic="delivery", counts=huge)
    with pytest.raises(psycopg.errors.CheckViolation):
        count(sink, record, find_unstorable=True)
    assert sink.next_offsets() == {}


def test_large_lane_is_merged_in_slices(sink: PostgresSink, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"_SLICE": 7, "_MOST_SUMS": 5, "_MOST_CHUNKS": 3, "_MOST_BYTES": 50}.items():
        monkeypatch.setattr(lane_merge, name, value)
    records = [Record(n, number=n % 90, send_id=f"send {n % 30}", chunk_index=n % 4) for n in range(100)]
    assert count(sink, *records, lanes=1).refused == 10
    assert totals(sink) == {"sent": 270}
    assert sum(row[4] for row in served(sink)["send_totals"]) == 270


def test_quarantined_records_are_a_metric(sink: PostgresSink) -> None:
    metrics.taken()
    count(sink, Record(0, number=1), Record(1, number=2, problem=Problem.UNDECODABLE))
    count(sink, Record(2, number=3), batch_id=1)
    assert metrics.taken()[0] == {RECORDS_QUARANTINED.name: 1}


def test_bad_records_are_quarantined_once_by_position(sink: PostgresSink) -> None:
    bad = Record(3, topic="send.api", source="send", problem=Problem.UNDECODABLE)
    merged = count(sink, bad, Record(0, number=1))
    assert merged == Merged(records=2, refused=0, quarantined=1, replayed=0)
    assert served(sink)["quarantine"] == [("send.api", 0, 3, "undecodable")]
    assert count(sink, bad).replayed == 1
    assert sink.next_offsets() == {("outcome", 0): 1, ("send.api", 0): 4}


def test_records_of_unknown_schemas_are_quarantined(sink: PostgresSink, monkeypatch: pytest.MonkeyPatch) -> None:
    """No lane is merged before the schemas of all lanes are looked up, even if it has stored the ids of a slice."""
    monkeypatch.setattr(lane_merge, "_SLICE", 1)
    plan = sink.begin(3)
    unknown: dict[str, Any] = {"source": "send", "topic": "send.api", "problem": Problem.NOT_LEARNED}
    records = [*(Record(n, number=n, send_id=f"send {n}") for n in range(9)), Record(0, schema_id=8, **unknown)]
    results = merge_lanes(sink, plan, records)
    assert {schema for result in results for schema in result.unknown} == {("send", 8)}
    assert len(results) == 3
    assert totals(sink) == {}
    results = merge_lanes(sink, replace(plan, denied=frozenset([("send", 8)])), records)
    merged = sink.complete(results, batch_id=0)
    assert (merged.records, merged.refused, merged.quarantined) == (10, 0, 1)
    assert totals(sink) == {"sent": 27}
    assert served(sink)["quarantine"] == [("send.api", 0, 0, "unknown_schema")]


@pytest.mark.kills(guard="metrics.quarantined_by_a_lane")
@pytest.mark.parametrize("merged", [0, 1, 2])
def test_schema_that_is_learned_between_two_lanes_adds_nothing(sink: PostgresSink, merged: int) -> None:
    """A record that is quarantined with the first lane stays so, although it would now belong to an unmerged lane."""
    records = [Record(n, number=n, send_id=f"send {n}") for n in range(9)]
    late = Record(9, number=9, send_id="send 0")
    before = [*records, replace(late, problem=Problem.NOT_LEARNED)]
    plan = replace(sink.begin(3), denied=frozenset([("outcome", 1)]))
    merge_lanes(sink, plan, before, only={merged})
    sink.take_over()
    count(sink, *records, late)
    assert totals(sink) == {"sent": 27}
    assert served(sink)["quarantine"] == [("outcome", 0, 9, "unknown_schema")]


def test_first_record_of_a_send_creates_its_row(sink: PostgresSink) -> None:
    count(sink, Record(0, number=1))
    assert [row[3:] for row in served(sink)["sends"]] == [(None, None, 0)]
    count(sink, a_chunk(0, number=2, chunk_count=2, at_ms=AT_MS + 5))
    count(sink, a_chunk(1, number=3, chunk_count=2))
    ((_, _, _, requested_at, chunk_count, chunks),) = served(sink)["sends"]
    assert (round(requested_at.timestamp() * 1000), chunk_count, chunks) == (AT_MS, 2, 2)


def test_send_without_recipients_has_its_row(sink: PostgresSink) -> None:
    count(sink, a_chunk(0, number=1, counts=[("push", "requested", None, 0)]))
    assert served(sink)["send_channels"] == [("a send", "push", 0, 0, 0)]
    assert served(sink)["counts_minute"] == []


def test_log_has_the_decision_of_each_result(database: str) -> None:
    sink = PostgresSink(database, recipients=True)
    sink.take_over()
    decided: dict[str, list[Any]] = {
        "layer": ["user"],
        "rule": ["channel:push"],
        "settings_version": [7],
        "settings_changed_at": [AT_MS],
    }
    counts: list[tuple[str, str, str | None, int]] = [("push", "suppressed", "opted_out", 1)]
    count(sink, Record(0, number=1, users=(5,), counts=counts, decisions=json.dumps(decided)))
    count(sink, Record(1, number=2, users=(6,), counts=counts))
    rows = sink.connected().execute("select user_id, decision from recipient_log order by 1").fetchall()
    assert rows == [(5, {name: values[0] for name, values in decided.items()}), (6, None)]
    sink.close()


def test_status_has_the_last_batch_and_a_rising_watermark(sink: PostgresSink, database: str) -> None:
    count(sink, Record(0, number=1), Record(1, number=1), batch_id=12)
    other = PostgresSink(database)
    status = StatusWriter(other, Broker(""), epoch=1, grace_ms=0)
    status.state("running")
    status.write(AT_MS, {}, {("outcome", 0): 7})
    status.write(AT_MS - 1000, {("outcome", 0): 5, ("outcome", 1): 2}, {("outcome", 0): 7}, input_rate=12.5)
    row = sink.connected().execute(
        "select state, batch_id, records, refused, lag, end_offsets, lags, input_rate, finished_at is not null"
        " from stream_status"
    )
    ends, lags = {"outcome": {"0": 7}}, {"outcome": {"0": 5, "1": 2}}
    assert row.fetchone() == ("running", 12, 2, 1, 7, ends, lags, 12.5, True)
    watermark = sink.connected().execute("select extract(epoch from watermark) * 1000 from stream_watermark").fetchone()
    assert watermark is not None
    assert int(watermark[0]) == AT_MS
    other.close()


@dataclass
class OneTopic:
    """The broker of one empty topic, which may be created again.

    Attributes:
        ends_read: The time of the database when the ends were read.
    """

    sink: PostgresSink
    topic_id: str = "first"
    ends_read: int = 0

    def ends(self, _topics: Any) -> Ends:
        self.ends_read = self.sink.now_ms()
        return Ends({("outcome", 0): 0}, {("outcome", 0): 2})

    def topic_ids(self, _topics: Any) -> dict[str, str]:
        return {"outcome": self.topic_id}

    @contextmanager
    def status(self) -> Iterator[StatusWriter]:
        """Return a writer of the status that reads this topic."""
        with closing(PostgresSink(self.sink.database_url)) as sink:
            yield StatusWriter(sink, cast("Broker", self), epoch=1, grace_ms=0)


# A query that has read nothing yet.
QUERY: Any = SimpleNamespace(lastProgress=None)


def stored_watermark(sink: PostgresSink) -> list[int]:
    rows = sink.connected().execute("select floor(extract(epoch from watermark) * 1000)::bigint from stream_watermark")
    return [value for (value,) in rows]


@pytest.mark.kills(guard="metrics.watermark_clock")
def test_watermark_is_the_databases_time(sink: PostgresSink, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver's clock is an hour ahead. Minutes that are not over would be complete."""
    count(sink, Record(0, number=1), Record(1, number=2))
    broker = OneTopic(sink)
    before_ms, ahead = sink.now_ms(), time.time() + 3_600
    with broker.status() as status, monkeypatch.context() as driver:
        driver.setattr(time, "time", lambda: ahead)
        driver.setattr(time, "time_ns", lambda: round(ahead * 1e9))
        status.store(QUERY)
    (watermark_ms,) = stored_watermark(sink)
    assert before_ms <= watermark_ms <= broker.ends_read


def test_recreated_topic_ends_the_running_job(sink: PostgresSink) -> None:
    """At the next reading of the ends, within a second: the new topic's records would be skipped up to the offsets."""
    count(sink, Record(0, number=1), Record(1, number=2))
    broker = OneTopic(sink)
    sink.store_topic_ids({"outcome": broker.topic_id})
    with broker.status() as status:
        status.store(QUERY)
        watermark = stored_watermark(sink)
        broker.topic_id = "second"
        with pytest.raises(Stop, match="outcome was deleted and made again"):
            status.store(QUERY)
    assert stored_watermark(sink) == watermark


@pytest.mark.kills(guard="metrics.replaced_driver")
def test_replaced_driver_writes_no_watermark(sink: PostgresSink, database: str) -> None:
    count(sink, Record(0, number=1))
    with OneTopic(sink).status() as replaced, closing(PostgresSink(database)) as second:
        replaced.write(AT_MS, {}, {})
        assert second.take_over() == 2
        with pytest.raises(Fenced, match="another driver"):
            replaced.write(AT_MS + 60_000, {}, {})
    assert stored_watermark(sink) == [AT_MS]


def test_late_record_revises_its_complete_minute(sink: PostgresSink, database: str) -> None:
    """A minute is complete a grace period after its end; a later record of this minute revises it."""
    minute = AT_MS // 60_000 * 60_000
    other = PostgresSink(database)
    status = StatusWriter(other, Broker(""), epoch=1, grace_ms=10_000)
    status.write(minute + 69_999, {}, {})
    assert count(sink, Record(0, number=1)).late == 0
    status.write(minute + 70_000, {}, {})
    assert count(sink, Record(1, number=2), Record(2, number=3, at_ms=minute + 60_000)).late == 1
    assert count(sink, Record(3, number=4, counts=[("push", "sent", None, 2), ("push", "failed", "x", 2)])).late == 1
    assert count(sink, Record(4, number=5, club_id=8)).late == 1
    rows = sink.connected().execute(
        "select minute, club_id, late_records, late_total, revised_at <= now() from revised_minutes order by 2"
    )
    found = [(round(row[0].timestamp() * 1000), *row[1:]) for row in rows]
    assert found == [(minute, 7, 2, 7, True), (minute, 8, 1, 3, True)]
    assert totals(sink) == {"sent": 14, "failed": 2}
    other.close()


def test_applying_the_tables_again_changes_nothing(sink: PostgresSink, database: str) -> None:
    count(sink, Record(0, number=1))
    before = served(sink)
    apply_sql(database, sorted((SCHEMAS / "tables").glob("*.sql")))
    assert served(sink) == before


@pytest.mark.parametrize("seed", range(8))
def test_replays_redeliveries_and_reorderings_equal_a_group_by(sink: PostgresSink, seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311
    places = [("outcome", 0), ("outcome", 1), ("outcome", 2), ("send.api", 0)]
    partitions: dict[tuple[str, int], list[Record]] = {place: [] for place in places}
    for _ in range(300):
        topic, partition = rng.choice(list(partitions))
        place = partitions[topic, partition]
        number = rng.randrange(150)
        # A record's content depends on its id alone, as a deterministic producer writes it.
        content = random.Random(number)  # noqa: S311
        shared: dict[str, Any] = {
            "number": number,
            "partition": partition,
            "send_id": f"send {number % 7}",
            "club_id": number % 3,
            "at_ms": AT_MS + content.randrange(2 * DAY_MS),
        }
        if rng.random() < 0.05:
            place.append(Record(len(place), topic=topic, partition=partition, problem=Problem.UNDECODABLE))
        elif topic == "send.api":
            requested = [(c, "requested", None, content.randrange(500)) for c in ("push", "email")]
            place.append(a_chunk(len(place), counts=requested, **shared))
        else:
            measures: list[tuple[str, str | None]] = [
                ("sent", None),
                ("suppressed", "opted_out"),
                ("suppressed", "no_device"),
                ("failed", "x"),
            ]
            chosen = content.sample(measures, content.randrange(5))
            counts = [("push", status, reason, content.randrange(1, 500)) for status, reason in chosen]
            place.append(Record(len(place), counts=counts, **shared))
    _count_in_batches(sink, rng, partitions)

    unique = {(r.source, r.number): r for place in partitions.values() for r in place if not r.problem}
    for table, step in STEP_MS.items():
        expected: Counter[tuple[Any, ...]] = Counter()
        for record in unique.values():
            for channel, measure, _, n in record.counts:
                bucket = record.at_ms // step * step
                expected[bucket, record.club_id, record.type, channel, measure] += n
        rows = served(sink)[table]
        assert {(round(row[0].timestamp() * 1000), *row[1:5]): row[5] for row in rows} == +expected
    by_send: Counter[tuple[Any, ...]] = Counter()
    for record in unique.values():
        if record.source == "outcome":
            for channel, status, reason, n in record.counts:
                by_send[record.send_id, channel, status, "other" if reason == "x" else reason or ""] += n
    assert {row[:4]: row[4] for row in served(sink)["send_totals"]} == by_send
    assert len(served(sink)["quarantine"]) == sum(bool(r.problem) for place in partitions.values() for r in place)


def _count_in_batches(sink: PostgresSink, rng: random.Random, partitions: dict[tuple[str, int], list[Record]]) -> None:
    """Count the records in batches of any size; some batches repeat earlier records, as after a lost checkpoint."""
    done = dict.fromkeys(partitions, 0)
    while any(done[key] < len(place) for key, place in partitions.items()):
        batch: list[Record] = []
        for key, place in partitions.items():
            start = rng.choice([done[key], done[key], rng.randrange(done[key] + 1)])
            end = min(len(place), done[key] + rng.randrange(40))
            batch += place[start:end]
            done[key] = max(done[key], end)
        rng.shuffle(batch)
        if rng.random() < 0.3:
            # Some lanes are merged, then the driver dies.
            lanes = rng.randrange(1, 6)
            plan = sink.begin(lanes)
            merge_lanes(sink, plan, batch, only=rng.sample(range(lanes), rng.randrange(lanes)))
            sink.take_over()
        for _ in range(rng.choice([1, 1, 2])):
            count(sink, *batch, lanes=rng.randrange(1, 6))
        if rng.random() < 0.3:
            _complete(sink, AT_MS + rng.randrange(3 * DAY_MS))


def _complete(sink: PostgresSink, watermark_ms: int) -> None:
    """Fold the buckets before a time, and store it as the watermark."""
    Folder((*COUNTS_OF_LANES, *WEBHOOK_COUNTS), grace=timedelta(0)).fold(
        sink.connected(), datetime.fromtimestamp(watermark_ms / 1000, UTC)
    )
    names = {"stream": STREAM, "ms": watermark_ms, "grace_ms": 0}
    sink.connected().execute(read_sql("watermark"), names)
