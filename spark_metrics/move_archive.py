"""Moves the archive of an earlier version into the Iceberg table: `python -m spark_metrics.move_archive`. Run it once
after an upgrade, while the topics still have the records since then; the job may run.

Earlier versions wrote each batch as Parquet files, <folder>/date=…/hour=…/batch=<number>/, with the numbers of the
counted batches in the table archive_batches. Files before the column `run` contain whole records (value and headers)
without the columns that are computed from them, and are decoded again. Earlier versions did not store which records
were redelivered: their positions are computed by the rule of these versions, and stored in `redelivered`.

The records are appended in one commit, so an interrupted run can be repeated. The last step deletes the files.

The settings are the environment variables of the job. The status is 0 after success, also if there is nothing to move,
and 2 after an error.
"""

import logging
import sys
from typing import Any

import psycopg
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from masscomm.errors import MasscommError, Stop
from masscomm.untrusted import mask_root_logger
from spark_metrics.archive_mark import database_mark, in_earlier_form
from spark_metrics.archive_table import ARCHIVED, OF_RECIPIENTS, PLACE, Appended, ArchiveTable, rows_of, spark_errors
from spark_metrics.database import connect
from spark_metrics.earlier_files import earlier_files
from spark_metrics.session import spark_session
from spark_metrics.settings import Settings, settings_from
from spark_metrics.topic_check import WritersOf, decoded_again, writers_in

_log = logging.getLogger("spark_metrics.move_archive")

# The columns value and headers are null except in files before the column `run`.
_SCHEMA = (
    "topic string, partition int, kafka_offset long, timestamp_ms long, value binary,"
    " headers array<struct<key: string, value: binary>>, source string, schema_id long, problem string,"
    " record_id string, send_id string, club_id long, type string, at_ms long, chunk_index int, chunk_count int,"
    " counts array<struct<channel: string, measure: string, reason: string, count_total: long>>,"
    " run binary, listed string, labels string, user_ids array<long>, result_index array<int>,"
    " attempt long, counted_us long, date string, hour string, batch long"
)


class Move:
    def __init__(self, settings: Settings, spark: SparkSession, writers_of: WritersOf) -> None:
        self._settings, self._spark, self._writers_of = settings, spark, writers_of
        self.table = ArchiveTable(spark, settings)
        self._folder = settings.archive_dir.rstrip("/")
        self._files = earlier_files(self._folder)

    def run(self) -> int:
        """Move the archive, and return the number of records that were appended.

        Raises:
            Stop: The files are the archive of another database, or the registry lacks a schema of an archived record.
        """
        with connect(self._settings.database_url, "masscomm move_archive") as connection:
            if not in_earlier_form(connection):
                return 0
            known, _ = database_mark(connection)
            found = self._files.mark()
            if known is None or found != known:
                raise Stop(f"{self._folder} is the archive {found}, and this database's is {known}.")
            self.table.create_empty(known)
            end = self.table.appended()
            moved = 0 if end.snapshot is not None else self._append(connection, end)
            # guard: archive.moved_before_deleted
            if self.table.appended().snapshot is None:
                raise Stop("no record was appended to the table: the files are kept")
            self._files.delete()
            # The next provisioning drops the empty tables, which belong to another role.
            connection.execute("delete from archive_compactions")
            connection.execute("delete from archive_batches")
            return moved

    def _append(self, connection: psycopg.Connection[Any], end: Appended) -> int:
        archived = self._read(self._folders(connection))
        rows = archived_facts(archived, self._writers_of).persist()
        try:
            remembered = self._spark.createDataFrame(
                connection.execute(_REMEMBERS_SINCE, [self._settings.redelivery_window_s]).fetchall(),
                "attempt long, since_us long",
            )
            refused = redelivered(rows, self._settings.redelivery_window_s, remembered)
            with connection.transaction(), connection.cursor() as cursor:
                cursor.executemany(_REDELIVERED, map(tuple, refused.toLocalIterator()))
            ends = rows.groupBy("topic", "partition").agg(F.max("kafka_offset") + 1).collect()
            self.table.append(rows_of(rows), end, {(row[0], row[1]): row[2] for row in ends})
            return rows.count()
        finally:
            rows.unpersist()

    def _folders(self, connection: psycopg.Connection[Any]) -> list[str]:
        """Return the folders that together contain each counted record once."""
        committed = {
            n for (n,) in connection.execute("select batch from archive_batches where committed_at is not null")
        }
        replaced = {
            (day, hour, batch)
            for day, hour, holds in connection.execute("select date::text, hour, holds from archive_compactions")
            for batch in holds
        }
        found = []
        for path in self._files.batches():
            day, hour, batch = (part.partition("=")[2] for part in path.split("/")[-3:])
            # guard: archive.uncounted_batch_is_not_read
            if int(batch) in committed and (day, hour, int(batch)) not in replaced:
                found.append(path)
        return found

    def _read(self, paths: list[str]) -> DataFrame:
        if not paths:
            return self._spark.createDataFrame([], _SCHEMA)
        options = {"basePath": self._folder, "mergeSchema": "true"}
        return self._spark.read.options(**options).schema(_SCHEMA).parquet(*paths)


def archived_facts(archived: DataFrame, writers_of: WritersOf) -> DataFrame:
    """Return the rows of Parquet files with the columns of facts and of their batch; rows that have a value are
    decoded.
    """
    whole = F.col("value").isNotNull() & F.col("problem").isNull()
    columns = (*ARCHIVED, *OF_RECIPIENTS, "attempt", "counted_us")
    reduced = archived.where(~whole).select(*columns)
    ids = archived.where(whole).select("source", "schema_id").distinct().collect()
    if not ids:
        return reduced
    old = archived.where(whole)
    found = decoded_again(old, writers_of([(row["source"], row["schema_id"]) for row in ids]))
    return reduced.unionByName(old.select(*PLACE, "attempt", "counted_us").join(found, list(PLACE)).select(*columns))


def redelivered(archived: DataFrame, window_s: int, remembered: DataFrame) -> DataFrame:
    """Return the redelivered records (topic, partition, kafka_offset, source, record_id, refused_us), by the rule of
    earlier versions.

    A record is counted if no record with its id was counted within the redelivery window before it, in the order of
    batches and positions. A redelivery does not begin a new window.

    Args:
        remembered: (attempt, since_us) of batches that were counted with another window.
    """
    archived = archived.join(F.broadcast(remembered), "attempt", "left").withColumn(
        "since_us",
        F.coalesce("since_us", F.col("counted_us") - window_s * 1_000_000),  # guard: metrics.remembered_window
    )
    place = F.struct("attempt", *PLACE, "counted_us", "since_us")
    refused_place = (*PLACE, "counted_us")
    empty = F.array().cast("array<struct<topic: string, partition: int, kafka_offset: long, counted_us: long>>")
    state = F.struct(F.lit(None).cast("long").alias("counted_us"), empty.alias("refused"))

    def follow(so_far: Column, here: Column) -> Column:
        again = F.coalesce(so_far["counted_us"] >= here["since_us"], F.lit(False))
        refused = F.array(F.struct(*[here[name].alias(name) for name in refused_place]))
        return F.struct(
            F.when(again, so_far["counted_us"]).otherwise(here["counted_us"]).alias("counted_us"),
            F.when(again, F.concat(so_far["refused"], refused)).otherwise(so_far["refused"]).alias("refused"),
        )

    return (
        archived.where(F.col("problem").isNull())
        .groupBy("source", "record_id")
        .agg(F.array_sort(F.collect_list(place)).alias("places"))
        .where(F.size("places") > 1)
        .select("source", "record_id", F.explode(F.aggregate("places", state, follow)["refused"]).alias("r"))
        .select(*[f"r.{name}" for name in PLACE], "source", "record_id", F.col("r.counted_us").alias("refused_us"))
    )


_REMEMBERS_SINCE = """
select batch, (extract(epoch from remembers_since) * 1000000)::bigint from archive_batches
where remembers_since <> counted_at - make_interval(secs => %s)
"""

_REDELIVERED = """
insert into redelivered (topic, partition, kafka_offset, source, record_id, refused_at)
values (%s, %s, %s, %s, %s, to_timestamp(%s / 1e6)) on conflict do nothing
"""


def main() -> int:
    """Run the command, and return the exit status of the process."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    mask_root_logger()
    logging.getLogger("py4j").setLevel(logging.WARNING)
    try:
        settings = settings_from()
        spark = spark_session(settings)
        try:
            with spark_errors():
                moved = Move(settings, spark, writers_in(settings.registry_url, spark)).run()
        finally:
            spark.stop()
    except (MasscommError, psycopg.OperationalError) as error:
        _log.error("%s", error)
        return 2
    print(f"{moved} records are now in the archive's table")  # noqa: T201 - the command's answer
    return 0


if __name__ == "__main__":
    sys.exit(main())
