"""Merges one lane of a batch into Postgres, in one transaction of a task on an executor.

The lane's records arrive as an iterator and are read in slices, so that memory stays bounded: the ids of a slice are
stored, redelivered records are skipped, and the sums of the others are copied to temporary tables when they become
many. The served tables follow at the end. The lane is part of their keys, so that lanes do not wait for each other;
only late records of several lanes are added to one row.

A record is merged once. In its transaction, after it has locked the lane, the task reads the offsets up to which this
lane is merged, and stores the new ones. So a task that runs twice, or outlives its batch, adds nothing.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain, islice
from typing import Any, NamedTuple

import psycopg

from masscomm.domain.grains import Grain
from masscomm.domain.latencies import MEASURED, bin_of
from masscomm.domain.measures import DUPLICATE, QUEUED, REQUESTED
from masscomm.domain.notification_codes import StateEntry
from spark_metrics.common.database import STREAM, connect, first_line, is_permanent
from spark_metrics.common.settings import WEBHOOK_SUCCESSES
from spark_metrics.counting import send_states
from spark_metrics.counting.counted_ids import IdTables, store_new
from spark_metrics.counting.folding import lane_of_bucket
from spark_metrics.counting.problems import Problem
from spark_metrics.counting.recipient_log import decisions_of
from spark_metrics.counting.webhook_results import KIND as WEBHOOKS
from spark_metrics.counting.webhook_results import WebhookResults
from spark_metrics.sql import read_sql

_SLICE = 20_000
# Sums, chunks of states and bytes of recipients that a task holds before it sends them to Postgres.
_MOST_SUMS = 20_000
_MOST_CHUNKS = 5_000
_MOST_BYTES = 8 << 20


# Channel, measure, reason and number of a count.
type Count = tuple[str, str, str | None, int | None]


class LaneRow(NamedTuple):
    """A record as spark_metrics.counting.lanes gives it to the task of its lane.

    Attributes:
        lane: The lane. Records of unknown schemas come to each lane.
        hash: The hash of the send id, or of the position if the record has none; modulo `lanes` it is the lane.
        record_id: 16 bytes.
        labels: JSON with further texts for views.
        due_ms: The time at which the notifications of an outcome were due (masscomm.domain.latencies).
        channel, measure, reason, total: The count of a record that has exactly one.
        several: Channels, measures, reasons and totals of the counts of a record that has several, all as texts.
        run, listed: The results by position (masscomm.domain.notification_codes); listed: those of webhooks, too
            (sources.listed_results).
        users: The users of an outcome with one result as numbers separated by commas; `only` is the index of its count.
        user_ids, result_index: The users of all other outcomes, each with the index of its count.
        decisions: The decisions of the counts (sources.decisions).
    """

    lane: int
    hash: int
    topic: str
    partition: int
    kafka_offset: int
    schema_id: int | None = None
    problem: str | None = None
    record_id: bytes | None = None
    send_id: str | None = None
    club_id: int | None = None
    type: str | None = None
    at_ms: int | None = None
    chunk_index: int | None = None
    chunk_count: int | None = None
    labels: str | None = None
    due_ms: int | None = None
    channel: str | None = None
    measure: str | None = None
    reason: str | None = None
    total: int | None = None
    several: Sequence[Sequence[str | None]] | None = None
    run: bytes | None = None
    listed: str | None = None
    users: str | None = None
    only: int | None = None
    user_ids: Sequence[int | None] | None = None
    result_index: Sequence[int | None] | None = None
    decisions: str | None = None


_RECORD_ID, _SEND_ID, _COUNT, _LISTED, _USERS = map(
    LaneRow._fields.index, ("record_id", "send_id", "channel", "listed", "users")
)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The parameters of the lanes of a batch.

    Attributes:
        epoch: The driver's epoch.
        lanes: Number of lanes.
        counted_at: Postgres' time at which the batch began.
        tables: The tables of counted ids; None: no id is looked up or stored, because no record is redelivered.
        kinds: The kind of the records in each topic.
        views: The statements that merge into further tables.
        recipients: Whether to write the log of recipients.
        webhook_successes: How many first successes of an endpoint's hour the log of webhooks has.
        denied: (kind, schema id) that the registry does not have; their records are quarantined.
        find_unstorable: Whether to find the records that Postgres rejects, and to quarantine them.
        schema: The schema with the tables to merge into; None: that of the stream.
    """

    database_url: str = field(repr=False)
    epoch: int
    lanes: int
    counted_at: datetime
    tables: IdTables | None
    kinds: Mapping[str, str]
    views: tuple[bytes, ...] = ()
    recipients: bool = False
    webhook_successes: int = WEBHOOK_SUCCESSES
    denied: frozenset[tuple[str, int]] = frozenset()
    find_unstorable: bool = False
    schema: str | None = None


@dataclass
class LaneResult:
    """The result of a lane's task, in numbers of records; see sink.Merged.

    Attributes:
        ends: {(topic, partition): offset after the lane's last record}.
        unknown: (kind, schema id) of records whose writer's schema is not known. If there are any, nothing is merged.
        taken_by: The epoch of the driver that has taken over the stream; nothing is merged.
        rejected: Postgres' permanent error, for which nothing is merged. As an exception, Spark would repeat the task.
    """

    lane: int
    records: int = 0
    refused: int = 0
    quarantined: int = 0
    replayed: int = 0
    late: int = 0
    ends: dict[tuple[str, int], int] = field(default_factory=dict)
    unknown: set[tuple[str, int]] = field(default_factory=set)
    taken_by: int | None = None
    rejected: str | None = None


# The connections of this Python process, by URL and schema: Spark uses a process for many tasks.
_open: dict[tuple[str, str | None], psycopg.Connection[Any]] = {}


def run_lane(plan: Plan, rows: Iterable[Any]) -> Iterator[LaneResult]:
    """Merge the rows of one lane, on an executor. This is the function of mapPartitions; no rows give no result.

    Raises psycopg.OperationalError; then nothing of the lane is merged.
    """
    first = next(rows := iter(rows), None)
    if first is None:
        return
    connection = _connected(plan.database_url, plan.schema)
    try:
        yield merge_lane(connection, plan, first[0], chain([first], rows))
    except psycopg.Error as error:
        connection.close()
        if not is_permanent(error):  # guard: metrics.permanent_postgres_error
            raise
        yield LaneResult(first[0], rejected=first_line(error))
    except BaseException:
        connection.close()
        raise


def _connected(database_url: str, schema: str | None) -> psycopg.Connection[Any]:
    connection = _open.pop((database_url, schema), None)
    if connection is not None:
        try:
            connection.execute("select")
        except psycopg.OperationalError:
            connection.close()
    if connection is None or connection.closed:
        connection = connect(database_url, "spark_metrics lane")
        if schema is not None:
            connection.execute("select set_config('search_path', quote_ident(%s), false)", [schema])
        prepare(connection)
    _open[database_url, schema] = connection
    return connection


def prepare(connection: psycopg.Connection[Any]) -> None:
    """Create the temporary tables that merge_lane needs."""
    connection.execute(read_sql("lane_tables"))


def merge_lane(connection: psycopg.Connection[Any], plan: Plan, lane: int, rows: Iterable[Any]) -> LaneResult:
    """Merge the records of one lane, given as LaneRow or tuples of the same order."""
    task = _Lane(connection, plan, lane)
    rows = iter(rows)
    with connection.transaction() as transaction:
        if not task.begin():
            return task.result
        while some := list(islice(rows, _SLICE)):
            if plan.find_unstorable:
                task.merge_storable(some)
            else:
                task.add(some)
        if task.result.unknown:
            raise psycopg.Rollback(transaction)
        task.merge()
    return task.result


class _MergedPlaces:
    """The positions that are merged before this task: replays."""

    def __init__(self, connection: psycopg.Connection[Any], lanes: int, lane: int) -> None:
        self._below: dict[tuple[str, int], int] = {}
        # By partition: number of lanes → lane → offset.
        self._in_lanes: dict[tuple[str, int], dict[int, dict[int, int]]] = {}
        for number, of_lane, topic, partition, offset in connection.execute(
            read_sql("merged_offsets"), {"lanes": lanes, "lane": lane}
        ):
            if number is None:
                self._below[topic, partition] = offset  # guard: metrics.counted_offsets
            else:
                self._in_lanes.setdefault((topic, partition), {}).setdefault(number, {})[of_lane] = offset
        self.quarantined = set(connection.execute(read_sql("quarantined_beyond")).fetchall())

    def has(self, hashed: int, topic: str, partition: int, offset: int) -> bool:
        if offset < self._below.get((topic, partition), 0):
            return True
        if not self._in_lanes:
            return False
        of_lanes: dict[int, dict[int, int]] = self._in_lanes.get((topic, partition), {})
        # guard: metrics.lane_offsets
        return any(offset < offsets.get(hashed % lanes, 0) for lanes, offsets in of_lanes.items())


class _Lane:
    def __init__(self, connection: psycopg.Connection[Any], plan: Plan, lane: int) -> None:
        self.result = LaneResult(lane)
        self._connection, self._plan, self._lane = connection, plan, lane
        self._hold_nothing()

    def _hold_nothing(self) -> None:
        self._sums: dict[tuple[Any, ...], list[Any]] = {}
        self._latencies: Counter[tuple[Any, ...]] = Counter()
        self._chunks: defaultdict[send_states.Chunk, list[StateEntry]] = defaultdict(list)
        self._recipients: list[tuple[Any, ...]] = []
        self._bytes = 0
        self._webhooks = WebhookResults(self._plan.webhook_successes)
        self._quarantined: list[tuple[str, int, int, str, int | None]] = []

    def begin(self) -> bool:
        """Lock the lane; return whether this driver still has the stream."""
        row = self._connection.execute(_EPOCH, [STREAM]).fetchone()
        if row is None or row[0] != self._plan.epoch:  # guard: metrics.second_driver
            self.result.taken_by = row[0] if row else 0
            return False
        # An executor that hangs must not keep the next driver waiting for ever.
        self._connection.execute("set local idle_in_transaction_session_timeout = '60s'")
        # Another run of this task ends first, so that this one reads its offsets.
        self._connection.execute(_LANE, [self._plan.lanes, self._lane])
        self._connection.execute(read_sql("begin_lane"), {"lane": self._lane, "stream": STREAM})
        if self._plan.find_unstorable:
            # Each slice locks rows of counts: lanes that do so at the same time could wait for each other.
            self._connection.execute("select pg_advisory_xact_lock(hashtext(current_schema), -1)")
        self._merged = _MergedPlaces(self._connection, self._plan.lanes, self._lane)
        return True

    def merge_storable(self, rows: Sequence[Any]) -> None:
        """Add and merge a slice of records, without those that Postgres rejects: bisection finds them, and they are
        quarantined.

        Raises Postgres' permanent error for a slice that it rejects also without them.
        """
        before = deepcopy(self.result)
        try:
            with self._connection.transaction():
                self.add(rows)
                if not self.result.unknown:
                    self.merge()
                    self._connection.execute(_EMPTY)
        except psycopg.Error as error:
            row = LaneRow(*rows[0])
            if not is_permanent(error) or row.problem == Problem.UNSTORABLE:
                raise
            self.result = before
            self._hold_nothing()
            half = len(rows) // 2
            parts = [rows[:half], rows[half:]] if half else [[row._replace(problem=Problem.UNSTORABLE)]]
            for part in parts:
                self.merge_storable(part)
        self._hold_nothing()

    def add(self, rows: Sequence[Any]) -> None:
        """Add a slice of records; rows of LaneRow."""
        by_source: defaultdict[str, list[Any]] = defaultdict(list)
        result, ends, lanes = self.result, self.result.ends, self._plan.lanes
        for row in rows:
            lane, hashed, topic, partition, offset, schema_id, problem = row[:_RECORD_ID]
            if lane != self._lane:
                raise RuntimeError(f"a task has records of the lanes {self._lane} and {lane}")
            if offset >= ends.get((topic, partition), 0):
                ends[topic, partition] = offset + 1
            kind = self._plan.kinds[topic]
            merged = self._merged.has(hashed, topic, partition, offset)
            if problem == Problem.NOT_LEARNED and not merged:
                if (kind, schema_id) not in self._plan.denied:
                    result.unknown.add((kind, schema_id))
                    continue
                # Each lane quarantines the record, and one counts it.
                problem = Problem.UNKNOWN_SCHEMA
                self._quarantined.append((topic, partition, offset, problem, schema_id))
                if hashed % lanes == self._lane:
                    result.records += 1
                    result.quarantined += 1
                continue
            # The registry may have learned the record's schema since another lane has quarantined the record.
            # guard: metrics.quarantined_by_a_lane
            if merged or (topic, partition, offset) in self._merged.quarantined:
                result.replayed += 1
                continue
            result.records += 1
            if problem is None:
                by_source[kind].append(row)
            else:
                result.quarantined += 1
                self._quarantined.append((topic, partition, offset, problem, schema_id))
        if result.unknown:
            return
        for source, new in by_source.items():
            ids = [bytes(row[_RECORD_ID]) for row in new] if self._plan.tables else []
            refused = store_new(self._connection, self._plan.tables, source, ids) if self._plan.tables else set()
            if refused:
                self._refuse(source, [new[number] for number in refused])
            for number, row in enumerate(new):
                if number in refused:
                    continue
                if source == WEBHOOKS:
                    self._webhooks.add(row[_LISTED])
                else:
                    self._count(source, row)
        self._send(_MOST_SUMS, _MOST_CHUNKS, _MOST_BYTES)

    def _refuse(self, source: str, rows: Collection[Any]) -> None:
        self.result.refused += len(rows)
        topics, partitions, offsets = ([row[column] for row in rows] for column in (2, 3, 4))
        ids = [bytes(row[_RECORD_ID]).hex() for row in rows]
        self._connection.execute(
            read_sql("merge_redelivered"), [topics, partitions, offsets, [source] * len(rows), ids]
        )

    def _count(self, source: str, row: Sequence[Any]) -> None:
        send_id, club_id, category, at_ms, chunk_index, chunk_count, labels, due_ms = row[_SEND_ID:_COUNT]
        channel, measure, reason, total, several, run, listed = row[_COUNT:_USERS]
        # A record without recipients has no count.
        counts = counts_of(several) if several else ((channel, measure, reason, total),)
        minute_s = at_ms // 60_000 * 60
        begins = 1
        for channel, measure, reason, total in counts:
            key = (source, send_id, club_id, category, minute_s, labels, channel, measure, reason)
            known = self._sums.get(key)
            if known is None:
                self._sums[key] = [total, begins, at_ms, chunk_count]
            else:
                known[0] = total if known[0] is None else known[0] + (total or 0)
                known[1] += begins
                if at_ms < known[2]:
                    known[2] = at_ms
                if chunk_count is not None:
                    known[3] = max(known[3] or 0, chunk_count)
            begins = 0
            if due_ms is not None and total and measure in MEASURED:  # guard: metrics.measured_statuses
                self._latencies[minute_s, category, channel, measure, bin_of(at_ms - due_ms)] += total
        if run is not None or listed is not None:
            channel, measure, reason, _ = counts[0]
            entry = measure, reason, None if run is None else bytes(run), listed
            self._chunks[send_id or "", chunk_index or 0, channel].append(entry)
            self._bytes += len(listed or "")
            if self._plan.recipients:
                self._log(LaneRow(*row), counts)

    def _log(self, r: LaneRow, counts: Sequence[Count]) -> None:
        users: dict[int, str] = {}
        if r.only is not None and r.users:
            users[r.only] = r.users
        elif r.user_ids and r.result_index:
            of: defaultdict[int, list[str]] = defaultdict(list)
            for user, index in zip(r.user_ids, r.result_index, strict=False):
                if user is not None and index is not None:
                    of[index].append(str(user))
            users = {index: ",".join(some) for index, some in of.items()}
        decisions = decisions_of(r.decisions) if r.decisions else [None] * len(counts)
        for index, some in users.items():
            if 0 <= index < len(counts):
                shared = r.send_id, r.club_id, r.type, *counts[index][:3], decisions[index], r.at_ms
                self._recipients.append((*shared, f"{{{some}}}"))
                self._bytes += len(some)

    def _send(self, sums: int, chunks: int, size: int) -> None:
        """Send the sums, states and recipients that are held to Postgres, if they exceed a limit."""
        if len(self._sums) > sums:
            self._copy("batch_counts", ((*key, *values) for key, values in self._sums.items()))
            self._sums.clear()
        if len(self._latencies) > sums:
            self._copy("batch_latencies", ((*key, total) for key, total in self._latencies.items()))
            self._latencies.clear()
        if self._webhooks.size > sums:
            self._webhooks.send(self._copy)
        if len(self._chunks) > chunks or self._bytes > size:
            send_states.merge(self._connection, self._chunks)
            self._chunks.clear()
            if self._recipients:
                self._copy("batch_recipients", self._recipients)
            self._recipients.clear()
            self._bytes = 0

    def _copy(self, table: str, rows: Iterable[tuple[Any, ...]]) -> None:
        with self._connection.cursor() as cursor, cursor.copy(f"copy {table} from stdin".encode()) as copy:
            for row in rows:
                copy.write_row(row)

    def merge(self) -> None:
        """Merge the added records into the served tables, and store the offsets."""
        self._send(0, 0, 0)
        connection, plan = self._connection, self._plan
        for statement in _OF_SENDS:
            connection.execute(statement, {**_NAMES, "counted_at": plan.counted_at})
        if plan.recipients:
            connection.execute(read_sql("merge_recipient_log"), [plan.counted_at])
        # From here on, tables with rows that several lanes may update: each in the order of its key, so that two lanes
        # cannot wait for each other, and last, so that they wait briefly.
        if self._quarantined:
            connection.execute(
                read_sql("merge_quarantine"), [list(column) for column in zip(*self._quarantined, strict=True)]
            )
        late = connection.execute(_REVISED_MINUTES, _NAMES).fetchone()
        self.result.late += late[0] if late else 0
        for statement in plan.views:
            connection.execute(statement)
        for statement in _COUNTS:
            connection.execute(statement)
        self._webhooks.merge(connection)
        ends = self.result.ends
        topics, partitions = zip(*ends, strict=True)
        connection.execute(
            read_sql("store_lane_offsets"),
            [plan.lanes, self._lane, list(topics), list(partitions), list(ends.values())],
        )


def counts_of(several: Sequence[Sequence[Any]]) -> list[Count]:
    """Return the counts of LaneRow.several."""
    return [
        (channel, measure, reason, None if total is None else int(total))
        for channel, measure, reason, total in zip(*several, strict=True)
    ]


_EMPTY = b"truncate batch_counts, batch_latencies, batch_recipients, batch_webhooks, batch_webhook_log"
_EPOCH = b"select epoch from stream_status where stream = %s for key share"
# The advisory lock of a lane. The lanes of a recompute, in another schema, have locks of their own.
# guard: metrics.one_task_a_lane
_LANE = b"select pg_advisory_xact_lock(hashtext(current_schema), %s * 100000 + %s)"
_NAMES = {"stream": STREAM, "requested": REQUESTED, "duplicate": DUPLICATE, "queued": QUEUED}
_OF_SENDS = (read_sql("merge_sends"), read_sql("merge_send_channels"))
_REVISED_MINUTES = read_sql("merge_revised_minutes")
_COUNTS = tuple(
    read_sql("merge_counts", table=grain.table, seconds=grain.seconds, lane=lane_of_bucket(grain.seconds))
    for grain in Grain
)
