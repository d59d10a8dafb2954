"""The archive: every record once, as Parquet, by date and hour of the event.

    <folder>/date=2026-11-21/hour=09/batch=<attempt>/part-….parquet

A row holds the columns of a record that counting needs: never its value or headers, so no text, address or one-time
password. The users of outcomes are there only while the log of recipients is on, which is counted from them. A record
that cannot be counted lies under the time it was produced, with its position and problem. Earlier versions wrote value
and headers, too: spark_metrics.archived_records reads both forms, and rewriting a folder removes the bytes.

`batch` is the number of the attempt that wrote it. The transaction that counts a batch says so in archive_batches;
folders of attempts that never were counted are removed before the next one is written, and nobody reads them meanwhile.
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

from spark_metrics.sink import Attempt

_log = logging.getLogger(__name__)

PLACE = ("topic", "partition", "kafka_offset")
ARCHIVED = (
    *PLACE,
    *("timestamp_ms", "source", "schema_id", "problem", "record_id", "send_id", "club_id", "type", "at_ms"),
    *("chunk_index", "chunk_count", "counts", "run", "listed"),
)
# Of facts made for the log of recipients.
OF_RECIPIENTS = ("user_ids", "result_index")
type Rows = Callable[[DataFrame], DataFrame]
# A date and an hour of it (UTC), as folders spell them.
type Hour = tuple[str, str]

_BATCH = "batch="
# Half the size of snappy's files, in the same time. What is kept in memory of a file until it is written: Parquet's own
# 128 MB would be a quarter of a small driver.
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
    """folder: a path or URL that Hadoop's file systems take (s3://… in AWS).

    Errors: those of Spark and, where a connection is asked for, of psycopg.
    """

    def __init__(self, spark: SparkSession, folder: str) -> None:
        self._spark = spark
        self._folder = folder.rstrip("/")
        # Who commits files tidies up in the whole folder.
        self._alone = threading.Lock()  # guard: archive.one_writer
        # Its thread begins with the first batch.
        self._beside = ThreadPoolExecutor(1, "archive")

    def write(self, facts: DataFrame, attempt: Attempt, *, files: int = 1) -> None:
        """Write a batch's records; they are not read before the attempt is committed. files: at most so many an hour,
        each by a task of its own."""
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
        """`write`, on a thread of its own, while the caller does something else; done at the end, however it ends."""
        writing = self._beside.submit(self.write, facts, attempt, files=files)
        try:
            yield
        except BaseException:
            # Another attempt may begin after this, and nothing of this one may be written then.
            wait([writing])  # guard: archive.concurrent_write
            if (error := writing.exception()) is not None:
                _log.warning("nor could the batch be archived: %s", error)
            raise
        writing.result()  # guard: archive.failed_write

    def rows(self, facts: DataFrame, attempt: Attempt) -> DataFrame:
        """A batch's records as they are written."""
        at = F.when(F.col("problem").isNull(), F.col("at_ms")).otherwise(F.col("timestamp_ms"))
        moment = F.timestamp_millis(at)
        return facts.select(
            *ARCHIVED,
            *[name for name in OF_RECIPIENTS if name in facts.columns],
            _own_number(attempt.number).alias("attempt"),
            _own_number(round(attempt.counted_at.timestamp() * 1_000_000)).alias("counted_us"),
            # A date is spelt out once a folder, where a text would be once a record.
            F.to_date(moment).alias("date"),
            F.lpad(F.hour(moment).cast("string"), 2, "0").alias("hour"),
            _own_number(attempt.number).alias("batch"),
        )

    def remove(self, batches: Iterable[int]) -> None:
        """Remove the files of batches that are not counted."""
        with self._alone:
            for batch in batches:
                for folder in self._found(f"date=*/hour=*/{_BATCH}{batch}"):
                    self._delete(folder.path)

    def remove_all(self) -> None:
        """Remove the folder with all that is in it."""
        self._delete(self._folder)

    def folders(
        self, connection: psycopg.Connection[Any], first: date | None = None, end: date | None = None
    ) -> list[str]:
        """The paths that hold each counted record of the days [first, end) once, as the connection sees them now."""
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
        """Since when ids were remembered as a batch was counted, of the batches where it is not a window before that.

        Columns: attempt, since_us.
        """
        rows = connection.execute(_REMEMBERS_SINCE, [window_s]).fetchall()
        return self._spark.createDataFrame(rows, "attempt long, since_us long")

    def read(self, paths: list[str]) -> DataFrame:
        """The rows of these paths, with the columns of SCHEMA; one that its file lacks is null."""
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
        """Write each hour before a time that lies in `at_least` folders or more as one; how many hours.

        rows: what is written of the rows that `read` gives.

        Readers see the old folders until the new one is committed, then the new one. One compaction runs at a time, and
        a reader that has begun (recompute) is waited for, since the old folders are then removed.
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
        """Write each hour that holds a wanted row as one folder, as `compact` does; how many hours."""
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
        # A folder of its own: a committer of the stream must not tidy up after this one.
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
        """Where it is."""
        return self._folder

    def is_empty(self) -> bool:
        """Whether it holds no records, counted or not."""
        return not list(self._files_at(self._folder).globStatus(self._path(f"{self._folder}/date=*")) or ())

    def mark(self) -> str | None:
        """What write_mark wrote."""
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
        """Keep a text beside the records, in a file that Spark does not take for one of them."""
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
        # By its whole name: each part of `jvm.org.apache…` would be looked for as a class in every jar.
        made: Any = getattr(self._spark.sparkContext._jvm, "org.apache.hadoop.fs.Path")
        return made(path)

    def _files_at(self, path: str) -> Any:
        session: Any = self._spark._jsparkSession
        return self._path(path).getFileSystem(session.sessionState().newHadoopConf())


def _own_number(number: int) -> Column:
    """A number of this batch alone, as a text that Spark cannot take for a constant: it would write a number into the
    code it compiles, and so compile, keep and warm up that code for every batch anew."""
    begin = F.spark_partition_id() * 0 + 1
    return F.substr(F.lit(str(number)), begin, F.lit(20)).cast("long")


def _folder(path: str) -> Folder:
    day, hour, batch = path.rstrip("/").split("/")[-3:]
    return Folder(path, day.removeprefix("date="), hour.removeprefix("hour="), int(batch.removeprefix(_BATCH)))


# A lock of Postgres: held by a compaction, and shared by those who read for long.
LOCK = 4_602_678_819

# value and headers: null but in files of earlier versions.
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
