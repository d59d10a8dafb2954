"""The sink: a micro-batch's rows staged by the executors, then merged into what is served in one transaction.

What makes the numbers exact, however often a batch or a record comes:

  stream_offsets    positions below the recorded ones are replays (a restart, a lost checkpoint): they are left out
  counted_records   a record id that was counted before is a redelivery: it is left out
  epoch             a driver that another has replaced can merge nothing
  staging_attempts  staged rows that a crash of the server emptied are staged again, never taken for "nothing to count"
"""

import logging
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode
from uuid import uuid4

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.json import Jsonb
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from masscomm.errors import Stop
from masscomm.measures import DUPLICATE, QUEUED, REQUESTED
from spark_metrics.transforms import Problem

_log = logging.getLogger(__name__)

STREAM = "metrics"

# Rows a record and measure; a send chunk has the most, two a channel.
_ROWS_A_ROUND_TRIP = 5_000


class StagingLost(Exception):
    """The server emptied the staged rows (a crash): the batch must be staged again."""


class Fenced(Stop):
    """Another driver runs this stream now."""


@dataclass(frozen=True)
class Merged:
    """What one merge did, in Kafka records.

    records: staged and not merged before; refused: of them, ids counted before; quarantined: of them, not countable;
    replayed: staged, and consumed by an earlier merge.
    """

    records: int
    refused: int
    quarantined: int
    replayed: int


def jdbc_url(database_url: str) -> str:
    """A libpq URL as the JDBC driver's."""
    parts = conninfo_to_dict(database_url)
    host, port = str(parts.pop("host", "localhost")), str(parts.pop("port", "5432"))
    database = quote(str(parts.pop("dbname", "postgres")), safe="")
    # One statement for many rows: staging is several times slower without.
    options = {"reWriteBatchedInserts": "true", "ApplicationName": "spark_metrics staging"}
    options |= {name: str(parts[name]) for name in ("user", "password", "sslmode") if name in parts}
    return f"jdbc:postgresql://{host}:{port}/{database}?{urlencode(options)}"


class PostgresSink:
    """Writes the metrics database; used by one thread at a time.

    database_url: libpq's. Every method may raise psycopg.OperationalError where the server is away; nothing is then
    half done, and the same call can be made again.
    """

    def __init__(self, database_url: str, *, partitions: int = 2) -> None:
        self._url = database_url
        self._partitions = partitions
        self._connection: psycopg.Connection[Any] | None = None
        self._epoch: int | None = None

    def connected(self) -> psycopg.Connection[Any]:
        """The connection, made anew where it is broken."""
        if self._connection is None or self._connection.broken or self._connection.closed:
            self._connection = psycopg.connect(
                self._url,
                autocommit=True,
                connect_timeout=5,
                application_name="spark_metrics",
                # Compiling a statement that runs once a second for milliseconds costs more than it gives.
                options="-c jit=off -c timezone=UTC",
            )
        return self._connection

    def close(self) -> None:
        """Give the connection back; a later call makes another."""
        if self._connection is not None:
            self._connection.close()

    def take_over(self) -> int:
        """Become the stream's only driver: the epoch is raised, and what earlier drivers left staged is dropped."""
        with self.connected().transaction():
            row = self.connected().execute(_TAKE_OVER, {"stream": STREAM}).fetchone()
            self._epoch = int(row[0]) if row else 0
            self.connected().execute("truncate staging, staging_attempts")
        return self._epoch

    def next_offsets(self) -> dict[str, dict[int, int]]:
        """{topic: {partition: the first offset that is not merged}}."""
        offsets: dict[str, dict[int, int]] = {}
        for topic, partition, offset in self.connected().execute(
            "select topic, partition, next_offset from stream_offsets"
        ):
            offsets.setdefault(topic, {})[partition] = offset
        return offsets

    def begin(self) -> str:
        """A new attempt, under which rows are then staged."""
        attempt = str(uuid4())
        self.connected().execute("insert into staging_attempts (attempt) values (%s)", [attempt])
        return attempt

    def stage(self, rows: DataFrame, attempt: str) -> None:
        """Have the executors write a batch's rows (spark_metrics.transforms.exploded) to the staging table."""
        (
            rows.withColumn("attempt", F.lit(attempt))
            .coalesce(self._partitions)
            .write.format("jdbc")
            .option("url", jdbc_url(self._url))
            .option("driver", "org.postgresql.Driver")
            .option("dbtable", "staging")
            .option("batchsize", _ROWS_A_ROUND_TRIP)
            .mode("append")
            .save()
        )

    def not_learned(self, attempt: str) -> list[tuple[str, int]]:
        """(kind, schema id) of staged records whose writer's schema the stream does not know."""
        rows = self.connected().execute(
            "select distinct source, schema_id from staging where attempt = %s and problem = %s",
            [attempt, Problem.NOT_LEARNED],
        )
        return [(source, schema_id) for source, schema_id in rows]

    def refuse_schemas(self, attempt: str, schemas: set[tuple[str, int]]) -> None:
        """Their staged records will be quarantined: the registry has no such schemas."""
        for source, schema_id in schemas:
            self.connected().execute(
                "update staging set problem = %s"
                " where attempt = %s and source = %s and schema_id = %s and problem = %s",
                [Problem.UNKNOWN_SCHEMA, attempt, source, schema_id, Problem.NOT_LEARNED],
            )

    def merge(self, attempt: str, *, batch_id: int, batch_ms: int = 0) -> Merged:
        """Count what an attempt staged, once, and drop it.

        Errors: StagingLost, Fenced.
        """
        connection = self.connected()
        with connection.transaction():
            row = connection.execute(
                "select epoch from stream_status where stream = %s for update", [STREAM]
            ).fetchone()
            if row is None or row[0] != self._epoch:
                raise Fenced(f"another driver has taken the stream over (epoch {row and row[0]}, ours {self._epoch})")
            if not connection.execute("delete from staging_attempts where attempt = %s", [attempt]).rowcount:
                raise StagingLost(f"the staged rows of attempt {attempt} are gone")
            # Nothing is known of rows that are seconds old; the planner takes them for few, and nested loops for cheap.
            connection.execute("set local enable_nestloop = off")
            names = {"attempt": attempt, "requested": REQUESTED, "duplicate": DUPLICATE, "queued": QUEUED}
            counts = connection.execute(_MERGE, names).fetchone()
            merged = Merged(*counts) if counts else Merged(0, 0, 0, 0)
            connection.execute("delete from staging where attempt = %s", [attempt])
            connection.execute(
                _BATCH_DONE,
                {"stream": STREAM, "batch_id": batch_id, "batch_ms": batch_ms} | vars(merged),
            )
        return merged

    def discard(self, attempt: str) -> None:
        """Drop what an attempt staged."""
        with self.connected().transaction():
            self.connected().execute("delete from staging where attempt = %s", [attempt])
            self.connected().execute("delete from staging_attempts where attempt = %s", [attempt])


class StatusWriter:
    """Tells through the tables stream_status and stream_watermark how far the stream is.

    sink: one of its own, since it writes from another thread than the batches; epoch: this driver's.
    """

    def __init__(self, sink: PostgresSink, epoch: int) -> None:
        self._sink = sink
        self._epoch = epoch

    def state(self, state: str) -> None:
        """waiting, running or stopped; a replaced driver says nothing."""
        self._sink.connected().execute(
            "update stream_status set state = %(state)s,"
            " ready_at = case when %(state)s = 'running' then now() else ready_at end"
            " where stream = %(stream)s and epoch = %(epoch)s",
            {"state": state, "stream": STREAM, "epoch": self._epoch},
        )

    def consumed(self, watermark_ms: int | None, lag: int, end_offsets: dict[str, dict[int, int]]) -> None:
        """The watermark (ms since the epoch; None: none reached yet), records not merged, and the topics' ends."""
        with self._sink.connected().transaction():
            self._sink.connected().execute(
                "update stream_status set lag = %s, end_offsets = %s where stream = %s and epoch = %s",
                [lag, Jsonb(end_offsets), STREAM, self._epoch],
            )
            if watermark_ms is not None:
                self._sink.connected().execute(_WATERMARK, {"stream": STREAM, "ms": watermark_ms})


_TAKE_OVER = """
insert into stream_status (stream, epoch, state, started_at) values (%(stream)s, 1, 'waiting', now())
on conflict (stream) do update
    set epoch = stream_status.epoch + 1, state = 'waiting', started_at = now(), ready_at = null
returning epoch
"""

_BATCH_DONE = """
update stream_status
set batch_id = %(batch_id)s, finished_at = clock_timestamp(), batch_ms = %(batch_ms)s, records = %(records)s,
    refused = %(refused)s, quarantined = %(quarantined)s, replayed = %(replayed)s
where stream = %(stream)s
"""

# greatest: a driver whose clock is behind its predecessor's must not take back what was said.
_WATERMARK = """
insert into stream_watermark (stream, watermark, updated_at)
values (%(stream)s, to_timestamp(%(ms)s / 1000.0), now())
on conflict (stream) do update
    set watermark = greatest(stream_watermark.watermark, excluded.watermark), updated_at = excluded.updated_at
"""

# One statement, so that every part sees the same staged rows. `positions` is a Kafka record a row.
_MERGE = """
with staged as materialized (
    -- A task that ran twice staged its rows twice.
    select distinct on (topic, partition, kafka_offset, ordinal) *
    from staging
    where attempt = %(attempt)s
    order by topic, partition, kafka_offset, ordinal
),
fresh as materialized (
    select staged.*
    from staged left join stream_offsets consumed using (topic, partition)
    where staged.kafka_offset >= coalesce(consumed.next_offset, 0)
),
positions as materialized (
    select topic, partition, kafka_offset, problem, schema_id, record_id::uuid as record_id, source
    from fresh
    where ordinal = 0
),
-- The same id at two positions of this batch: the first one counts.
first_positions as (
    select distinct on (record_id, source) topic, partition, kafka_offset, record_id, source
    from positions
    where problem is null
    order by record_id, source, topic, partition, kafka_offset
),
newly_counted as (
    insert into counted_records (record_id, source)
    select record_id, source from first_positions
    on conflict do nothing
    returning record_id, source
),
counted as materialized (
    select fresh.*, fresh.at_ms / 60000 * 60 as minute_s
    from fresh
    join (first_positions join newly_counted using (record_id, source)) as chosen
        using (topic, partition, kafka_offset)
),
minutes as materialized (
    select to_timestamp(minute_s) as bucket, club_id, type, channel, measure, sum(count_total) as count_total
    from counted
    where count_total > 0
    group by 1, 2, 3, 4, 5
),
into_minutes as (
    insert into counts_minute as c (bucket, club_id, type, channel, measure, count_total)
    select bucket, club_id, type, channel, measure, count_total from minutes
    on conflict (bucket, club_id, type, channel, measure)
        do update set count_total = c.count_total + excluded.count_total
),
into_hours as (
    insert into counts_hour as c (bucket, club_id, type, channel, measure, count_total)
    select date_trunc('hour', bucket, 'UTC'), club_id, type, channel, measure, sum(count_total)
    from minutes
    group by 1, 2, 3, 4, 5
    on conflict (bucket, club_id, type, channel, measure)
        do update set count_total = c.count_total + excluded.count_total
),
into_days as (
    insert into counts_day as c (bucket, club_id, type, channel, measure, count_total)
    select date_trunc('day', bucket, 'UTC'), club_id, type, channel, measure, sum(count_total)
    from minutes
    group by 1, 2, 3, 4, 5
    on conflict (bucket, club_id, type, channel, measure)
        do update set count_total = c.count_total + excluded.count_total
),
into_sends as (
    insert into sends as s (send_id, club_id, type, requested_at, chunk_count, chunks)
    select send_id,
        (array_agg(club_id order by source = 'send' desc, topic, partition, kafka_offset))[1],
        (array_agg(type order by source = 'send' desc, topic, partition, kafka_offset))[1],
        to_timestamp(min(at_ms) filter (where source = 'send') / 1000.0),
        max(chunk_count),
        count(*) filter (where source = 'send')
    from counted
    where ordinal = 0
    group by send_id
    on conflict (send_id) do update
        set requested_at = least(s.requested_at, excluded.requested_at),
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
into_totals as (
    insert into send_totals as t (send_id, channel, status, reason, count_total)
    select send_id, channel, measure, coalesce(reason, ''), sum(count_total)
    from counted
    where source = 'outcome' and count_total > 0
    group by 1, 2, 3, 4
    on conflict (send_id, channel, status, reason) do update set count_total = t.count_total + excluded.count_total
),
into_quarantine as (
    insert into quarantine (topic, partition, kafka_offset, reason, schema_id)
    select topic, partition, kafka_offset, problem, schema_id from positions where problem is not null
    on conflict do nothing
),
into_offsets as (
    insert into stream_offsets as o (topic, partition, next_offset)
    select topic, partition, max(kafka_offset) + 1 from positions group by topic, partition
    on conflict (topic, partition) do update set next_offset = greatest(o.next_offset, excluded.next_offset)
)
select
    (select count(*) from positions),
    (select count(*) from positions where problem is null) - (select count(*) from newly_counted),
    (select count(*) from positions where problem is not null),
    (select count(*) from staged where ordinal = 0) - (select count(*) from positions)
"""
