"""The merge, on a real Postgres: whatever is staged again, or at another place, is counted once."""

import random
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import psycopg
import pytest

from devstack.provision import SCHEMAS, apply_sql
from spark_metrics.sink import Fenced, Merged, PostgresSink, StagingLost, StatusWriter
from spark_metrics.transforms import Problem

AT_MS = 1_700_000_000_000
HOUR_MS, DAY_MS = 3_600_000, 86_400_000
COUNTS = ("counts_minute", "counts_hour", "counts_day")
STEP_MS = {"counts_minute": 60_000, "counts_hour": HOUR_MS, "counts_day": DAY_MS}


@dataclass
class Record:
    """A Kafka record as transforms.exploded tells of it; counts: (channel, measure, reason, count)."""

    offset: int
    number: int = 0  # stands for its record id
    source: str = "outcome"
    topic: str = "outcome"
    partition: int = 0
    send_id: str = "a send"
    club_id: int = 7
    type: str = "news"
    at_ms: int = AT_MS
    chunk_count: int | None = None
    counts: list[tuple[str, str, str | None, int]] = field(default_factory=lambda: [("push", "sent", None, 3)])
    problem: str | None = None
    schema_id: int = 1

    @property
    def record_id(self) -> str:
        return str(UUID(int=self.number))

    def rows(self) -> Iterator[tuple[Any, ...]]:
        place = (self.topic, self.partition, self.offset)
        if self.problem:
            yield (*place, 0, self.source, self.schema_id, self.problem, *[None] * 10)
            return
        known = (self.source, self.schema_id, None, self.record_id, self.send_id, self.club_id, self.type, self.at_ms)
        for ordinal, count in enumerate(self.counts or [(None,) * 4]):
            yield (*place, ordinal, *known, self.chunk_count, *count)


def a_chunk(offset: int, **changes: Any) -> Record:
    counts = [("push", "requested", None, 10), ("push", "duplicate", None, 2)]
    values: dict[str, Any] = {"source": "send", "topic": "send.api", "chunk_count": 1, "counts": counts} | changes
    return Record(offset, **values)


def stage(sink: PostgresSink, attempt: str, records: Iterable[Record]) -> None:
    columns = (
        "attempt, topic, partition, kafka_offset, ordinal, source, schema_id, problem, record_id, send_id, club_id,"
        " type, at_ms, chunk_count, channel, measure, reason, count_total"
    )
    with sink.connected().cursor() as cursor, cursor.copy(f"copy staging ({columns}) from stdin") as copy:
        for record in records:
            for row in record.rows():
                copy.write_row((attempt, *row))


def count(sink: PostgresSink, *records: Record, batch_id: int = 0) -> Merged:
    attempt = sink.begin()
    stage(sink, attempt, records)
    return sink.merge(attempt, batch_id=batch_id)


@pytest.fixture
def sink(database: str) -> Iterator[PostgresSink]:
    sink = PostgresSink(database)
    sink.take_over()
    yield sink
    sink.close()


type Served = dict[str, Any]


def served(sink: PostgresSink) -> Served:
    """Everything a reader can see."""
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


def test_one_record_stands_in_every_table(sink: PostgresSink) -> None:
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
    """Guard: counted_records."""
    count(sink, a_chunk(0, number=1), Record(0, number=2))
    before = served(sink)
    merged = count(sink, a_chunk(1, number=1), Record(1, number=2), Record(0, number=2, partition=3))
    assert merged == Merged(records=3, refused=3, quarantined=0, replayed=0)
    assert served(sink) == before


def test_the_same_record_twice_in_one_batch_counts_once(sink: PostgresSink) -> None:
    """Guard: one position a record id."""
    first, second = Record(4, number=2), Record(9, number=2, counts=[("push", "failed", "x", 3)])
    assert count(sink, second, first).refused == 1
    assert totals(sink) == {"sent": 3}


def test_an_id_is_one_source_s_own(sink: PostgresSink) -> None:
    count(sink, Record(0, number=1), Record(0, number=1, source="delivery", topic="delivery"))
    assert totals(sink) == {"sent": 6}


def test_positions_consumed_before_add_nothing_even_when_their_ids_are_forgotten(sink: PostgresSink) -> None:
    """Guard: stream_offsets."""
    batch = [Record(5, number=1), Record(6, number=2), Record(7, number=3, partition=1)]
    count(sink, *batch)
    before = served(sink)
    sink.connected().execute("delete from counted_records")
    merged = count(sink, *batch, Record(7, number=4))
    assert merged == Merged(records=1, refused=0, quarantined=0, replayed=3)
    assert totals(sink) == {"sent": 12}
    assert served(sink)["sends"] == before["sends"]
    assert sink.next_offsets() == {"outcome": {0: 8, 1: 8}}


def test_rows_a_task_staged_twice_count_once(sink: PostgresSink) -> None:
    """Guard: one row a position and ordinal."""
    record = Record(0, number=1, counts=[("push", "sent", None, 3), ("push", "sent", None, 4)])
    count(sink, record, record)
    assert totals(sink) == {"sent": 7}


def test_another_attempt_s_leftovers_are_not_counted(sink: PostgresSink) -> None:
    stage(sink, sink.begin(), [Record(0, number=1)])
    count(sink, Record(0, number=2))
    assert totals(sink) == {"sent": 3}


def test_staged_rows_that_a_crash_emptied_are_not_taken_for_nothing(sink: PostgresSink) -> None:
    """Guard: staging_attempts."""
    attempt = sink.begin()
    stage(sink, attempt, [Record(0, number=1)])
    sink.connected().execute("truncate staging, staging_attempts")
    with pytest.raises(StagingLost):
        sink.merge(attempt, batch_id=0)
    assert sink.next_offsets() == {}


def test_a_driver_that_was_replaced_merges_nothing(sink: PostgresSink, database: str) -> None:
    """Guard: epoch."""
    other = PostgresSink(database)
    other.take_over()
    attempt = sink.begin()
    stage(sink, attempt, [Record(0, number=1)])
    with pytest.raises(Fenced):
        sink.merge(attempt, batch_id=0)
    assert totals(sink) == {}
    count(other, Record(0, number=1))
    assert totals(other) == {"sent": 3}
    other.close()


def test_a_merge_that_fails_half_way_leaves_nothing(sink: PostgresSink) -> None:
    attempt = sink.begin()
    stage(sink, attempt, [Record(0, number=1), Record(1, number=2, counts=[("push", "sent", None, 2**62)] * 4)])
    with pytest.raises(psycopg.errors.NumericValueOutOfRange):
        sink.merge(attempt, batch_id=0)
    assert totals(sink) == {}
    assert sink.next_offsets() == {}
    assert sink.connected().execute("select count(*) from counted_records").fetchone() == (0,)
    # The very same attempt can be merged once what was wrong is mended.
    sink.connected().execute("update staging set count_total = 1")
    assert sink.merge(attempt, batch_id=0).records == 2


def test_bad_records_are_put_aside_once_by_position(sink: PostgresSink) -> None:
    """Guard: quarantine."""
    bad = Record(3, topic="send.api", source="send", problem=Problem.UNDECODABLE)
    merged = count(sink, bad, Record(0, number=1))
    assert merged == Merged(records=2, refused=0, quarantined=1, replayed=0)
    assert served(sink)["quarantine"] == [("send.api", 0, 3, "undecodable")]
    assert count(sink, bad).replayed == 1
    assert sink.next_offsets() == {"outcome": {0: 1}, "send.api": {0: 4}}


def test_records_of_schemas_the_registry_does_not_have_are_put_aside(sink: PostgresSink) -> None:
    attempt = sink.begin()
    unknown: dict[str, Any] = {"source": "send", "topic": "send.api", "problem": Problem.NOT_LEARNED}
    stage(sink, attempt, [Record(0, schema_id=8, **unknown), Record(1, schema_id=9, **unknown)])
    assert sorted(sink.not_learned(attempt)) == [("send", 8), ("send", 9)]
    sink.refuse_schemas(attempt, {("send", 8), ("send", 9)})
    sink.merge(attempt, batch_id=0)
    assert [row[3] for row in served(sink)["quarantine"]] == ["unknown_schema", "unknown_schema"]


def test_a_send_is_known_by_whichever_of_its_records_comes_first(sink: PostgresSink) -> None:
    count(sink, Record(0, number=1))
    assert [row[3:] for row in served(sink)["sends"]] == [(None, None, 0)]
    count(sink, a_chunk(0, number=2, chunk_count=2, at_ms=AT_MS + 5))
    count(sink, a_chunk(1, number=3, chunk_count=2))
    ((_, _, _, requested_at, chunk_count, chunks),) = served(sink)["sends"]
    assert (round(requested_at.timestamp() * 1000), chunk_count, chunks) == (AT_MS, 2, 2)


def test_a_send_to_nobody_is_known(sink: PostgresSink) -> None:
    count(sink, a_chunk(0, number=1, counts=[("push", "requested", None, 0)]))
    assert served(sink)["send_channels"] == [("a send", "push", 0, 0, 0)]
    assert served(sink)["counts_minute"] == []


def test_the_status_tells_of_the_last_batch_and_the_watermark_never_goes_back(
    sink: PostgresSink, database: str
) -> None:
    count(sink, Record(0, number=1), Record(1, number=1), batch_id=12)
    other = PostgresSink(database)
    status = StatusWriter(other, epoch=1)
    status.state("running")
    status.consumed(AT_MS, 5, {"outcome": {0: 7}})
    status.consumed(AT_MS - 1000, 0, {"outcome": {0: 7}})
    row = sink.connected().execute(
        "select state, batch_id, records, refused, lag, end_offsets, finished_at is not null from stream_status"
    )
    assert row.fetchone() == ("running", 12, 2, 1, 0, {"outcome": {"0": 7}}, True)
    watermark = sink.connected().execute("select extract(epoch from watermark) * 1000 from stream_watermark").fetchone()
    assert watermark is not None
    assert int(watermark[0]) == AT_MS
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
        # What an id counts is the same wherever it stands, as for every record of a deterministic producer.
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
                by_send[record.send_id, channel, status, reason or ""] += n
    assert {row[:4]: row[4] for row in served(sink)["send_totals"]} == by_send
    assert len(served(sink)["quarantine"]) == sum(bool(r.problem) for place in partitions.values() for r in place)


def _count_in_batches(sink: PostgresSink, rng: random.Random, partitions: dict[tuple[str, int], list[Record]]) -> None:
    """Batches of any size, some again, some reaching back before what was counted, as a lost checkpoint makes them."""
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
