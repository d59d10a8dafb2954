"""The archive: an Apache Iceberg table with a row for each record of the topics.

A row has the record's position and the columns that counting needs, never its value or headers, so the table contains
no message text, address or one-time password. It contains the users of outcomes only while the log of recipients is
enabled. The table is partitioned by the hour of `at`: the event's time, or the time of production if the record cannot
be counted. Each position is stored once (spark_metrics.archive.iceberg).
"""

from datetime import UTC, datetime, timedelta

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from masscomm.domain.limits import END_OF_TIME_MS
from spark_metrics.archive.iceberg import FIRST, PLACE, MarkedTable, Offsets, literal
from spark_metrics.common.settings import Settings

_OF_EVERY_RECORD = (*PLACE, "timestamp_ms", "source", "schema_id", "problem")
ARCHIVED = (
    *_OF_EVERY_RECORD,
    *("record_id", "send_id", "club_id", "type", "at_ms", "chunk_index", "chunk_count", "counts", "run", "listed"),
    *("labels", "due_ms"),
)
# The columns that only the log of recipients needs.
OF_RECIPIENTS = ("user_ids", "result_index")

_ARCHIVE_ID = "masscomm.archive-id"
_KEPT_SINCE = "masscomm.kept-since"

COLUMNS = """
at timestamp, topic string, partition int, kafka_offset bigint, timestamp_ms bigint, source string, schema_id bigint,
problem string, record_id string, send_id string, club_id bigint, type string, at_ms bigint, chunk_index int,
chunk_count int, counts array<struct<channel: string, measure: string, reason: string, count_total: bigint>>,
run binary, listed string, user_ids array<bigint>, result_index array<int>, labels string, due_ms bigint
"""


class ArchiveTable(MarkedTable):
    """Every method may raise Spark's errors."""

    def __init__(self, spark: SparkSession, settings: Settings) -> None:
        super().__init__(spark, settings, "records", COLUMNS, partition="hours(at)")

    def archive_id(self) -> str | None:
        """Return the mark that the table was created with; None if there is no table."""
        if not self.exists():
            return None
        return self._properties().get(_ARCHIVE_ID)

    def create(self, archive_id: str, begin: Offsets) -> None:
        """Create the table, if it does not exist or its creation was interrupted.

        Args:
            archive_id: The mark of the archive, which the metrics database stores as well.
            begin: The first offsets to append.
        """
        self.make(**{_ARCHIVE_ID: archive_id})
        end = self.appended()
        if end.snapshot is None:
            self.append(self._spark.createDataFrame([], COLUMNS), end, begin)

    def records(self, snapshot: int | None = None, *, at: datetime | None = None) -> DataFrame:
        """Return the archived records with the columns `at`, ARCHIVED and OF_RECIPIENTS: of a snapshot, or those at a
        moment, by default this one.
        """
        reader = self._spark.read
        if snapshot is not None:
            reader = reader.option("versionAsOf", snapshot)
        if at is not None:
            reader = reader.option("timestampAsOf", f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}")
        rows = reader.table(self.name).where(F.col("at") >= F.lit(FIRST))
        missing = self.missing_from(rows)  # A snapshot has the columns of its time.
        return rows.withColumns({column.name: F.lit(None).cast(column.dataType) for column in missing})

    def hours(self, snapshot: int | None) -> list[tuple[datetime, int]]:
        """Return the hours that have records in a snapshot, in their order, each with the number of its records."""
        if snapshot is None:
            return []
        files = self._spark.read.option("versionAsOf", snapshot).table(f"{self.name}.files")
        hour = F.col("partition.at_hour")
        rows = files.where(hour >= 0).groupBy(hour).agg(F.sum("record_count")).orderBy(hour).collect()
        return [(FIRST + timedelta(hours=number), records) for number, records in rows]

    # --- maintenance ---

    def kept_since(self) -> datetime | None:
        """Return the time before which records were deleted; None if none were."""
        kept = self._properties().get(_KEPT_SINCE)
        return None if kept is None else datetime.fromisoformat(kept)

    def delete_before(self, moment: datetime) -> None:
        """Delete the records with a time and a production before `moment`, and store it first, so that they do not seem
        lost.
        """
        if (kept := self.kept_since()) is None or kept < moment:
            self._spark.sql(f"alter table {self.name} set tblproperties ('{_KEPT_SINCE}' = '{moment.isoformat()}')")
        # A wrong clock may have dated a new record before this time.
        produced = f"timestamp_ms < {round(moment.timestamp() * 1000)}"
        old = f"at >= {literal(FIRST)} and at < {literal(moment)} and {produced}"
        self._spark.sql(f"delete from {self.name} where {old}")  # noqa: S608 - our own names

    def replace_user(self, club_id: int, user_id: int, other: int) -> int:
        """Replace a user of one tenant in all records and all snapshots. Return the number of records."""
        named = f"club_id = {club_id:d} and array_contains(user_ids, {user_id:d})"
        found = self.records().where(named).count()
        if found:
            others = f"transform(user_ids, u -> if(u = {user_id:d}, {other:d}, u))"
            self._spark.sql(f"update {self.name} set user_ids = {others} where {named}")  # noqa: S608 - our own names
        # Also after an interrupted run: earlier snapshots still name the user.
        self.expire(datetime.now(UTC))  # guard: erasure.snapshots
        return found


def rows_of(facts: DataFrame) -> DataFrame:
    """Return facts as rows of the table; without the log of recipients, its columns are missing."""
    at_ms = F.when(F.col("problem").isNull(), F.col("at_ms")).otherwise(
        # The time of production is the producer's word.
        F.least(F.greatest("timestamp_ms", F.lit(0)), F.lit(END_OF_TIME_MS - 1))
    )
    return facts.select(
        F.timestamp_millis(at_ms).alias("at"),
        *_OF_EVERY_RECORD,
        # The other columns of a record that cannot be counted are not valid.
        *[
            F.when(F.col("problem").isNull(), F.col(name)).alias(name)
            for name in (*ARCHIVED, *OF_RECIPIENTS)
            if name in facts.columns and name not in _OF_EVERY_RECORD
        ],
    )
