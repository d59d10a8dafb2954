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

import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from masscomm.aws import endpoint
from masscomm.errors import Stop
from spark_metrics.archive.iceberg import PLACE
from spark_metrics.archive.mark import database_mark, in_earlier_form
from spark_metrics.archive.table import ARCHIVED, COLUMNS, OF_RECIPIENTS, ArchiveTable, rows_of
from spark_metrics.archive.topic_check import archived_writers, decoded_again
from spark_metrics.common.command import exit_status_with_spark
from spark_metrics.common.database import connect
from spark_metrics.common.settings import Settings

_MARK = "_archive_id"
_DAYS = "date="
# `value` and `headers` are null except in files before the column `run`.
_SCHEMA = f"""
{COLUMNS}, value binary, headers array<struct<key: string, value: binary>>, attempt long, counted_us long, date string,
hour string, batch long
"""


def move(settings: Settings, spark: SparkSession) -> int:
    """Move the archive, and return the number of records that were appended.

    Raises:
        Stop: The files are the archive of another database, or the registry lacks a schema of an archived record.
    """
    table, folder = ArchiveTable(spark, settings), settings.archive_dir.rstrip("/")
    with connect(settings.database_url, "masscomm move_archive") as connection:
        if not in_earlier_form(connection):
            return 0
        known, _ = database_mark(connection)
        found = mark_of(folder)
        if known is None or found != known:
            raise Stop(f"{folder} is the archive {found}, and this database's is {known}.")
        table.create_empty(known)
        end = table.appended()
        moved = 0
        if end.snapshot is None:
            rows = archived_facts(_counted(connection, spark, folder), settings).persist()
            remembered = dict(connection.execute(_REMEMBERS_SINCE, [settings.redelivery_window_s]).fetchall())
            with connection.transaction(), connection.cursor() as cursor:
                cursor.executemany(_REDELIVERED, redelivered(rows, settings.redelivery_window_s, remembered))
            ends = rows.groupBy("topic", "partition").agg(F.max("kafka_offset") + 1).collect()
            table.append(rows_of(rows), end, {(row[0], row[1]): row[2] for row in ends})
            moved = rows.count()
        # guard: archive.moved_before_deleted
        if table.appended().snapshot is None:
            raise Stop("no record was appended to the table: the files are kept")
        delete_batches(folder)
        # The next provisioning drops the empty tables, which belong to another role.
        connection.execute("delete from archive_compactions")
        connection.execute("delete from archive_batches")
        return moved


def _counted(connection: psycopg.Connection[Any], spark: SparkSession, folder: str) -> DataFrame:
    """Return the rows of the batches that together contain each counted record once."""
    committed = spark.createDataFrame(connection.execute(_COMMITTED).fetchall(), "batch long")
    compacted = connection.execute(_REPLACED).fetchall()
    replaced = spark.createDataFrame(compacted, "date string, hour string, batch long")
    rows = spark.read.schema(_SCHEMA).option("basePath", folder).parquet(f"{folder}/date=*/hour=*/batch=*")
    # guard: archive.uncounted_batch_is_not_read
    rows = rows.join(F.broadcast(committed), "batch", "left_semi")
    return rows.join(F.broadcast(replaced), ["date", "hour", "batch"], "left_anti")


def archived_facts(archived: DataFrame, settings: Settings) -> DataFrame:
    """Return the rows of Parquet files with the columns of facts and of their batch; rows that have a value are
    decoded.
    """
    whole = F.col("value").isNotNull() & F.col("problem").isNull()
    columns = (*ARCHIVED, *OF_RECIPIENTS, "attempt", "counted_us")
    old = archived.where(whole)
    found = decoded_again(old, archived_writers(old, settings)).join(old.select(*PLACE, *columns[-2:]), list(PLACE))
    return archived.where(~whole).select(*columns).unionByName(found.select(*columns))


def redelivered(archived: DataFrame, window_s: int, remembered: Mapping[int, int]) -> Iterator[tuple[Any, ...]]:
    """Yield the redelivered records (topic, partition, kafka_offset, source, record_id, refused_us), by the rule of
    earlier versions.

    A record is counted if no record with its id was counted within the redelivery window before it, in the order of
    batches and positions. A redelivery does not begin a new window.

    Args:
        remembered: {attempt: since_us} of batches that were counted with another window.
    """
    repeated = (
        archived.where(F.col("problem").isNull())
        .groupBy("source", "record_id")
        .agg(F.array_sort(F.collect_list(F.struct("attempt", *PLACE, "counted_us"))).alias("places"))
        .where(F.size("places") > 1)
    )
    for source, record_id, places in repeated.toLocalIterator():
        counted = None
        for attempt, *place, counted_us in places:
            # guard: metrics.remembered_window
            since_us = remembered.get(attempt, counted_us - window_s * 1_000_000)
            if counted is None or counted < since_us:
                counted = counted_us
            else:
                yield *place, source, record_id, counted_us


def mark_of(archive: str) -> str | None:
    """Return the archive's mark; None if it has none."""
    if archive.startswith("s3://"):
        found = [each.get()["Body"].read() for each in _objects(archive, _MARK)]
    else:
        found = [path.read_bytes() for path in Path(archive).glob(_MARK)]
    return found[0].decode().strip() if found else None


def delete_batches(archive: str) -> None:
    """Delete the files of all batches. Raises OSError if a file cannot be deleted."""
    if not archive.startswith("s3://"):
        for day in Path(archive).glob(f"{_DAYS}*"):
            shutil.rmtree(day)
        return
    failed = [error for answer in _objects(archive, _DAYS).delete() for error in answer.get("Errors", ())]
    if failed:
        raise OSError(f"{len(failed)} files cannot be deleted; the first: {failed[0]}")


def _objects(archive: str, beginning: str) -> Any:
    """Return the objects in S3 whose names in the archive begin so."""
    import boto3

    parts = urlsplit(archive)
    session: Any = boto3.Session(region_name=endpoint.region())
    prefix = f"{parts.path.strip('/')}/{beginning}".removeprefix("/")
    return session.resource("s3").Bucket(parts.netloc).objects.filter(Prefix=prefix)


_COMMITTED = "select batch from archive_batches where committed_at is not null"
_REPLACED = "select date::text, hour, unnest(holds) from archive_compactions"
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

    def work(settings: Settings, spark: SparkSession) -> int:
        moved = move(settings, spark)
        print(f"{moved} records are now in the archive's table")  # noqa: T201 - the command's answer
        return 0

    return exit_status_with_spark(work)


if __name__ == "__main__":
    sys.exit(main())
