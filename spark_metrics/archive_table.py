"""The archive: an Apache Iceberg table with a row for each record of the topics.

A row has the record's position and the columns that counting needs, never its value or headers, so the table contains
no message text, address or one-time password. It contains the users of outcomes only while the log of recipients is
enabled. The table is partitioned by the hour of `at`: the event's time, or the time of production if the record cannot
be counted.

One further row per topic and partition, at MARK, has the next offset to append. Each append replaces these rows in the
commit that adds the records, and Iceberg refuses the commit if another writer has replaced them since they were read.
So each position is stored once, however often and by however many writers it is appended, and the table itself has the
offsets at which a writer begins.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from psycopg.conninfo import conninfo_to_dict
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from masscomm.aws.authentication import address_now
from masscomm.domain.limits import END_OF_TIME_MS
from masscomm.errors import Retry, Stop
from spark_metrics.settings import GLUE, Settings

# (topic, partition): offset
type Offsets = Mapping[tuple[str, int], int]

PLACE = ("topic", "partition", "kafka_offset")
_OF_EVERY_RECORD = (*PLACE, "timestamp_ms", "source", "schema_id", "problem")
ARCHIVED = (
    *_OF_EVERY_RECORD,
    *("record_id", "send_id", "club_id", "type", "at_ms", "chunk_index", "chunk_count", "counts", "run", "listed"),
    "labels",
)
# The columns that only the log of recipients needs.
OF_RECIPIENTS = ("user_ids", "result_index")

# The time of the rows with the next offsets. No record has a time before FIRST.
MARK = datetime(1900, 1, 1, tzinfo=UTC)
FIRST = datetime(1970, 1, 1, tzinfo=UTC)
# The name of the catalog. Iceberg's JDBC catalog stores it with each table, so another name finds no table.
CATALOG = "archive"
# The schema of the metrics database (schemas/tables/06_archive.sql) with the tables of Iceberg's JDBC catalog.
_CATALOG_SCHEMA = "archive_catalog"
# The parameters of libpq that have the same name and values in PostgreSQL's JDBC driver.
_OF_DRIVER = ("user", "password", "sslmode", "sslrootcert")
_ARCHIVE_ID = "masscomm.archive-id"
_KEPT_SINCE = "masscomm.kept-since"

COLUMNS = """
at timestamp, topic string, partition int, kafka_offset bigint, timestamp_ms bigint, source string, schema_id bigint,
problem string, record_id string, send_id string, club_id bigint, type string, at_ms bigint, chunk_index int,
chunk_count int, counts array<struct<channel: string, measure: string, reason: string, count_total: bigint>>,
run binary, listed string, user_ids array<bigint>, result_index array<int>, labels string
"""
_PROPERTIES = {
    "format-version": "2",
    # A row group stays in memory until it is written: the default of 128 MB is a quarter of a small driver's heap.
    "write.parquet.row-group-size-bytes": str(32 << 20),
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
    # The archive's writer appends while rows are erased or old hours are deleted.
    "write.update.isolation-level": "snapshot",
    "write.delete.isolation-level": "snapshot",
}


@contextmanager
def spark_errors() -> Iterator[None]:
    """Raise Retry instead of Spark's errors: the catalog or the files are not available now."""
    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
        raise Retry(f"the archive: {reason_of(error)}") from error


def reason_of(error: Exception) -> str:
    """Return the reason of an error in one line."""
    lines = str(error).strip().splitlines()
    if isinstance(error, Py4JJavaError):
        # The text of a Java exception begins in the second line, and a line for each of its causes follows.
        lines = [line for line in lines if line.startswith("Caused by: ")][-1:] or lines[1:]
    return "".join(lines[:1]).removeprefix("Caused by: ").removeprefix(": ")[:300] or type(error).__name__


class OtherWriter(Retry):
    """Another writer has appended records since the offsets were read."""


@dataclass(frozen=True)
class Appended:
    """The end of the archive: the next offset of each partition, in a snapshot of the table (None: an empty table)."""

    snapshot: int | None
    offsets: Offsets


class ArchiveTable:
    """Every method may raise Spark's errors."""

    def __init__(self, spark: SparkSession, settings: Settings) -> None:
        """Configure the catalog in Spark's session. Nothing connects before the first call of a method.

        A session opens the catalog once, so it can read the archive of one database only.
        """
        if not settings.archive_dir:
            raise Stop("SPARK_ARCHIVE_DIR is not set: there is no archive")
        self._spark, self._settings = spark, settings
        self._namespace = f"{CATALOG}.{settings.archive_database}"
        self.name = f"{self._namespace}.records"
        for option, value in catalog_options(settings).items():
            spark.conf.set(f"spark.sql.catalog.{CATALOG}{option}", value)

    def exists(self) -> bool:
        return self._spark.catalog.tableExists(self.name)

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
        self.create_empty(archive_id)
        end = self.appended()
        if end.snapshot is None:
            self.append(self._spark.createDataFrame([], COLUMNS), end, begin)

    def create_empty(self, archive_id: str) -> None:
        """Create the table without the offsets at which a writer begins, if it does not exist."""
        if self._settings.archive_catalog != GLUE:
            self._spark.sql(f"create namespace if not exists {self._namespace}")
        chosen = _PROPERTIES | {_ARCHIVE_ID: archive_id}
        properties = ", ".join(f"'{key}' = '{value}'" for key, value in chosen.items())
        self._spark.sql(
            f"create table if not exists {self.name} ({COLUMNS}) using iceberg partitioned by (hours(at))"
            f" tblproperties ({properties})"
        )

    def appended(self) -> Appended:
        """Return the end of the archive."""
        heads = self._spark.sql(f"select snapshot_id from {self.name}.refs where name = 'main'").collect()  # noqa: S608
        if not heads:
            return Appended(None, {})
        snapshot = int(heads[0][0])
        rows = self._spark.read.option("versionAsOf", snapshot).table(self.name).where(F.col("at") == F.lit(MARK))
        return Appended(snapshot, {(row[0], row[1]): row[2] for row in rows.select(*PLACE).collect()})

    def append(self, rows: DataFrame, after: Appended, end: Offsets) -> None:
        """Append rows with the columns of the table, and store the next offsets, in one commit.

        Args:
            after: The end of the archive that the rows continue.
            end: The next offset of each partition.

        Raises:
            OtherWriter: The archive does not end there any more; nothing is appended.
        """
        if "labels" not in self._spark.table(self.name).columns:
            # An earlier version has created the table.
            self._spark.sql(f"alter table {self.name} add column labels string")
        places = [dict(zip(("at", *PLACE), (MARK, *place, offset), strict=True)) for place, offset in end.items()]
        marks = self._spark.createDataFrame(places, COLUMNS)
        writer = rows.unionByName(marks, allowMissingColumns=True).writeTo(self.name)
        if after.snapshot is not None:
            writer = writer.option("validate-from-snapshot-id", str(after.snapshot))
        try:
            # guard: archive.one_append
            writer.option("isolation-level", "serializable").overwrite(F.col("at") == F.lit(MARK))
        except Exception as error:
            now = self.appended()
            # The catalog may have committed although its answer was lost.
            if now.offsets == end:
                return
            if now.offsets != after.offsets:
                raise OtherWriter("another writer has appended to the archive") from error
            raise

    def records(self, snapshot: int | None = None, *, at: datetime | None = None) -> DataFrame:
        """Return the archived records with the columns `at`, ARCHIVED and OF_RECIPIENTS: of a snapshot, or those at a
        moment, by default this one.
        """
        reader = self._spark.read
        if snapshot is not None:
            reader = reader.option("versionAsOf", snapshot)
        if at is not None:
            reader = reader.option("timestampAsOf", f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}")
        found = reader.table(self.name).where(F.col("at") >= F.lit(FIRST))
        return found if "labels" in found.columns else found.withColumn("labels", F.lit(None).cast("string"))

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
        old = f"at >= {_literal(FIRST)} and at < {_literal(moment)} and {produced}"
        self._spark.sql(f"delete from {self.name} where {old}")  # noqa: S608 - our own names

    def rewrite(self, before: datetime) -> int:
        """Merge the small files of each hour before a time, and return the number of merged files."""
        return self._call(
            "rewrite_data_files",
            f"where => 'at >= {_literal(FIRST, '"')} and at < {_literal(before, '"')}'",
            # A commit per group of hours: an interrupted run keeps what it has merged.
            "options => map('partial-progress.enabled', 'true', 'min-input-files', '2')",
        )

    def expire(self, before: datetime) -> None:
        """Remove the snapshots before a time, except the current one, and the files that only they read."""
        self._call("expire_snapshots", f"older_than => {_literal(before)}", "retain_last => 1")

    def remove_orphans(self) -> int:
        """Remove the files that no snapshot knows and that are older than three days. Return their number."""
        return len(self._procedure("remove_orphan_files").collect())

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

    def _call(self, procedure: str, *arguments: str) -> int:
        rows = self._procedure(procedure, *arguments).collect()
        return int(rows[0][0]) if rows else 0

    def _procedure(self, procedure: str, *arguments: str) -> DataFrame:
        table = self.name.partition(".")[2]
        return self._spark.sql(f"call {CATALOG}.system.{procedure}({', '.join((f"table => '{table}'", *arguments))})")

    def _properties(self) -> dict[str, str]:
        rows = self._spark.sql(f"show tblproperties {self.name}").collect()
        return {row["key"]: row["value"] for row in rows}


def _literal(moment: datetime, quote: str = "'") -> str:
    return f"timestamp {quote}{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}{quote}"


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


def catalog_options(settings: Settings) -> dict[str, str]:
    """Return the options of Iceberg's catalog: Glue in AWS, elsewhere tables in the metrics database."""
    options = {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".warehouse": f"{settings.archive_dir.rstrip('/')}/iceberg",
        # A cached table would not have the commits of other processes.
        ".cache-enabled": "false",
    }
    if settings.archive_catalog == GLUE:
        return options | {".type": "glue", ".io-impl": "org.apache.iceberg.aws.s3.S3FileIO"}
    server: dict[str, Any] = conninfo_to_dict(address_now(settings.database_url))
    url = f"jdbc:postgresql://{server.get('host', '127.0.0.1')}:{server.get('port', 5432)}/{server.get('dbname', '')}"
    return options | {
        ".type": "jdbc",
        ".jdbc.schema-version": "V1",
        ".uri": f"{url}?currentSchema={_CATALOG_SCHEMA}",
        # Without sslmode, the driver would accept any server's certificate.
        **{f".jdbc.{name}": str(server[name]) for name in _OF_DRIVER if name in server},
    }
