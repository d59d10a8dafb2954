"""Maintains the archive's tables: `python -m spark_metrics.maintenance [--keep-days 400]`.

Iceberg's procedures merge the small files of past appends, remove snapshots older than --snapshot-days with the files
that only they read, and remove files that no snapshot knows. --keep-days deletes the hours before that many whole days;
without it, all are kept. Run the command once a day. It may run concurrently with the stream and may be killed: each
step is one commit of a table, and the next run continues.

The settings are the environment variables of the job. The status is 0 after success, and 2 after an error.
"""

import argparse
import logging
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from pyspark.sql import SparkSession

from spark_metrics.archive.mark import check_table
from spark_metrics.archive.table import ArchiveTable
from spark_metrics.archive.uncounted import UncountedTable
from spark_metrics.common.command import exit_status_with_spark
from spark_metrics.common.database import connect
from spark_metrics.common.settings import Settings

_log = logging.getLogger("spark_metrics.maintenance")

# An hour is rewritten after it, so that no two commits rewrite the files of late records again and again.
_HOURS_ALONE = timedelta(hours=2)


def maintain(
    table: ArchiveTable | UncountedTable, now: datetime, *, snapshots: timedelta, keep: timedelta | None = None
) -> None:
    """Delete old hours, merge small files, and remove old snapshots and unknown files. Raises Spark's errors.

    Args:
        snapshots: The age up to which a snapshot can be read (time travel).
        keep: The age up to which records are kept, in whole days; None: all are kept.
    """
    if keep is not None:
        before = (now - keep).astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        table.delete_before(before)
        _log.info("deleted the records before %s", before.isoformat())
    merged = table.rewrite(now - _HOURS_ALONE)
    _log.info("merged %d files", merged)
    table.expire(now - snapshots)
    # Files of an append that is not committed yet are unknown as well: Iceberg keeps those of the last three days.
    removed = table.remove_orphans()
    _log.info("removed the snapshots before %s, and %d unknown files", (now - snapshots).isoformat(), removed)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, and return the exit status of the process."""
    parser = argparse.ArgumentParser(prog="spark_metrics.maintenance", description="Maintain the archive's table.")
    parser.add_argument("--keep-days", type=int, help="whole days to keep in addition to today; without it, all")
    parser.add_argument("--snapshot-days", type=int, default=3, help="days of time travel; 3")
    chosen = parser.parse_args(arguments)
    if chosen.snapshot_days < 1 or (chosen.keep_days is not None and chosen.keep_days < 1):
        parser.error("days must be whole numbers above 0")

    def work(settings: Settings, spark: SparkSession) -> int:
        table = ArchiveTable(spark, settings)
        with connect(settings.database_url, "spark_metrics maintenance") as connection:
            check_table(connection, table)
        keep = None if chosen.keep_days is None else timedelta(days=chosen.keep_days)
        uncounted = UncountedTable(spark, settings)
        for each in (table, uncounted) if uncounted.exists() else (table,):
            maintain(each, datetime.now(UTC), snapshots=timedelta(days=chosen.snapshot_days), keep=keep)
        return 0

    return exit_status_with_spark(work, daily_run="maintenance")


if __name__ == "__main__":
    sys.exit(main())
