"""Writes the counts: the executors stage the counts of a micro-batch, then one transaction merges them into the served
tables.

These rules keep the counts exact, however often a batch or a record is repeated:

  stream_offsets    positions below the stored offsets are replays (after a restart or a lost checkpoint): skipped
  counted_ids       a record whose id was counted within the redelivery window is a redelivery: skipped
  epoch             a driver that was replaced by another one cannot merge
  staging_attempts  a crash of the server that empties the staging tables is detected; the batch is staged again
  staging_tasks     if a Spark task ran twice, only its first run counts

The counted records are those below stream_offsets that are neither in `quarantine` nor in `redelivered`, in any
snapshot that contains whole batches (between_batches).

A staged sum cannot be split into records. So a batch is staged as if all of its records were new, which is nearly
always true. If it is not, the merge rolls back and reports the records that were counted before (Repeated), and the
batch is staged again without them.
"""

import logging
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import psycopg

from masscomm.domain.grains import Grain
from masscomm.domain.measures import DUPLICATE, QUEUED, REQUESTED
from masscomm.errors import Retry, Stop
from spark_metrics import counted_ids, recipient_log, send_states
from spark_metrics.database import connect
from spark_metrics.problems import Problem
from spark_metrics.sources import SOURCES
from spark_metrics.sql import read_sql
from spark_metrics.staging import TABLES, copy_rows
from spark_metrics.views import View, maintain

_log = logging.getLogger(__name__)

STREAM = "metrics"

# (topic, partition): the first offset that is not a replay
type Floor = dict[tuple[str, int], int]


# The key of the advisory lock that a batch holds, shared, from its first write to the move of the stream's offsets.
BATCH_LOCK = 4_602_678_820

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


@contextmanager
def between_batches(connection: psycopg.Connection[Any], *, wait_s: float = 60.0) -> Iterator[None]:
    """Block the stream between two batches, so that a snapshot of the block contains whole batches only.

    The lock belongs to the session. Take a snapshot in the block (the first query of a repeatable read transaction) and
    leave it at once: the stream waits.

    Raises:
        Retry: A batch is still unfinished after wait_s.
    """
    connection.execute("select set_config('lock_timeout', %s, false)", [f"{round(wait_s * 1000)}ms"])
    try:
        connection.execute("select pg_advisory_lock(%s)", [BATCH_LOCK])
    except psycopg.errors.LockNotAvailable as error:
        raise Retry(f"a batch of the stream is unfinished for {wait_s:.0f} s") from error
    finally:
        connection.execute("select set_config('lock_timeout', '0', false)")
    try:
        yield
    finally:
        connection.execute("select pg_advisory_unlock(%s)", [BATCH_LOCK])


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
            row = self.connected().execute(read_sql("take_over"), {"stream": STREAM}).fetchone()
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

    def store_topic_ids(self, topic_ids: Mapping[str, str]) -> None:
        """Store the ids of the counted topics. Raises Fenced."""
        with self.connected().transaction():
            self._lock_stream(_SHARED)
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
            self._lock_stream(_SHARED)
            for table in _STAGED:
                connection.execute(f"delete from {table}".encode())  # noqa: S608 - our own names
            row = connection.execute(read_sql("begin_attempt")).fetchone()
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
            self._lock_stream(_SHARED)
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

    def delete_staged(self, attempt: Attempt) -> None:
        """Delete the staged rows of an attempt before its batch is staged again under the same number and time."""
        with self.connected().transaction():
            for table in ("staging_tasks", *TABLES):
                self.connected().execute(_delete(table), [attempt.number])

    def unknown_schemas(self, attempt: Attempt) -> list[tuple[str, int]]:
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
            connection.execute("select pg_advisory_xact_lock_shared(%s)", [BATCH_LOCK])
            self._lock_stream(_EXCLUSIVE)
            connection.execute(_LOCK_TIMEOUT, [f"{self._tasks_end_s}s"])
            # guard: metrics.lost_staging
            if not connection.execute("delete from staging_attempts where attempt = %s", [attempt.number]).rowcount:
                raise StagingLost(f"the staged rows of attempt {attempt.number} are gone")
            connection.execute(_LOCK_TIMEOUT, ["0"])
            self._keep_first_runs(connection, attempt)
            if floor := self.floor(attempt):
                raise Repeated(floor, (), ())
            try:
                new = counted_ids.remember(connection, attempt.number, attempt.counted_at)
            except psycopg.errors.UniqueViolation as error:
                raise _Counted from error
            # New rows have no statistics, so the planner would expect few rows and choose nested loops.
            connection.execute("set local enable_nestloop = off")
            for statement in _MERGE_COUNTS:
                connection.execute(statement, names)
            late, quarantined, records = (
                _number(connection.execute(statement, names))
                for statement in (_MERGE_REVISED_MINUTES, _MERGE_QUARANTINE, _MERGE_OFFSETS)
            )
            connection.execute(read_sql("merge_redelivered"), names)
            send_states.merge(connection, attempt.number)
            for view in self.views:
                view.merge(connection, attempt.number)
            if self.recipients:
                recipient_log.merge(connection, attempt.number, attempt.counted_at)
            connection.execute(read_sql("mark_archived"), names | {"window_s": self._window_s})
            merged = Merged(records, records - quarantined - new, quarantined, done["replayed"], late)
            connection.execute(read_sql("batch_merged"), {"stream": STREAM} | done | vars(merged))
            if trial:
                raise psycopg.Rollback(transaction)
        return merged

    def _lock_stream(self, how: bytes) -> None:
        """Lock the stream, so that no other driver can take it over before the transaction ends. Raises Fenced if one
        already has.
        """
        row = self.connected().execute(_HELD + how, [STREAM]).fetchone()
        if row is None or row[0] != self._epoch:
            raise Fenced(f"another driver has taken the stream over (epoch {row and row[0]}, ours {self._epoch})")

    def _keep_first_runs(self, connection: psycopg.Connection[Any], attempt: Attempt) -> None:
        """Delete the rows of repeated task runs. Each run stages all rows of its task or none, and the first run
        counts.
        """
        again = connection.execute(
            "select part, min(try) from staging_tasks where attempt = %s group by part having count(*) > 1",
            [attempt.number],
        ).fetchall()
        for part, first in again:
            for table in TABLES:
                connection.execute(_delete(table) + b" and part = %s and try > %s", [attempt.number, part, first])

    def _load_ids(self) -> None:
        connection = self.connected()
        if not self._ids_loaded:
            with connection.transaction():
                self._lock_stream(_EXCLUSIVE)
                counted_ids.load(connection)
            self._ids_loaded = True

    def _repeated(self, attempt: Attempt) -> Repeated:
        self.forget(attempt)
        with self.connected().transaction():
            ids, twice = counted_ids.repeated(self.connected(), attempt.number)
        return Repeated({}, ids, twice)

    def forget(self, attempt: Attempt) -> int:
        """Delete the ids that were older than the redelivery window when the attempt began, and return their number.
        Raises Fenced.
        """
        with self.connected().transaction():
            self._lock_stream(_EXCLUSIVE)
            before = attempt.counted_at - timedelta(seconds=self._window_s)
            self.connected().execute(_FORGOTTEN, [before, STREAM])
            return counted_ids.forget(self.connected(), before)


def _number(cursor: psycopg.Cursor[Any]) -> int:
    row = cursor.fetchone()
    return int(row[0]) if row else 0


def _delete(table: str) -> bytes:
    return f"delete from {table} where attempt = %s".encode()  # noqa: S608 - our own names


# The strong lock excludes two merges, or a merge and a swap, at the same time. The weak lock, for staging, conflicts
# only with a swap and with the start of another driver.
_HELD = b"select epoch from stream_status where stream = %s "
_EXCLUSIVE, _SHARED = b"for no key update", b"for key share"  # guard: metrics.second_driver

_LOCK_TIMEOUT = "select set_config('lock_timeout', %s, true)"

_VACUUM_EVERY_S = 5.0
_FORGET_EVERY_S = 600.0
_STAGED = ("staging_tasks", *TABLES)
_TRUNCATE = b"truncate " + ", ".join(("staging_attempts", *_STAGED)).encode()
# VACUUM must not truncate the tables, because truncation needs an exclusive lock.
_VACUUM = b"vacuum (truncate false) " + ", ".join(_STAGED).encode()
_FORGOTTEN = "update stream_status set forgotten_before = greatest(forgotten_before, %s) where stream = %s"

_REPLAYS = read_sql("replays")  # guard: metrics.counted_offsets
# The statements that merge the staged counts. The order of the grains' tables is fixed.
_MERGE_COUNTS = (
    *(read_sql("merge_counts", table=grain.table, seconds=grain.seconds) for grain in Grain),
    read_sql("merge_sends"),
    read_sql("merge_send_channels"),
)
_MERGE_QUARANTINE = read_sql("merge_quarantine")
_MERGE_REVISED_MINUTES = read_sql("merge_revised_minutes")
_MERGE_OFFSETS = read_sql("merge_offsets")
