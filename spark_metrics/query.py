"""Queries the archive: `python -m spark_metrics.query "select …" [--csv | --json] [--at 2026-11-21T09:30:00Z]`.

The query sees the archive as three tables: `counted` has the records that the metrics have counted, `records` each
record of the topics, and `uncounted` the positions that the metrics have redelivered or quarantined, with the reason.
Records are by default those of this moment, or of the snapshot at an earlier time (--at). Other statements, such as
`insert`, `call` and `set`, are rejected. The command is not a sandbox, because functions of Spark SQL
can read the environment of the process: only people who may have the job's settings may choose the query.

The settings are the environment variables of the job. The status is 0 after success, and 2 after an error.
"""

import argparse
import csv
import logging
import re
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import redirect_stdout
from datetime import datetime
from itertools import chain, islice
from typing import TextIO

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from masscomm.errors import Stop
from spark_metrics.archive.mark import check_table
from spark_metrics.archive.table import ArchiveTable
from spark_metrics.archive.uncounted import UncountedTable, counted_records
from spark_metrics.common.command import exit_status_with_spark
from spark_metrics.common.database import connect
from spark_metrics.common.session import reason_of
from spark_metrics.common.settings import Settings
from spark_metrics.common.span import instant

_EVERY_ROW = 2**31 - 1


def query(
    settings: Settings, spark: SparkSession, text: str, out: TextIO, *, at: datetime | None, form: str = "table"
) -> None:
    """Write the result of a query to `out`: as a table, as csv, or as json, an object a line.

    Raises:
        Stop: The query is wrong, the archive is not this database's, or it has no snapshot before `at`.
    """
    table, uncounted = ArchiveTable(spark, settings), UncountedTable(spark, settings)
    with connect(settings.database_url, "masscomm query") as connection:
        check_table(connection, table)
    if not uncounted.exists():
        raise Stop("the archive's table `uncounted` does not exist yet: the job creates it once it has counted records")
    # A reference such as ${env:NAME} in a query would be replaced by the setting.
    spark.conf.set("spark.sql.variable.substitute", "false")
    try:
        table.records(at=at).createOrReplaceTempView("records")
        counted = spark.sql(counted_records("records", uncounted.name))  # guard: archive.uncounted_positions
        counted.createOrReplaceTempView("counted")
        uncounted.positions().createOrReplaceTempView("uncounted")
        # As a subquery, because no statement that changes the archive or prints settings may be one.
        # guard: archive.queries_only
        found = spark.sql(f"select * from (\n{text.strip().removesuffix(';')}\n)")  # noqa: S608
        if form == "table":
            with redirect_stdout(out):
                found.show(_EVERY_ROW, truncate=False)
            return
        if form == "json":
            if repeated := sorted(name for name, number in Counter(found.columns).items() if number > 1):
                raise Stop(f"several columns are named {', '.join(repeated)}: a JSON object needs other names")
            row = F.to_json(F.struct("*"), {"ignoreNullFields": "false"})
            out.writelines(f"{line}\n" for (line,) in found.select(row).toLocalIterator())
            return
        # Two columns may have the same name.
        numbered = [str(number) for number in range(len(found.columns))]
        texts = found.toDF(*numbered).select([F.col(name).cast("string") for name in numbered]).toLocalIterator()
        # Most wrong queries fail before their first row, and then nothing is written.
        first = list(islice(texts, 1))
        csv.writer(out, lineterminator="\n").writerows(chain([found.columns], first, texts))
    except (PySparkException, Py4JJavaError) as error:
        # The text begins in the second line of the statement.
        reason = re.sub(r"\bline (\d+)(?=,? pos)", lambda found: f"line {int(found[1]) - 1}", reason_of(error))
        raise Stop(f"the query failed: {reason}") from error


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, and return the exit status of the process."""
    parser = argparse.ArgumentParser(prog="spark_metrics.query", description="Query the archive.")
    parser.add_argument("query", help="a query of Spark SQL on `counted`, `records` and `uncounted`")
    forms = parser.add_mutually_exclusive_group()
    for form, words in (("csv", "CSV"), ("json", "a JSON object a line")):
        help_ = f"print {words} instead of a table"
        forms.add_argument(f"--{form}", dest="form", action="store_const", const=form, default="table", help=help_)
    parser.add_argument("--at", type=instant, help="read the archive as it was then (RFC 3339, or a UTC day)")
    chosen = parser.parse_args(arguments)

    def work(settings: Settings, spark: SparkSession) -> int:
        # Spark logs the errors of a query, too, with stack traces.
        spark.sparkContext.setLogLevel("OFF")
        PySparkLogger.getLogger("SQLQueryContextLogger").disabled = True
        query(settings, spark, chosen.query, sys.stdout, at=chosen.at, form=chosen.form)
        return 0

    return exit_status_with_spark(work, level=logging.WARNING)


if __name__ == "__main__":
    sys.exit(main())
