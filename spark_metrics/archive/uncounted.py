"""The positions of the topics that are not counted, as a table of the archive.

A redelivered record has a position of its own in the archive, but is counted once, and only the metrics database
decides which position that is. This table has its decisions, so that a query of the archive counts what the metrics
have counted. A row has the position, its reason (`redelivered`, or the reason of the quarantine), and as `at` the time
of the decision. Its marks (spark_metrics.archive.iceberg) are the offsets of the stream: below them, the table is
complete.

A row is written once and stays true, so it fits the archive at any earlier time as well.
"""

from datetime import datetime
from typing import Any

import psycopg
from psycopg.types.json import Jsonb
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_metrics.archive.iceberg import FIRST, MarkedTable, Offsets, literal
from spark_metrics.common.settings import Settings
from spark_metrics.common.span import AHEAD, CLOCKS
from spark_metrics.sql import read_sql

_COLUMNS = "at timestamp, topic string, partition int, kafka_offset bigint, reason string"


class UncountedTable(MarkedTable):
    """Every method may raise Spark's errors."""

    def __init__(self, spark: SparkSession, settings: Settings) -> None:
        super().__init__(spark, settings, "uncounted", _COLUMNS, partition="days(at)")
        self._known: Offsets = {}

    def continue_from(self, connection: psycopg.Connection[Any]) -> int:
        """Append the positions that the database has decided on since the last call, and return their number.

        Raises:
            OtherWriter: Another writer has appended them.
        """
        merged = connection.execute("select topic, partition, next_offset from stream_offsets").fetchall()
        end = {(topic, partition): offset for topic, partition, offset in merged}
        if end == self._known:
            return 0
        self.make()
        before = self.appended()
        # Below the offsets of the stream, no position is added any more: one snapshot for both queries is not needed.
        rows = connection.execute(read_sql("uncounted_since"), {"spans": Jsonb(_spans(before.offsets, end))}).fetchall()
        self.append(self._spark.createDataFrame(rows, _COLUMNS), before, end)
        self._known = end
        return len(rows)

    def positions(self) -> DataFrame:
        """Return the positions with the time (`at`) and the reason of each decision."""
        return self._spark.table(self.name).where(F.col("at") >= F.lit(FIRST))

    def delete_before(self, moment: datetime) -> None:
        """Delete the positions of records that the archive has deleted because they are older than `moment`."""
        # A record's time may be later than the decision, by as much as timestamps and clocks may be ahead.
        before = moment - AHEAD - CLOCKS
        self._spark.sql(f"delete from {self.name} where at >= {literal(FIRST)} and at < {literal(before)}")  # noqa: S608


def _spans(begin: Offsets, end: Offsets) -> dict[str, dict[str, list[int]]]:
    spans: dict[str, dict[str, list[int]]] = {}
    for (topic, partition), until in end.items():
        spans.setdefault(topic, {})[str(partition)] = [begin.get((topic, partition), 0), until]
    return spans


def counted_records(records: str, uncounted: str) -> str:
    """Return the query of the archived records that are counted.

    Args:
        records: The name of the archive's table or view in Spark's SQL.
        uncounted: The name of this module's table.
    """
    return read_sql("counted_records", records=records, uncounted=uncounted).decode()
