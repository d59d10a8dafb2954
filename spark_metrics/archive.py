"""The archive: each record once, as a row in Parquet files, by date and hour of the record's event.

    <folder>/date=2026-11-21/hour=09/batch=<attempt>/part-….parquet

A row has only the columns that counting needs, never the record's value or headers, so the archive contains no message
text, address or one-time password. It contains the users of outcomes only while the log of recipients is enabled,
because recompute needs them to check that log. A record that cannot be counted is stored under the time of its
production, with its source position and problem. Earlier versions also stored value and headers:
spark_metrics.archived_records reads both forms, and rewriting a folder removes these bytes.

`batch` is the number of the attempt that wrote the files. The transaction that counts a batch records the number in the
table archive_batches. Readers ignore the folders of uncounted attempts, and the next batch removes them before it is
written.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import psycopg
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_metrics.archive_table import ARCHIVED, OF_RECIPIENTS
from spark_metrics.sink import Attempt

_log = logging.getLogger(__name__)

type Rows = Callable[[DataFrame], DataFrame]
# A UTC date and an hour of that date, as in the names of folders.
type Hour = tuple[str, str]

_BATCH = "batch="
# zstd halves the size of snappy's files, in the same time. Spark keeps a block in memory until it is written: Parquet's
# default of 128 MB would be a quarter of a small driver's memory.
_PARQUET = {"compression": "zstd", "parquet.block.size": str(32 << 20)}
_MARK = "_archive_id"


@dataclass(frozen=True)
class Folder:
    """The files of one batch and hour."""

    path: str
    date: str
    hour: str
    batch: int


class Archive:
    """Writes, reads and compacts the archive's files.

    Every method may raise Spark's errors; a method with a connection may also raise psycopg's.

    Args:
        folder: A path or URL of one of Hadoop's file systems (s3://… in AWS).
    """

    def __init__(self, spark: SparkSession, folder: str) -> None:
        self._spark = spark
        self._folder = folder.rstrip("/")
        # Only one thread may write: Spark's committer removes all temporary files in the folder, also another writer's.
        self._alone = threading.Lock()  # guard: archive.one_writer
        self._beside = ThreadPoolExecutor(1, "archive")

    def write(self, facts: DataFrame, attempt: Attempt, *, files: int = 1) -> None:
        """Write a batch's records; readers ignore them until the attempt is committed.

        Args:
            files: The maximum number of files per hour; each is written by one task.
        """
        with self._alone:
            (
                self.rows(facts, attempt)
                .coalesce(files)
                .write.partitionBy("date", "hour", "batch")
                .mode("append")
                .options(**_PARQUET)
                .parquet(self._folder)
            )

    @contextmanager
    def written_beside(self, facts: DataFrame, attempt: Attempt, *, files: int = 1) -> Iterator[None]:
        """Run `write` on another thread during the block. The block also waits for the write if it fails."""
        writing = self._beside.submit(self.write, facts, attempt, files=files)
        try:
            yield
        except BaseException:
            # Another attempt may begin after this block, and two attempts must not write at the same time.
            wait([writing])  # guard: archive.concurrent_write
            if (error := writing.exception()) is not None:
                _log.warning("the batch could not be archived either: %s", error)
            raise
        writing.result()  # guard: archive.failed_write

    def rows(self, facts: DataFrame, attempt: Attempt) -> DataFrame:
        at = F.when(F.col("problem").isNull(), F.col("at_ms")).otherwise(F.col("timestamp_ms"))
        moment = F.timestamp_millis(at)
        return facts.select(
            *ARCHIVED,
            *[name for name in OF_RECIPIENTS if name in facts.columns],
            _own_number(attempt.number).alias("attempt"),
            _own_number(round(attempt.counted_at.timestamp() * 1_000_000)).alias("counted_us"),
            # A date is formatted once per folder; a text would be formatted once per record.
            F.to_date(moment).alias("date"),
            F.lpad(F.hour(moment).cast("string"), 2, "0").alias("hour"),
            _own_number(attempt.number).alias("batch"),
        )

    def remove(self, batches: Iterable[int]) -> None:
        """Remove the files of uncounted batches."""
        with self._alone:
            for batch in batches:
                for folder in self._found(f"date=*/hour=*/{_BATCH}{batch}"):
                    self._delete(folder.path)

    def remove_all(self) -> None:
        self._delete(self._folder)

    def folders(
        self, connection: psycopg.Connection[Any], first: date | None = None, end: date | None = None
    ) -> list[str]:
        """Return the folders that together contain each counted record of the days [first, end) once, as the database
        lists them now.
        """
        committed = {batch for (batch,) in connection.execute(_COMMITTED)}
        replaced: dict[tuple[str, str], set[int]] = {}
        for day, hour, holds in connection.execute("select date::text, hour, holds from archive_compactions"):
            replaced.setdefault((day, hour), set()).update(holds)
        days = "date=*"
        if first is not None and end is not None:
            if first >= end:
                return []
            days = "{" + ",".join(f"date={first + timedelta(n)}" for n in range((end - first).days)) + "}"
        return [
            folder.path
            for folder in self._found(f"{days}/hour=*/{_BATCH}*")
            # guard: archive.uncounted_batch_is_not_read
            if folder.batch in committed and folder.batch not in replaced.get((folder.date, folder.hour), ())
        ]

    def remembers_since(self, connection: psycopg.Connection[Any], window_s: int) -> DataFrame:
        """Return, for each batch that was counted with a different redelivery window, the time since which ids were
        stored then.

        The columns are attempt and since_us.
        """
        rows = connection.execute(_REMEMBERS_SINCE, [window_s]).fetchall()
        return self._spark.createDataFrame(rows, "attempt long, since_us long")

    def read(self, paths: list[str]) -> DataFrame:
        """Return the rows of these folders with the columns of SCHEMA; a column that a file lacks is null."""
        return (
            (
                self._spark.read.option("basePath", self._folder)
                .option("mergeSchema", "true")
                .schema(SCHEMA)
                .parquet(*paths)
            )
            if paths
            else self._spark.createDataFrame([], SCHEMA)
        )

    def compact(
        self,
        connection: psycopg.Connection[Any],
        rows: Rows = lambda rows: rows,
        *,
        before: datetime,
        at_least: int = 2,
    ) -> int:
        """Rewrite each hour that ended before `before` and has at least `at_least` folders as one folder. Return the
        number of hours.

        Readers see the old folders until the new one is committed. An advisory lock permits one compaction at a time;
        the compaction waits for running recomputes, because it removes the old folders.

        Args:
            rows: Transforms the rows of `read` before they are written.
        """
        last = before.astimezone(UTC).strftime("%Y-%m-%d %H")
        with self._locked(connection):
            return self._compact_hours(
                connection,
                {
                    hour: paths
                    for hour, paths in self._hours(connection).items()
                    if " ".join(hour) < last and len(paths) >= at_least
                },
                rows,
            )

    def rewrite(self, connection: psycopg.Connection[Any], rows: Rows, wanted: Column) -> int:
        """Rewrite each hour that contains a row for which `wanted` is true as one folder, as `compact` does. Return the
        number of hours.
        """
        with self._locked(connection):
            hours = self._hours(connection)
            everything = [path for paths in hours.values() for path in paths]
            found = self.read(everything).where(wanted).select("date", "hour").distinct().collect()
            of = {(row["date"], row["hour"]) for row in found}
            return self._compact_hours(connection, {hour: paths for hour, paths in hours.items() if hour in of}, rows)

    @contextmanager
    def _locked(self, connection: psycopg.Connection[Any]) -> Iterator[None]:
        connection.execute("select pg_advisory_lock(%s)", [LOCK])
        try:
            yield
        finally:
            connection.execute("select pg_advisory_unlock(%s)", [LOCK])

    def _hours(self, connection: psycopg.Connection[Any]) -> dict[Hour, list[str]]:
        hours: dict[Hour, list[str]] = {}
        for path in self.folders(connection):
            folder = _folder(path)
            hours.setdefault((folder.date, folder.hour), []).append(path)
        return hours

    def _compact_hours(self, connection: psycopg.Connection[Any], hours: dict[Hour, list[str]], rows: Rows) -> int:
        for (day, hour), paths in hours.items():
            self._compact_hour(connection, day, hour, paths, rows)
        self._remove_replaced(connection)
        return len(hours)

    def _compact_hour(
        self, connection: psycopg.Connection[Any], day: str, hour: str, paths: list[str], rows: Rows
    ) -> None:
        row = connection.execute("select nextval('staging_attempt_numbers')").fetchone()
        number = int(row[0]) if row else 0
        target = f"{self._folder}/date={day}/hour={hour}/{_BATCH}{number}"
        # Write to the new folder directly: Spark's committer may remove all temporary files in its output folder, and
        # the stream's committer works in the parent folder.
        written = rows(self.read(paths)).drop("date", "hour", "batch")  # guard: archive.values_of_earlier_versions
        written.coalesce(1).write.options(**_PARQUET).parquet(target)
        with connection.transaction():
            connection.execute(_COMPACTED, {"number": number})
            connection.execute(
                "insert into archive_compactions (batch, date, hour, holds) values (%s, %s, %s, %s)",
                [number, day, hour, [_folder(path).batch for path in paths]],
            )
        _log.info("compacted %d folders of %s %s", len(paths), day, hour)

    def _remove_replaced(self, connection: psycopg.Connection[Any]) -> None:
        for day, hour, holds in connection.execute(
            "select date::text, hour, holds from archive_compactions where not removed"
        ).fetchall():
            for batch in holds:
                self._delete(f"{self._folder}/date={day}/hour={hour}/{_BATCH}{batch}")
        connection.execute("update archive_compactions set removed = true where not removed")

    # --- Hadoop's file systems ---

    @property
    def folder(self) -> str:
        return self._folder

    def is_empty(self) -> bool:
        """Return whether the folder has no records, counted or not."""
        return not list(self._files_at(self._folder).globStatus(self._path(f"{self._folder}/date=*")) or ())

    def mark(self) -> str | None:
        """Return the text that write_mark stored; None if there is none."""
        path = self._path(f"{self._folder}/{_MARK}")
        files = self._files_at(self._folder)
        if not files.exists(path):
            return None
        stream = files.open(path)
        try:
            return bytes(stream.readAllBytes()).decode().strip()
        finally:
            stream.close()

    def write_mark(self, text: str) -> None:
        """Store a text in the folder, in a file that Spark does not read as records."""
        stream = self._files_at(self._folder).create(self._path(f"{self._folder}/{_MARK}"), True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()

    def _found(self, pattern: str) -> Iterator[Folder]:
        for status in self._files_at(self._folder).globStatus(self._path(f"{self._folder}/{pattern}")) or ():
            yield _folder(status.getPath().toString())

    def _delete(self, path: str) -> None:
        self._files_at(path).delete(self._path(path), True)

    def _path(self, path: str) -> Any:
        # Use the full name: PySpark would look for each part of `jvm.org.apache…` as a class in every jar.
        made: Any = getattr(self._spark.sparkContext._jvm, "org.apache.hadoop.fs.Path")
        return made(path)

    def _files_at(self, path: str) -> Any:
        session: Any = self._spark._jsparkSession
        return self._path(path).getFileSystem(session.sessionState().newHadoopConf())


def _own_number(number: int) -> Column:
    """Return a number as an expression that Spark cannot fold into a constant.

    Spark would write the constant into its generated code, and so compile and cache that code for each batch again.
    """
    begin = F.spark_partition_id() * 0 + 1
    return F.substr(F.lit(str(number)), begin, F.lit(20)).cast("long")


def _folder(path: str) -> Folder:
    day, hour, batch = path.rstrip("/").split("/")[-3:]
    return Folder(path, day.removeprefix("date="), hour.removeprefix("hour="), int(batch.removeprefix(_BATCH)))


# The key of the advisory lock in Postgres: exclusive for a compaction, shared for recompute.
LOCK = 4_602_678_819

# The columns value and headers are null except in files of earlier versions.
SCHEMA = (
    "topic string, partition int, kafka_offset long, timestamp_ms long, value binary,"
    " headers array<struct<key: string, value: binary>>, source string, schema_id long, problem string,"
    " record_id string, send_id string, club_id long, type string, at_ms long, chunk_index int, chunk_count int,"
    " counts array<struct<channel: string, measure: string, reason: string, count_total: long>>,"
    " run binary, listed string, user_ids array<long>, result_index array<int>,"
    " attempt long, counted_us long, date string, hour string, batch long"
)

_COMMITTED = "select batch from archive_batches where committed_at is not null"

_REMEMBERS_SINCE = """
select batch, (extract(epoch from remembers_since) * 1000000)::bigint from archive_batches
where remembers_since <> counted_at - make_interval(secs => %s)
"""

_COMPACTED = """
insert into archive_batches (batch, counted_at, committed_at) values (%(number)s, now(), now())
"""
