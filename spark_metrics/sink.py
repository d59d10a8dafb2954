"""Writes the counts: the executors stage the counts of a micro-batch, then one transaction merges them into the served
tables.

These rules keep the counts exact, however often a batch or a record is repeated:

  stream_offsets    positions below the stored offsets are replays (after a restart or a lost checkpoint): skipped
  counted_ids       a record whose id was counted within the redelivery window is a redelivery: skipped
  epoch             a driver that was replaced by another one cannot merge
  staging_attempts  a crash of the server that empties the staging tables is detected; the batch is staged again
  staging_tasks     if a Spark task ran twice, only its first run counts

A staged sum cannot be split into records. So a batch is staged as if all of its records were new, which is nearly
always true. If it is not, the merge rolls back and reports the records that were counted before (Repeated), and the
batch is staged again without them.
"""

import logging
import time
from array import array
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, cast

import psycopg

from masscomm.domain.grains import SMALLEST, Grain
from masscomm.domain.measures import DUPLICATE, QUEUED, REQUESTED
from masscomm.errors import Stop
from spark_metrics import counted_ids, recipient_log
from spark_metrics.database import connect
from spark_metrics.sources import SOURCES
from spark_metrics.staging import TABLES, copy_rows
from spark_metrics.states import BlockKey, StateEntry, blocks_of, merged, restored, stored
from spark_metrics.transforms import Problem
from spark_metrics.views import View, maintain

_log = logging.getLogger(__name__)

STREAM = "metrics"

# (topic, partition): the first offset that is not a replay
type Floor = dict[tuple[str, int], int]


# The part number of rows that no Spark task stages.
_NO_PART = -1


@dataclass(frozen=True)
class Attempt:
    """One staging of a batch: a number higher than that of all earlier attempts, and Postgres' time at which its
    records are counted.
    """

    number: int
    counted_at: datetime


class Repeated(Exception):
    """The batch contains records that were counted before, and must be staged again without them.

    Attributes:
        floor: For each partition with replays, the first offset that is not a replay.
        ids: (source, record id) of records that were counted within the redelivery window.
        twice: (source, record id) of records that the batch contains several times; the first position counts.
    """

    def __init__(self, floor: Floor, ids: Collection[tuple[str, str]], twice: Collection[tuple[str, str]]) -> None:
        super().__init__(f"{len(floor)} partitions hold replays, {len(ids)} ids were counted, {len(twice)} come twice")
        self.floor = floor
        self.ids = ids
        self.twice = twice


class StagingLost(Exception):
    """A crash of the server emptied the staging tables: the batch must be staged again."""


class Fenced(Stop):
    """Another driver has taken over the stream."""


@dataclass(frozen=True)
class Merged:
    """The result of one merge, in numbers of Kafka records.

    Attributes:
        records: Staged records that no earlier merge has consumed.
        refused: Those of `records` whose ids were counted before.
        quarantined: Those of `records` that cannot be counted.
        replayed: Staged records that an earlier merge has consumed.
        late: Records that were counted in a minute that was already complete.
    """

    records: int
    refused: int
    quarantined: int
    replayed: int
    late: int = 0


class _Counted(Exception):
    """A staged id was counted before. This exception rolls the transaction back."""


class PostgresSink:
    """Writes to the metrics database. One thread at a time may use an instance.

    Every method may raise psycopg.OperationalError if the server is down. Then nothing is changed, and the call can be
    repeated.
    """

    def __init__(
        self,
        database_url: str,
        *,
        window_s: int = 7 * 86_400,
        views: Sequence[View] = (),
        recipients: bool = False,
        tasks_end_s: int = 10,
    ) -> None:
        """Create the sink; it connects at the first call that needs the database.

        Args:
            database_url: A URL of libpq.
            window_s: How long the ids of counted records are stored (the redelivery window).
            views: Further tables to merge into.
            recipients: Whether to write the log of recipients.
            tasks_end_s: How long a merge waits for a task of an abandoned Spark job that still stages rows, before the
                batch is staged again.
        """
        self.views = views
        self.recipients = recipients
        self._url = database_url
        self._window_s = window_s
        self._tasks_end_s = tasks_end_s
        self._connection: psycopg.Connection[Any] | None = None
        self._ids_loaded = False
        self._epoch: int | None = None
        self._vacuumed = self._forgot = time.monotonic()

    def connected(self) -> psycopg.Connection[Any]:
        """Return the connection; open a new one if it is broken."""
        if self._connection is None or self._connection.broken or self._connection.closed:
            self._ids_loaded = False
            self._connection = connect(self._url, "spark_metrics")
        return self._connection

    def close(self) -> None:
        """Close the connection. A later call opens a new one."""
        if self._connection is not None:
            self._connection.close()

    def take_over(self) -> int:
        """Become the stream's only driver: increment the epoch, and delete the staged rows of earlier drivers."""
        with self.connected().transaction():
            # This lock waits for all transactions that have locked the row, in either mode.
            self.connected().execute("select from stream_status where stream = %s for update", [STREAM])
            row = self.connected().execute(_TAKE_OVER, {"stream": STREAM}).fetchone()
            self._epoch = int(row[0]) if row else 0
            log = [recipient_log.NAME] if self.recipients else []
            maintain(self.connected(), [*(view.table for view in self.views), *log])
            self.connected().execute(_TRUNCATE)
        return self._epoch

    def next_offsets(self) -> dict[str, dict[int, int]]:
        """Return the first unmerged offset by topic and partition."""
        offsets: dict[str, dict[int, int]] = {}
        for topic, partition, offset in self.connected().execute(
            "select topic, partition, next_offset from stream_offsets"
        ):
            offsets.setdefault(topic, {})[partition] = offset
        return offsets

    def topic_ids(self) -> dict[str, str]:
        """Return the ids of the topics whose records this database counts."""
        return dict(self.connected().execute("select topic, topic_id from stream_topics").fetchall())

    def know_topics(self, topic_ids: Mapping[str, str]) -> None:
        """Store the ids of the counted topics. Raises Fenced."""
        with self.connected().transaction():
            self._hold_the_stream(_WEAKLY)
            self.connected().cursor().executemany(
                "insert into stream_topics (topic, topic_id) values (%s, %s)"
                " on conflict (topic) do update set topic_id = excluded.topic_id",
                list(topic_ids.items()),
            )

    def begin(self) -> Attempt:
        """Begin an attempt, whose rows are staged afterwards. Delete the staged rows of all other attempts, and from
        time to time the ids that are older than the redelivery window.

        Raises Fenced.
        """
        connection = self.connected()
        with connection.transaction():
            self._hold_the_stream(_WEAKLY)
            connection.execute(_DROP_OTHERS)
            row = connection.execute(_BEGIN).fetchone()
        assert row is not None  # noqa: S101 - an insert returns its row
        attempt = Attempt(*row)
        if time.monotonic() - self._vacuumed > _VACUUM_EVERY_S:
            # VACUUM removes dead rows, which would slow each statement down. TRUNCATE would take longer than the merge
            # of a small batch.
            self._vacuumed = time.monotonic()
            connection.execute(_VACUUM)
        if time.monotonic() - self._forgot > _FORGET_EVERY_S:
            self._forgot = time.monotonic()
            _log.info("forgot %d record ids older than the redelivery window", self.forget(attempt))
        return attempt

    def floor(self, attempt: Attempt) -> Floor:
        """Return the next unconsumed offset of each partition with staged replays."""
        rows = self.connected().execute(_REPLAYS, {"attempt": attempt.number})
        return {(topic, partition): offset for topic, partition, offset in rows}

    def archiving(self, attempt: Attempt) -> list[int]:
        """Record that the attempt is about to be archived, and return the batches that were archived and never
        counted.
        """
        with self.connected().transaction():
            self._hold_the_stream(_WEAKLY)
            uncounted = self.connected().execute(
                "delete from archive_batches where committed_at is null returning batch"
            )
            batches = [batch for (batch,) in uncounted]
            # The uncounted batches stay recorded until their files are removed, because the removal can be interrupted.
            self.connected().cursor().executemany(
                "insert into archive_batches (batch, counted_at) values (%s, %s) on conflict do nothing",
                [(batch, attempt.counted_at) for batch in (*batches, attempt.number)],
            )
        return batches

    def archive_removed(self, batches: Collection[int]) -> None:
        """Delete these uncounted batches from archive_batches, after their files were removed."""
        self.connected().execute("delete from archive_batches where batch = any(%s)", [list(batches)])

    def staged_again(self, attempt: Attempt) -> None:
        """Delete the staged rows of an attempt before its batch is staged again under the same number and time."""
        with self.connected().transaction():
            for table in ("staging_tasks", *TABLES):
                self.connected().execute(_DELETE[table], [attempt.number])

    def not_learned(self, attempt: Attempt) -> list[tuple[str, int]]:
        """Return (kind, schema id) of staged records whose writer's schema the stream does not know."""
        rows = self.connected().execute(
            "select distinct source, schema_id from staging_problems where attempt = %s and problem = %s",
            [attempt.number, Problem.NOT_LEARNED],
        )
        return [(source, schema_id) for source, schema_id in rows]

    def refuse_schemas(self, attempt: Attempt, schemas: set[tuple[str, int]]) -> None:
        """Mark the staged records of these schemas for the quarantine; the registry does not have them."""
        for source, schema_id in schemas:
            self.connected().execute(
                "update staging_problems set problem = %s"
                " where attempt = %s and source = %s and schema_id = %s and problem = %s",
                [Problem.UNKNOWN_SCHEMA, attempt.number, source, schema_id, Problem.NOT_LEARNED],
            )

    def quarantine(self, attempt: Attempt, places: Collection[tuple[str, int, int]]) -> None:
        """Stage positions whose records are quarantined instead of counted."""
        kinds = {topic: source.kind for source in SOURCES for topic in source.topics()}
        with self.connected().transaction():
            copy_rows(
                self.connected(),
                attempt.number,
                _NO_PART,
                0,
                {
                    "staging_positions": [f"{topic}\t{p}\t{offset}\t{offset}\t1" for topic, p, offset in places],
                    "staging_problems": [
                        f"{topic}\t{p}\t{offset}\t{kinds[topic]}\t\\N\t{Problem.UNSTORABLE}"
                        for topic, p, offset in places
                    ],
                },
            )

    def merge(
        self, attempt: Attempt, *, batch_id: int, batch_ms: int = 0, replayed: int = 0, trial: bool = False
    ) -> Merged:
        """Count the staged rows of an attempt once. The next attempt deletes them.

        Args:
            replayed: The number of replays that were not staged, for the status.
            trial: Whether to roll back at the end.

        Raises:
            Repeated: The attempt contains records that were counted before; nothing is counted.
            StagingLost: The staged rows were lost.
            Fenced: Another driver has taken over the stream.
        """
        done = {"batch_id": batch_id, "batch_ms": batch_ms, "replayed": replayed}
        try:
            return self._merged(attempt, done, trial=trial)
        except _Counted:
            repeated = self._repeated(attempt)
        if repeated.ids or repeated.twice:
            raise repeated
        # The ids that conflicted were older than the redelivery window; _repeated has deleted them.
        return self._merged(attempt, done, trial=trial)

    def _merged(self, attempt: Attempt, done: dict[str, int], *, trial: bool) -> Merged:
        self._load_ids()
        connection = self.connected()
        names: dict[str, Any] = {
            "attempt": attempt.number,
            "at": attempt.counted_at,
            "stream": STREAM,
            "requested": REQUESTED,
            "duplicate": DUPLICATE,
            "queued": QUEUED,
        }
        with connection.transaction() as transaction:
            self._hold_the_stream(_ALONE)
            connection.execute(_LOCK_TIMEOUT, [f"{self._tasks_end_s}s"])
            # guard: metrics.lost_staging
            if not connection.execute("delete from staging_attempts where attempt = %s", [attempt.number]).rowcount:
                raise StagingLost(f"the staged rows of attempt {attempt.number} are gone")
            connection.execute(_LOCK_TIMEOUT, ["0"])
            self._leave_one_run_a_task(connection, attempt)
            if floor := self.floor(attempt):
                raise Repeated(floor, (), ())
            try:
                names["new"] = counted_ids.remember(connection, attempt.number, attempt.counted_at)
            except psycopg.errors.UniqueViolation as error:
                raise _Counted from error
            # New rows have no statistics, so the planner would expect few rows and choose nested loops.
            connection.execute("set local enable_nestloop = off")
            records, quarantined, new, late = connection.execute(_MERGE, names).fetchone() or (0, 0, 0, 0)
            self._merge_states(connection, attempt)
            for view in self.views:
                view.merge(connection, attempt.number)
            if self.recipients:
                recipient_log.merge(connection, attempt.number, attempt.counted_at)
            connection.execute(_ARCHIVED, names | {"window_s": self._window_s})
            merged = Merged(records, records - quarantined - new, quarantined, done["replayed"], late)
            connection.execute(_BATCH_DONE, {"stream": STREAM} | done | vars(merged))
            if trial:
                raise psycopg.Rollback(transaction)
        return merged

    def _hold_the_stream(self, how: bytes) -> None:
        """Lock the stream, so that no other driver can take it over before the transaction ends. Raises Fenced if one
        already has.
        """
        row = self.connected().execute(_HELD + how, [STREAM]).fetchone()
        if row is None or row[0] != self._epoch:
            raise Fenced(f"another driver has taken the stream over (epoch {row and row[0]}, ours {self._epoch})")

    def _leave_one_run_a_task(self, connection: psycopg.Connection[Any], attempt: Attempt) -> None:
        """Delete the rows of repeated task runs. Each run stages all rows of its task or none, and the first run
        counts.
        """
        again = connection.execute(
            "select part, min(try) from staging_tasks where attempt = %s group by part having count(*) > 1",
            [attempt.number],
        ).fetchall()
        for part, first in again:
            for table in TABLES:
                connection.execute(_DELETE[table] + b" and part = %s and try > %s", [attempt.number, part, first])

    def _load_ids(self) -> None:
        connection = self.connected()
        if not self._ids_loaded:
            with connection.transaction():
                self._hold_the_stream(_ALONE)
                counted_ids.load(connection)
            self._ids_loaded = True

    def _repeated(self, attempt: Attempt) -> Repeated:
        self.forget(attempt)
        with self.connected().transaction():
            ids, twice = counted_ids.repeated(self.connected(), attempt.number)
        return Repeated({}, ids, twice)

    def _merge_states(self, connection: psycopg.Connection[Any], attempt: Attempt) -> None:
        chunks: defaultdict[tuple[str, int, str], list[StateEntry]] = defaultdict(list)
        with connection.cursor(binary=True) as cursor:
            for send_id, chunk_index, channel, *entry in cursor.execute(_STAGED_STATES, [attempt.number]):
                chunks[send_id, chunk_index, channel].append(cast("StateEntry", tuple(entry)))
            staged: dict[BlockKey, array[int]] = {
                (*key, block): codes for key, entries in chunks.items() for block, codes in blocks_of(entries).items()
            }
            if not staged:
                return
            keys = [list(column) for column in zip(*staged, strict=True)]
            known = {tuple(key): restored(raw) for *key, raw in cursor.execute(_KNOWN_STATES, keys)}
            blocks, moves = merged(known, staged)
            if blocks:
                changed = [list(column) for column in zip(*blocks, strict=True)]
                cursor.execute(_STORE_STATES, [*changed, [stored(block) for block in blocks.values()]])
            if moves:
                cursor.execute(_MOVE_TOTALS, [*(list(c) for c in zip(*moves, strict=True)), list(moves.values())])
                if left := {send_id for (send_id, *_), n in moves.items() if n < 0}:
                    cursor.execute("delete from send_totals where count_total = 0 and send_id = any(%s)", [list(left)])

    def forget(self, attempt: Attempt) -> int:
        """Delete the ids that were older than the redelivery window when the attempt began, and return their number.
        Raises Fenced.
        """
        with self.connected().transaction():
            self._hold_the_stream(_ALONE)
            before = attempt.counted_at - timedelta(seconds=self._window_s)
            self.connected().execute(_FORGOTTEN, [before, STREAM])
            return counted_ids.forget(self.connected(), before)


_TAKE_OVER = """
insert into stream_status (stream, epoch, state, started_at) values (%(stream)s, 1, 'waiting', now())
on conflict (stream) do update
    set epoch = stream_status.epoch + 1, state = 'waiting', started_at = now(), ready_at = null
returning epoch
"""

_BATCH_DONE = """
update stream_status
set batch_id = %(batch_id)s, finished_at = clock_timestamp(), batch_ms = %(batch_ms)s, records = %(records)s,
    refused = %(refused)s, quarantined = %(quarantined)s, replayed = %(replayed)s, late = %(late)s
where stream = %(stream)s
"""

# The strong lock excludes two merges, or a merge and a swap, at the same time. The weak lock, for staging, conflicts
# only with a swap and with the start of another driver.
_HELD = b"select epoch from stream_status where stream = %s "
_ALONE, _WEAKLY = b"for no key update", b"for key share"  # guard: metrics.second_driver

_LOCK_TIMEOUT = "select set_config('lock_timeout', %s, true)"

_VACUUM_EVERY_S = 5.0
_FORGET_EVERY_S = 600.0
_STAGED = ("staging_tasks", *TABLES)
_TRUNCATE = b"truncate " + ", ".join(("staging_attempts", *_STAGED)).encode()
_DROP_OTHER = "of_{table} as (delete from {table})"
_DROP_OTHERS = f"with {', '.join(_DROP_OTHER.format(table=table) for table in _STAGED)} select".encode()
# VACUUM must not truncate the tables, because truncation needs an exclusive lock.
_VACUUM = b"vacuum (truncate false) " + ", ".join(_STAGED).encode()

_DELETE = {
    table: f"delete from {table} where attempt = %s".encode()  # noqa: S608 - our own names
    for table in _STAGED
}

_BEGIN = """
insert into staging_attempts (attempt) values (nextval('staging_attempt_numbers')) returning attempt, counted_at
"""

_FORGOTTEN = "update stream_status set forgotten_before = greatest(forgotten_before, %s) where stream = %s"

_ARCHIVED = """
update archive_batches
set committed_at = now(),
    remembers_since = greatest(
        %(at)s - make_interval(secs => %(window_s)s),
        (select forgotten_before from stream_status where stream = %(stream)s)
    )
where batch = %(attempt)s
"""

# guard: metrics.counted_offsets
_REPLAYS = """
select topic, partition, next_offset
from (
    select topic, partition, min(first_offset) as first_offset
    from staging_positions where attempt = %(attempt)s group by topic, partition
) as staged join stream_offsets using (topic, partition)
where first_offset < next_offset
"""

_STAGED_STATES = """
select send_id, chunk_index, channel, status, reason, runs, listed from staging_states where attempt = %s
"""

_KNOWN_STATES = """
select send_id, chunk_index, channel, block, codes
from send_states
join unnest(%s::text[], %s::int[], %s::text[], %s::int[]) as told (send_id, chunk_index, channel, block)
    using (send_id, chunk_index, channel, block)
"""

_STORE_STATES = """
insert into send_states (send_id, chunk_index, channel, block, codes)
select * from unnest(%s::text[], %s::int[], %s::text[], %s::int[], %s::bytea[])
on conflict (send_id, chunk_index, channel, block) do update set codes = excluded.codes
"""

_MOVE_TOTALS = """
insert into send_totals as t (send_id, channel, status, reason, count_total)
select * from unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::bigint[])
on conflict (send_id, channel, status, reason) do update set count_total = t.count_total + excluded.count_total
"""

# Adds the counts of the smallest grain to a larger grain.
_INTO_GRAIN = """
into_{table} as (
    insert into {table} as c (bucket, club_id, type, channel, measure, count_total)
    select date_bin('{seconds} seconds', bucket, timestamptz 'epoch'), club_id, type, channel, measure, sum(count_total)
    from minutes
    group by 1, 2, 3, 4, 5
    on conflict (bucket, club_id, type, channel, measure)
        do update set count_total = c.count_total + excluded.count_total
),
""".strip()
# A single statement, so that all parts read the same staged rows.
_MERGE = """
with counted as materialized (
    select * from staging_counts where attempt = %(attempt)s
),
minutes as materialized (
    select to_timestamp(minute_s) as bucket, club_id, type, channel, measure, sum(count_total) as count_total
    from counted
    where count_total > 0
    group by 1, 2, 3, 4, 5
),
into_minutes as (
    insert into {SMALLEST} as c (bucket, club_id, type, channel, measure, count_total)
    select bucket, club_id, type, channel, measure, count_total from minutes
    on conflict (bucket, club_id, type, channel, measure)
        do update set count_total = c.count_total + excluded.count_total
),
{INTO_LARGER_GRAINS}
late as materialized (
    select to_timestamp(minute_s) as minute, club_id, sum(records) as records, coalesce(sum(count_total), 0) as total
    from counted, stream_watermark as w
    where w.stream = %(stream)s
        and to_timestamp(minute_s + 60) + make_interval(secs => w.grace_ms / 1000.0) <= w.watermark
    group by 1, 2
),
into_revised as (
    insert into revised_minutes as r (minute, club_id, revised_at, late_records, late_total)
    select minute, club_id, now(), records, total from late
    on conflict (minute, club_id) do update
        set revised_at = excluded.revised_at,
            late_records = r.late_records + excluded.late_records,
            late_total = r.late_total + excluded.late_total
),
into_sends as (
    insert into sends as s (send_id, club_id, type, requested_at, chunk_count, chunks)
    select send_id,
        (array_agg(club_id order by source = 'send' desc, first_ms, club_id, type collate "C"))[1],
        (array_agg(type order by source = 'send' desc, first_ms, club_id, type collate "C"))[1],
        to_timestamp(min(first_ms) filter (where source = 'send') / 1000.0),
        max(chunk_count),
        coalesce(sum(records) filter (where source = 'send'), 0)
    from counted
    group by send_id
    on conflict (send_id) do update
        -- Chunks that disagree: in whichever order they are counted, what was requested first, and of that the least.
        set (club_id, type) = (
                select one.club_id, one.type
                from (
                    values (s.requested_at, s.club_id, s.type), (excluded.requested_at, excluded.club_id, excluded.type)
                ) as one (requested_at, club_id, type)
                order by one.requested_at nulls last, one.club_id, one.type collate "C"
                limit 1
            ),
            requested_at = least(s.requested_at, excluded.requested_at),
            chunk_count = greatest(s.chunk_count, excluded.chunk_count),
            chunks = s.chunks + excluded.chunks
),
into_channels as (
    insert into send_channels as c (send_id, channel, requested, duplicates, queued)
    select send_id, channel,
        coalesce(sum(count_total) filter (where measure = %(requested)s), 0),
        coalesce(sum(count_total) filter (where measure = %(duplicate)s), 0),
        coalesce(sum(count_total) filter (where measure = %(queued)s), 0)
    from counted
    where channel is not null and source in ('send', 'delivery')
    group by send_id, channel
    on conflict (send_id, channel) do update
        set requested = c.requested + excluded.requested,
            duplicates = c.duplicates + excluded.duplicates,
            queued = c.queued + excluded.queued
),
into_quarantine as (
    insert into quarantine (topic, partition, kafka_offset, reason, schema_id)
    select topic, partition, kafka_offset, problem, schema_id from staging_problems where attempt = %(attempt)s
    on conflict do nothing
),
into_offsets as (
    insert into stream_offsets as o (topic, partition, next_offset)
    select topic, partition, max(last_offset) + 1
    from staging_positions where attempt = %(attempt)s group by topic, partition
    on conflict (topic, partition) do update set next_offset = greatest(o.next_offset, excluded.next_offset)
)
select
    (select coalesce(sum(records), 0)::bigint from staging_positions where attempt = %(attempt)s),
    (select count(*) from staging_problems where attempt = %(attempt)s),
    %(new)s::bigint,
    (select coalesce(sum(records), 0)::bigint from late)
""".replace(
    "{INTO_LARGER_GRAINS}",
    "\n".join(_INTO_GRAIN.format(table=each.table, seconds=each.seconds) for each in Grain if each is not SMALLEST),
).replace("{SMALLEST}", SMALLEST.table)
