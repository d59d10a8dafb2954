"""Queries the archive: `python -m spark_metrics.query "select …" [--csv] [--at 2026-11-21T09:30:00Z]`.

The query sees the archive as the table `records`, by default of this moment, or of the snapshot at an earlier time
(--at). It also sees `redelivered` and `quarantined`, the positions that are not counted, of this moment. The settings
are the environment variables of the job. The status is 0 after success, and 2 after an error.
"""

import argparse
import csv
import logging
import sys
from collections.abc import Sequence
from datetime import datetime
from typing import TextIO

import psycopg
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from masscomm.errors import MasscommError, Stop
from masscomm.untrusted import mask_root_logger
from spark_metrics.archive_mark import check_table
from spark_metrics.archive_table import ArchiveTable, reason_of, spark_errors
from spark_metrics.database import connect
from spark_metrics.session import spark_session
from spark_metrics.settings import Settings, settings_from
from spark_metrics.span import instant

_log = logging.getLogger("spark_metrics.query")

_POSITIONS = {"redelivered": "redelivered", "quarantined": "quarantine"}


def query(
    settings: Settings, spark: SparkSession, text: str, out: TextIO, *, at: datetime | None, as_csv: bool
) -> None:
    """Write the result of a query to `out`, as a table or as CSV.

    Raises:
        Stop: The query is wrong, the archive is not this database's, or it has no snapshot before `at`.
    """
    table = ArchiveTable(spark, settings)
    with connect(settings.database_url, "masscomm query") as connection:
        check_table(connection, table)
        for name, stored in _POSITIONS.items():
            rows = connection.execute(f"select topic, partition, kafka_offset from {stored}".encode()).fetchall()  # noqa: S608
            schema = "topic string, partition int, kafka_offset long"
            spark.createDataFrame(rows, schema).createOrReplaceTempView(name)
    table.records(None if at is None else table.snapshot_at(at)).createOrReplaceTempView("records")
    try:
        found = spark.sql(text)
        names, rows = found.columns, [list(map(_text, row)) for row in found.collect()]
    except PySparkException as error:
        raise Stop(f"the query failed: {reason_of(error)}") from error
    if as_csv:
        csv.writer(out, lineterminator="\n").writerows([names, *rows])
        return
    widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
    for line in [names, ["-" * width for width in widths], *rows]:
        out.write("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() + "\n")


def _text(value: object) -> str:
    if value is None:
        return ""
    return value.isoformat(sep=" ") if isinstance(value, datetime) else str(value)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, and return the exit status of the process."""
    parser = argparse.ArgumentParser(prog="spark_metrics.query", description="Query the archive.")
    parser.add_argument("query", help="a query of Spark SQL on the table `records`")
    parser.add_argument("--csv", action="store_true", help="print CSV instead of a table")
    parser.add_argument("--at", type=instant, help="read the archive as it was then (RFC 3339, or a UTC day)")
    chosen = parser.parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    mask_root_logger()
    try:
        settings = settings_from()
        spark = spark_session(settings)
        try:
            with spark_errors():
                query(settings, spark, chosen.query, sys.stdout, at=chosen.at, as_csv=chosen.csv)
        finally:
            spark.stop()
    except (MasscommError, psycopg.OperationalError) as error:
        _log.error("%s", error)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
