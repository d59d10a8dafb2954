"""The driver's part of counting: it begins each batch, and moves the stream's offsets when all lanes are merged.

The lanes of a batch are merged by executors (spark_metrics.counting.lane_merge), each in a transaction of its own.
These tables keep the counts exact, however often a batch, a task or a record is repeated:

  stream_offsets   positions below are merged in all lanes
  lane_offsets     positions of a lane below are merged; the other lanes of the batch may not be
  counted_ids      a record whose id is stored is a redelivery (spark_metrics.counting.counted_ids)
  stream_status    its epoch: a driver that was replaced by another one can merge nothing

A driver that dies leaves some lanes merged and others not. The next one begins at stream_offsets, and each of its lanes
leaves out the records that lane_offsets has, even if the number of lanes is another one: a record's lane among any
number of lanes follows from the hash of its send id.

The counted records are those below stream_offsets that are neither in `quarantine` nor in `redelivered`, in any
snapshot that contains whole batches. between_batches gives such a snapshot: a batch holds an advisory lock, shared,
from its first lane to the move of the offsets, and lane_offsets shows whether one is unfinished.
"""

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date
from typing import Any

import psycopg

from masscomm.errors import Retry, Stop
from masscomm.observability import metrics
from masscomm.observability.metric_names import RECORDS_QUARANTINED
from spark_metrics.common.database import STREAM, connect, lock
from spark_metrics.common.settings import WEBHOOK_SUCCESSES
from spark_metrics.common.sources import kinds_of_topics
from spark_metrics.counting import counted_ids, partitions, recipient_log
from spark_metrics.counting.lane_merge import LaneResult, Plan
from spark_metrics.counting.views import View, maintain
from spark_metrics.sql import read_sql

# The key of the advisory lock that a batch holds, shared, from its first write to the move of the stream's offsets.
BATCH_LOCK = 4_602_678_820


class Fenced(Stop):
    """Another driver has taken over the stream."""


@dataclass(frozen=True)
class Merged:
    """The result of one batch, in numbers of Kafka records.

    Attributes:
        records: Records that no earlier merge has consumed.
        refused: Those of `records` whose ids were counted before.
        quarantined: Those of `records` that cannot be counted.
        replayed: Records that an earlier merge has consumed.
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
    deadline = time.monotonic() + wait_s
    while True:
        lock(connection, BATCH_LOCK, wait_s=wait_s, held=f"a batch of the stream is unfinished for {wait_s:.0f} s")
        try:
            row = connection.execute(read_sql("unfinished_batch")).fetchone()
            if row == (False,):  # guard: metrics.unfinished_batch
                yield
                return
        finally:
            connection.execute("select pg_advisory_unlock(%s)", [BATCH_LOCK])
        # The driver has lost its connection or has ended; the next one finishes the batch.
        if time.monotonic() > deadline:
            raise Retry(f"a batch of the stream is unfinished for {wait_s:.0f} s")
        time.sleep(_PAUSE_S)


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
        webhook_successes: int = WEBHOOK_SUCCESSES,
    ) -> None:
        """Create the sink; it connects at the first call that needs the database.

        Args:
            database_url: A URL of libpq.
            window_s: How long the ids of counted records are stored at least (the redelivery window).
            views: Further tables to merge into.
            recipients: Whether to write the log of recipients.
            webhook_successes: How many first successes of an endpoint's hour the log of webhooks has.
        """
        self.views = tuple(views)
        self.recipients = recipients
        self._webhook_successes = webhook_successes
        self.epoch = 0
        self.database_url = database_url
        self._window_s = window_s
        self._connection: psycopg.Connection[Any] | None = None
        self._holds_lock = False
        # The day (UTC) for which this sink has made the partitions of tables.
        self._partitioned: date | None = None

    def connected(self) -> psycopg.Connection[Any]:
        """Return the connection; open a new one if it is broken."""
        if self._connection is None or self._connection.broken or self._connection.closed:
            self._holds_lock = False
            self._connection = connect(self.database_url, "spark_metrics")
        return self._connection

    def close(self) -> None:
        """Close the connection. A later call opens a new one."""
        if self._connection is not None:
            self._connection.close()

    def take_over(self) -> int:
        """Become the stream's only driver: increment the epoch. Return it."""
        with self.connected().transaction():
            # This lock waits for all transactions that have locked the row, in either mode, those of lanes too.
            self.connected().execute("select from stream_status where stream = %s for update", [STREAM])
            row = self.connected().execute(read_sql("take_over"), {"stream": STREAM}).fetchone()
            self.epoch = int(row[0]) if row else 0
            log = [recipient_log.NAME] if self.recipients else []
            maintain(self.connected(), [*(view.table for view in self.views), *log])
            self.connected().execute(read_sql("forget_lane_offsets"))
        return self.epoch

    def next_offsets(self) -> dict[tuple[str, int], int]:
        """Return the first offset that is not merged in all lanes, by topic and partition."""
        rows = self.connected().execute("select topic, partition, next_offset from stream_offsets")
        return {(topic, partition): offset for topic, partition, offset in rows}

    def now_ms(self) -> int:
        """Return the time of the database in ms since the epoch."""
        [(now,)] = self.connected().execute("select floor(extract(epoch from clock_timestamp()) * 1000)::bigint")
        return int(now)

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

    def begin(self, lanes: int) -> Plan:
        """Begin to count a batch, and make the tables that its lanes need. Return the parameters of this number of
        lanes. Raises Fenced.
        """
        connection = self.connected()
        if not self._holds_lock:
            connection.execute("select pg_advisory_lock_shared(%s)", [BATCH_LOCK])
            self._holds_lock = True
        with connection.transaction():
            self._lock_stream(_SHARED)
            [(at,)] = connection.execute("select now()").fetchall()
            tables = counted_ids.current(connection, at, self._window_s)
            today = at.astimezone(UTC).date()
            if self._partitioned != today:
                log = [partitions.LOG] if self.recipients else []
                partitions.make_partitions(connection, at, [*partitions.TABLES.values(), *log])
        self._partitioned = today
        return Plan(
            database_url=self.database_url,
            epoch=self.epoch,
            lanes=lanes,
            counted_at=at,
            tables=tables,
            kinds=kinds_of_topics(),
            views=tuple(view.merge_statement() for view in self.views),
            recipients=self.recipients,
            webhook_successes=self._webhook_successes,
        )

    def complete(self, results: Collection[LaneResult], *, batch_id: int, batch_ms: int = 0) -> Merged:
        """Move the stream's offsets, after all lanes of a batch are merged.

        Raises Fenced: another driver has taken over the stream.
        """
        ends: dict[tuple[str, int], int] = {}
        for result in results:
            for place, end in result.ends.items():
                ends[place] = max(end, ends.get(place, 0))
        merged = Merged(**{name: sum(getattr(result, name) for result in results) for name in Merged.__annotations__})
        with self.connected().transaction():
            self._lock_stream(_EXCLUSIVE)
            self.connected().execute(
                read_sql("merge_offsets"), [[t for t, _ in ends], [p for _, p in ends], list(ends.values())]
            )
            done = {"stream": STREAM, "batch_id": batch_id, "batch_ms": batch_ms}
            self.connected().execute(read_sql("batch_merged"), done | vars(merged))
        self.connected().execute("select pg_advisory_unlock_shared(%s)", [BATCH_LOCK])
        self._holds_lock = False
        if merged.quarantined:
            metrics.add(RECORDS_QUARANTINED, merged.quarantined)
        return merged

    def _lock_stream(self, how: bytes) -> None:
        """Lock the stream, so that no other driver can take it over before the transaction ends. Raises Fenced if one
        already has.
        """
        row = self.connected().execute(_HELD + how, [STREAM]).fetchone()
        if row is None or row[0] != self.epoch:
            raise Fenced(f"another driver has taken the stream over (epoch {row and row[0]}, ours {self.epoch})")


# The strong lock excludes a swap. The weak lock, as that of the lanes, conflicts only with a swap and with the start of
# another driver.
_HELD = b"select epoch from stream_status where stream = %s "
_EXCLUSIVE, _SHARED = b"for no key update", b"for key share"
_PAUSE_S = 0.2
