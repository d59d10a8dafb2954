"""The merge into a real Postgres counts a record once, even if it is staged again or has another position."""

import json
import random
import struct
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

import psycopg
import pytest

from devstack.provision import SCHEMAS, apply_sql
from masscomm.errors import Retry
from spark_metrics.problems import Problem
from spark_metrics.sink import (
    BATCH_LOCK,
    Attempt,
    Fenced,
    Merged,
    PostgresSink,
    Repeated,
    StagingLost,
    between_batches,
)
from spark_metrics.staging import copy_rows
from spark_metrics.states import RUN
from spark_metrics.status import StatusWriter
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
    counts: list[tuple[str, str, str | None, int]] = field(default_factory=lambda: [("push", "sent", None, 3)])
    # first of an outcome's consecutive positions; None: positions that no other record has
    first_position: int | None = None
    problem: str | None = None
    schema_id: int = 1

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


def line(*values: Any) -> str:
    return "\t".join("\\N" if value is None else str(value) for value in values)


def stage(sink: PostgresSink, attempt: Attempt, records: Iterable[Record], *, part: int = 0, number: int = 0) -> None:
    """Stage the rows that spark_metrics.staging sends for these records, as one task."""
    lines: dict[str, list[str]] = defaultdict(list)
    binary: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    for r in records:
        lines["staging_positions"].append(line(r.topic, r.partition, r.offset, r.offset, 1))
        if r.problem:
            lines["staging_problems"].append(line(*r.place, r.source, r.schema_id, r.problem))
            continue
        binary["staging_ids"].append((r.source, UUID(r.record_id).bytes))
        for ordinal, (channel, measure, reason, n) in enumerate(r.counts or [(None, None, None, None)]):
            known = (r.source, r.send_id, r.club_id, r.type, r.at_ms // 60_000 * 60, channel, measure, reason, n)
            lines["staging_counts"].append(line(*known, int(ordinal == 0), r.at_ms, r.chunk_count))
        if r.source == "outcome" and r.counts:
            positions, statuses, reasons = zip(*r.results(), strict=True)
            results = {
                "positions": positions,
                "index": range(len(positions)),
                "statuses": statuses,
                "reasons": [reason or None for reason in reasons],
            }
            place = (r.send_id, r.chunk_index, r.counts[0][0])
            if len({*zip(statuses, reasons, strict=True)}) == 1 and random.Random(r.number).random() < 0.5:  # noqa: S311
                run = struct.pack("!q", positions[0] * RUN + len(positions))
                binary["staging_states"].append((*place, statuses[0], reasons[0] or None, run, None))
            else:
                listed = json.dumps({name: list(values) for name, values in results.items()})
                binary["staging_states"].append((*place, statuses[0], reasons[0] or None, None, listed))
    with sink.connected().transaction():
        copy_rows(sink.connected(), attempt.number, part, number, {**lines, **binary})


def count(sink: PostgresSink, *records: Record, batch_id: int = 0) -> Merged:
    """Merge a batch as spark_metrics.batches does, without Spark."""
    attempt = sink.begin()
    rows = list(records)
    dropped: list[Record] = []
    while True:
        stage(sink, attempt, rows)
        if dropped:
            lines = [line(r.topic, r.partition, r.offset, r.offset, 1) for r in dropped]
            refused = [line(*r.place, r.source, r.record_id) for r in dropped]
            with sink.connected().transaction():
                by_table = {"staging_positions": lines, "staging_redelivered": refused}
                copy_rows(sink.connected(), attempt.number, 1, 0, by_table)
        try:
            return sink.merge(attempt, batch_id=batch_id, replayed=len(records) - len(rows) - len(dropped))
        except Repeated as repeated:
            if repeated.floor:
                rows = [r for r in rows if r.offset >= repeated.floor.get((r.topic, r.partition), 0)]
            else:
                seen = set(repeated.ids)
                kept = []
                for r in sorted(rows, key=lambda r: r.place):
                    if not r.problem and (r.source, r.record_id) in seen:
                        dropped.append(r)
                    else:
                        kept.append(r)
                        if not r.problem:
                            seen |= {(r.source, r.record_id)} & set(repeated.twice)
                rows = kept
        sink.delete_staged(attempt)


@pytest.fixture
def sink(database: str) -> Iterator[PostgresSink]:
    sink = PostgresSink(database)
    sink.take_over()
    yield sink
    sink.close()


type Served = dict[str, Any]


def served(sink: PostgresSink) -> Served:
    order = "order by 1, 2, 3, 4, 5"
    tables = {
        name: f"select bucket, club_id, type, channel, measure, count_total from {name} {order}"  # noqa: S608
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


def test_an_id_is_forgotten_after_the_window_and_not_before(database: str) -> None:
    sink = PostgresSink(database, window_s=3600)
    sink.take_over()
    count(sink, Record(0, number=1))
    count(sink, Record(1, number=2))
    remembered = "update counted_batches set counted_at = now() - %s::interval where ids = %s"
    sink.connected().execute(remembered, ["59 minutes", UUID(int=1).bytes])
    sink.connected().execute(remembered, ["61 minutes", UUID(int=2).bytes])
    assert count(sink, Record(2, number=1), Record(3, number=2), Record(4, number=2)).refused == 2
    assert totals(sink) == {"sent": 9}
    assert count(sink, Record(5, number=2)).refused == 1
    sink.close()


def test_ids_beyond_the_window_are_deleted_for_each_source(database: str) -> None:
    sink = PostgresSink(database, window_s=3600)
    sink.take_over()
    known = [Record(n, number=1, source=source) for n, source in enumerate(("send", "delivery", "outcome", "to_come"))]
    count(sink, *known)
    assert sink.forget(sink.begin()) == 0
    sink.connected().execute("update counted_batches set counted_at = now() - interval '61 minutes'")
    count(sink, Record(9, number=9))
    assert sink.forget(sink.begin()) == len(known)
    assert remembered(sink) == [("outcome", UUID(int=9))]
    assert count(sink, *(replace(record, offset=record.offset + 20) for record in known)).refused == 0
    sink.close()


def remembered(sink: PostgresSink) -> list[tuple[str, UUID]]:
    """Check that memory has the record ids of the table counted_ids."""
    found = sink.connected().execute("select source, record_id from counted_records order by 1, 2").fetchall()
    batches = sink.connected().cursor(binary=True).execute("select source, ids from counted_batches").fetchall()
    ids = [(source, UUID(bytes=ids[at : at + 16])) for source, ids in batches for at in range(0, len(ids), 16)]
    assert sorted(ids) == found
    return found


def test_ids_are_loaded_once_and_not_by_each_connection(sink: PostgresSink) -> None:
    count(sink, Record(0, number=1))
    sink.close()
    assert count(sink, Record(1, number=1), Record(2, number=2)).refused == 1
    assert remembered(sink) == [("outcome", UUID(int=1)), ("outcome", UUID(int=2))]


@pytest.mark.kills(guard="metrics.counted_ids_after_crash")
def test_known_ids_are_refused_after_a_server_crash(sink: PostgresSink) -> None:
    """The crash empties the unlogged tables; the empty counted_ids_loaded reveals it."""
    known = [Record(n, number=n, source=source) for n, source in enumerate(("send", "delivery", "outcome", "to_come"))]
    count(sink, *known)
    count(sink, Record(10, number=10))
    before = served(sink), remembered(sink)
    rows = sink.connected().execute("select relname from pg_class where relpersistence = 'u' and relkind = 'r'")
    sink.connected().execute(b"truncate " + ", ".join(name for (name,) in rows).encode())
    sink.close()
    merged = count(sink, *(replace(record, offset=record.offset + 20) for record in known), Record(30, number=10))
    assert merged.refused == 5
    assert (served(sink), remembered(sink)) == before


def test_notification_is_in_totals_once_under_its_last_status(sink: PostgresSink) -> None:
    """Statuses are merged by the rank in spark_metrics.states."""
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
    sink.connected().execute("truncate counted_batches, counted_outcomes")
    merged = count(sink, *batch, Record(7, number=4))
    assert merged == Merged(records=1, refused=0, quarantined=0, replayed=3)
    assert totals(sink) == {"sent": 12}
    assert served(sink)["sends"] == before["sends"]
    assert sink.next_offsets() == {"outcome": {0: 8, 1: 8}}


def test_a_task_that_ran_twice_counts_once(sink: PostgresSink) -> None:
    """The table staging_tasks has both runs of the task, of which one counts."""
    attempt = sink.begin()
    record = Record(0, number=1, counts=[("push", "sent", None, 3), ("push", "failed", "x", 4)])
    stage(sink, attempt, [record], part=1, number=0)
    stage(sink, attempt, [record], part=1, number=1)
    stage(sink, attempt, [Record(1, number=2)], part=2, number=1)
    assert sink.merge(attempt, batch_id=0).records == 2
    assert totals(sink) == {"sent": 6, "failed": 4}


@pytest.mark.kills(guard="metrics.staging_task")
def test_merge_waits_for_a_task_run_that_still_stages(sink: PostgresSink, database: str) -> None:
    """A staging task locks its attempt, because rows that it commits during a merge would be counted twice."""
    attempt, record = sink.begin(), Record(0, number=1)
    stage(sink, attempt, [record])
    other = PostgresSink(database)
    with ThreadPoolExecutor() as pool:
        with other.connected().transaction():
            stage(other, attempt, [record], number=1)
            merging = pool.submit(sink.merge, attempt, batch_id=0)
            waits = "select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
            wait_until("the merge to wait", lambda: other.connected().execute(waits).fetchone() is not None or None)
        assert merging.result() == Merged(records=1, refused=0, quarantined=0, replayed=0)
    assert totals(sink) == {"sent": 3}
    other.close()


def test_merge_stops_waiting_for_an_endless_task_run(database: str) -> None:
    sink, other = PostgresSink(database, tasks_end_s=1), PostgresSink(database)
    sink.take_over()
    attempt, record = sink.begin(), Record(0, number=1)
    stage(sink, attempt, [record])
    with other.connected().transaction():
        stage(other, attempt, [record], number=1)
        with pytest.raises(psycopg.errors.LockNotAvailable):
            sink.merge(attempt, batch_id=0)
        assert count(sink, record).records == 1
    assert count(sink, Record(1, number=2)).records == 1
    assert totals(sink) == {"sent": 6}
    sink.close()
    other.close()


def test_task_that_begins_after_the_merge_stages_nothing(sink: PostgresSink) -> None:
    attempt, record = sink.begin(), Record(0, number=1)
    stage(sink, attempt, [record])
    sink.merge(attempt, batch_id=0)
    with pytest.raises(psycopg.OperationalError, match="not open any more"):
        stage(sink, attempt, [record], number=1)


def test_rows_of_an_older_attempt_are_not_counted(sink: PostgresSink) -> None:
    """A task can outlive its attempt and stage rows during the next one; the attempt's number excludes them."""
    old, new = sink.begin(), sink.begin()
    stage(sink, new, [Record(0, number=2)])
    stage(sink, old, [Record(0, number=1)])
    sink.merge(new, batch_id=0)
    assert totals(sink) == {"sent": 3}


@pytest.mark.kills(guard="metrics.lost_staging")
def test_staging_emptied_by_a_crash_is_detected(sink: PostgresSink) -> None:
    """After a crash the table staging_attempts lacks the attempt's row."""
    attempt = sink.begin()
    stage(sink, attempt, [Record(0, number=1)])
    sink.connected().execute("truncate staging_attempts, staging_tasks, staging_positions, staging_ids, staging_counts")
    with pytest.raises(StagingLost):
        sink.merge(attempt, batch_id=0)
    assert sink.next_offsets() == {}


def test_a_driver_that_was_replaced_merges_nothing(sink: PostgresSink, database: str) -> None:
    """The replaced driver's epoch is older than the epoch of the stream."""
    attempt = sink.begin()
    other = PostgresSink(database)
    other.take_over()
    # The attempt's row exists, as if the rows were staged after the other driver's start.
    sink.connected().execute("insert into staging_attempts (attempt) values (%s)", [attempt.number])
    stage(sink, attempt, [Record(0, number=1)])
    with pytest.raises(Fenced):
        sink.merge(attempt, batch_id=0)
    with pytest.raises(Fenced):
        sink.begin()
    assert totals(sink) == {}
    count(other, Record(0, number=1))
    assert totals(other) == {"sent": 3}
    other.close()


def test_takeover_waits_for_a_merge(sink: PostgresSink, database: str) -> None:
    other = PostgresSink(database)
    other.connected().execute("set lock_timeout = '50ms'")
    with sink.connected().transaction():
        sink.connected().execute("select from stream_status for no key update")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            other.take_over()
    other.close()


def test_beginning_an_attempt_drops_all_other_attempts(sink: PostgresSink) -> None:
    stage(sink, sink.begin(), [Record(0, number=1)])
    sink.begin()
    assert sink.connected().execute("select count(*) from staging_counts").fetchone() == (0,)


def test_no_batch_merges_between_batches(sink: PostgresSink, database: str) -> None:
    attempt = sink.begin()
    stage(sink, attempt, [Record(0, number=1)])
    with psycopg.connect(database, autocommit=True) as other, ThreadPoolExecutor() as pool:
        with between_batches(other):
            merging = pool.submit(sink.merge, attempt, batch_id=0)
            waits = "select from pg_locks where locktype = 'advisory' and not granted"
            wait_until("the merge to wait", lambda: other.execute(waits).fetchone() is not None or None)
            assert other.execute("select count(*) from stream_offsets").fetchone() == (0,)
        assert merging.result().records == 1
        with sink.connected().transaction():
            sink.connected().execute("select pg_advisory_xact_lock_shared(%s)", [BATCH_LOCK])
            with pytest.raises(Retry), between_batches(other, wait_s=0.05):
                pass


@pytest.mark.kills(guard="metrics.second_driver")
def test_takeover_waits_for_a_staging_driver(sink: PostgresSink, database: str) -> None:
    """Without the wait the new driver would remove the old driver's files as leftovers."""
    other = PostgresSink(database)
    other.connected().execute("set lock_timeout = '50ms'")
    attempt = sink.begin()
    with sink.connected().transaction():
        sink.archiving(attempt)
        with pytest.raises(psycopg.errors.LockNotAvailable):
            other.take_over()
    other.take_over()
    with pytest.raises(Fenced):
        sink.archiving(attempt)
    other.close()


def test_failed_merge_changes_nothing(sink: PostgresSink) -> None:
    attempt = sink.begin()
    huge: list[tuple[str, str, str | None, int]] = [("push", "queued", None, 2**62)] * 4
    stage(sink, attempt, [Record(0, number=1), Record(1, number=2, source="delivery", topic="delivery", counts=huge)])
    with pytest.raises(psycopg.errors.NumericValueOutOfRange):
        sink.merge(attempt, batch_id=0)
    assert totals(sink) == {}
    assert sink.next_offsets() == {}
    assert remembered(sink) == []
    # The attempt can be merged once the error is repaired.
    sink.connected().execute("update staging_counts set count_total = 1")
    assert sink.merge(attempt, batch_id=0).records == 2


def test_bad_records_are_quarantined_once_by_position(sink: PostgresSink) -> None:
    bad = Record(3, topic="send.api", source="send", problem=Problem.UNDECODABLE)
    merged = count(sink, bad, Record(0, number=1))
    assert merged == Merged(records=2, refused=0, quarantined=1, replayed=0)
    assert served(sink)["quarantine"] == [("send.api", 0, 3, "undecodable")]
    assert count(sink, bad).replayed == 1
    assert sink.next_offsets() == {"outcome": {0: 1}, "send.api": {0: 4}}


def test_records_of_unknown_schemas_are_quarantined(sink: PostgresSink) -> None:
    attempt = sink.begin()
    unknown: dict[str, Any] = {"source": "send", "topic": "send.api", "problem": Problem.NOT_LEARNED}
    stage(sink, attempt, [Record(0, schema_id=8, **unknown), Record(1, schema_id=9, **unknown)])
    assert sorted(sink.unknown_schemas(attempt)) == [("send", 8), ("send", 9)]
    sink.refuse_schemas(attempt, {("send", 8), ("send", 9)})
    sink.merge(attempt, batch_id=0)
    assert [row[3] for row in served(sink)["quarantine"]] == ["unknown_schema", "unknown_schema"]


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


def test_status_has_the_last_batch_and_a_rising_watermark(sink: PostgresSink, database: str) -> None:
    count(sink, Record(0, number=1), Record(1, number=1), batch_id=12)
    other = PostgresSink(database)
    status = StatusWriter(other, epoch=1)
    status.state("running")
    status.consumed(AT_MS, 5, {"outcome": {0: 7}})
    status.consumed(AT_MS - 1000, 0, {"outcome": {0: 7}}, lags={"outcome": {0: 5, 1: 2}}, input_rate=12.5)
    row = sink.connected().execute(
        "select state, batch_id, records, refused, lag, end_offsets, lags, input_rate, finished_at is not null"
        " from stream_status"
    )
    ends, lags = {"outcome": {"0": 7}}, {"outcome": {"0": 5, "1": 2}}
    assert row.fetchone() == ("running", 12, 2, 1, 0, ends, lags, 12.5, True)
    watermark = sink.connected().execute("select extract(epoch from watermark) * 1000 from stream_watermark").fetchone()
    assert watermark is not None
    assert int(watermark[0]) == AT_MS
    other.close()


def test_late_record_revises_its_complete_minute(sink: PostgresSink, database: str) -> None:
    """A minute is complete a grace period after its end; a later record of this minute revises it."""
    minute = AT_MS // 60_000 * 60_000
    other = PostgresSink(database)
    StatusWriter(other, epoch=1).consumed(minute + 69_999, 0, {}, grace_ms=10_000)
    assert count(sink, Record(0, number=1)).late == 0
    StatusWriter(other, epoch=1).consumed(minute + 70_000, 0, {}, grace_ms=10_000)
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
        for _ in range(rng.choice([1, 1, 2])):
            count(sink, *batch)
