"""Makes one row of the rows that several lanes have counted for one key.

The lane is part of the key of counts, so that lanes never wait for each other. Readers sum the rows of all lanes. Once
a bucket is complete, its rows are added to one row, that of all lanes, so that old buckets have one row for each key. A
lane adds late records to that row itself.

A row moves in one statement, which deletes and adds it, so no sum changes at any moment, whichever lanes are running.
If the job is killed before a bucket is folded, the bucket is folded by the next start.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import psycopg
from psycopg import sql

from masscomm.domain.grains import Grain, floor
from spark_metrics.common.database import STREAM
from spark_metrics.sql import read_sql

ALL_LANES = -1


@dataclass(frozen=True)
class LaneTable:
    """A table of sums by bucket and lane.

    Attributes:
        key: The columns of the primary key without the lane.
        sums: The columns with sums.
        step_s: The length of a bucket.
    """

    name: str
    key: Sequence[str]
    sums: Sequence[str]
    step_s: int

    def fold(self, connection: psycopg.Connection[Any], first: datetime | None, end: datetime) -> int:
        """Fold the buckets that begin in a span, and return the number of rows that became one row with others.

        Args:
            first: The beginning of the first bucket; None: that of all buckets.
        """
        span = {"first": first or "-infinity", "end": end}
        return connection.execute(read_sql("fold", **self._names()), span).rowcount

    def fold_keys(self, connection: psycopg.Connection[Any], keys: str) -> None:
        """Fold the rows whose keys are in a table, whether or not their buckets are complete. No lane may run."""
        connection.execute(read_sql("fold_keys", keys=keys, **self._names()))

    def _names(self) -> dict[str, str]:
        """Return the placeholders of the statements."""
        table, *columns = (sql.Identifier(name).as_string() for name in (self.name, *self.key, *self.sums))
        key, sums = columns[: len(self.key)], columns[len(self.key) :]
        return {
            "table": table,
            "key": ", ".join(key),
            "sums": ", ".join(sums),
            "of_table": ", ".join(f"{table}.{column}" for column in columns),
            "same": " and ".join(f"{table}.{column} = chosen.{column}" for column in key),
            "summed": ", ".join(f"sum({column})" for column in sums),
            "fits": " and ".join(f"abs(sum({column})) <= 9223372036854775807" for column in sums),
            "added": ", ".join(f"{column} = t.{column} + excluded.{column}" for column in sums),
        }


COUNTS = tuple(
    LaneTable(grain.table, ("bucket", "club_id", "type", "channel", "measure"), ("count_total",), grain.seconds)
    for grain in Grain
)
WEBHOOK_COUNTS = tuple(
    LaneTable(
        grain.webhook_table,
        ("bucket", "endpoint_id", "club_id", "type", "status"),
        ("count_total", "duration_ms_total"),
        grain.seconds,
    )
    for grain in Grain
)


def lane_of_bucket(step_s: int) -> str:
    """Return the SQL expression for the lane of a sum of the column `bucket` (sql/lane_tables.sql)."""
    return read_sql("lane_of_bucket", seconds=step_s).decode()  # guard: metrics.row_of_a_lane


class Folder:
    """Folds each bucket once it is complete.

    Args:
        tables: The tables that the stream maintains.
        grace: The time between the end of a bucket and its completeness.
    """

    def __init__(self, tables: Iterable[LaneTable], *, grace: timedelta) -> None:
        self._tables, self._grace = tuple(tables), grace
        self._before: datetime | None = None

    def fold(self, connection: psycopg.Connection[Any], watermark: datetime) -> None:
        """Fold the buckets that a new watermark completes. Call it before the watermark is stored, so that a start
        after a kill folds them.

        A lane that is running has read an earlier watermark, and may add a late record to a bucket that is folded
        already. So the minutes of an hour are folded again at its end, and the hours of a day at the end of the day.
        """
        if self._before is None:
            row = connection.execute("select watermark from stream_watermark where stream = %s", [STREAM]).fetchone()
            self._before = row[0] if row else None
        for table in self._tables:
            for first, end in self._spans(table, watermark - self._grace):
                table.fold(connection, first, end)
        self._before = watermark

    def _spans(self, table: LaneTable, complete: datetime) -> Iterator[tuple[datetime | None, datetime]]:
        """Yield the spans of a table that end with a bucket, or with one of the next grain."""
        longer = [grain.seconds for grain in Grain if grain.seconds > table.step_s]
        for step in (timedelta(seconds=each) for each in (table.step_s, *longer[:1])):
            first = None if self._before is None else floor(self._before - self._grace, step)
            end = floor(complete, step)
            if first is None or first < end:
                yield first, end
