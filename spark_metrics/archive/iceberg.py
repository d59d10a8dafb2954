"""Tables of Apache Iceberg that contain each position of the topics at most once.

One further row per topic and partition, at MARK, has the next offset to append. Each append replaces these rows in the
commit that adds the others, and Iceberg refuses the commit if another writer has replaced them since they were read.
So each position is stored once, however often and by however many writers it is appended, and the table itself has the
offsets at which a writer begins.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

from psycopg.conninfo import conninfo_to_dict
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from masscomm.aws.authentication import address_now
from masscomm.errors import Retry, Stop
from spark_metrics.common.settings import GLUE, Settings

# (topic, partition): offset
type Offsets = Mapping[tuple[str, int], int]

PLACE = ("topic", "partition", "kafka_offset")
# The time of the rows with the next offsets. No other row has a time before FIRST.
MARK = datetime(1900, 1, 1, tzinfo=UTC)
FIRST = datetime(1970, 1, 1, tzinfo=UTC)
# The name of the catalog. Iceberg's JDBC catalog stores it with each table, so another name finds no table.
CATALOG = "archive"
# The schema of the metrics database (schemas/tables/06_archive.sql) with the tables of Iceberg's JDBC catalog.
_CATALOG_SCHEMA = "archive_catalog"
# The parameters of libpq that have the same name and values in PostgreSQL's JDBC driver.
_OF_DRIVER = ("user", "password", "sslmode", "sslrootcert")
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


class OtherWriter(Retry):
    """Another writer has appended records since the offsets were read."""


@dataclass(frozen=True)
class Appended:
    """The end of a table: the next offset of each partition, in a snapshot of the table (None: an empty table)."""

    snapshot: int | None
    offsets: Offsets


class MarkedTable:
    """A table whose rows have a time `at`, a position (PLACE) and further columns.

    Every method may raise Spark's errors.

    Attributes:
        name: The table's name in Spark's SQL, with catalog and database.
    """

    def __init__(self, spark: SparkSession, settings: Settings, table: str, columns: str, *, partition: str) -> None:
        """Configure the catalog in Spark's session. Nothing connects before the first call of a method.

        A session opens the catalog once, so it can read the archive of one database only.

        Args:
            table: The name in the catalog's database.
            columns: The columns and their types in Spark's SQL.
            partition: The partition transform of `at`, such as `hours(at)`.
        """
        if not settings.archive_dir:
            raise Stop("SPARK_ARCHIVE_DIR is not set: there is no archive")
        self._spark, self._settings, self._columns, self._partition = spark, settings, columns, partition
        self._namespace = f"{CATALOG}.{settings.archive_database}"
        self.name = f"{self._namespace}.{table}"
        for option, value in catalog_options(settings).items():
            spark.conf.set(f"spark.sql.catalog.{CATALOG}{option}", value)

    def exists(self) -> bool:
        return self._spark.catalog.tableExists(self.name)

    def make(self, **properties: str) -> None:
        """Create the table without the offsets at which a writer begins, if it does not exist."""
        if self._settings.archive_catalog != GLUE:
            self._spark.sql(f"create namespace if not exists {self._namespace}")
        chosen = ", ".join(f"'{key}' = '{value}'" for key, value in (_PROPERTIES | properties).items())
        self._spark.sql(
            f"create table if not exists {self.name} ({self._columns}) using iceberg partitioned by ({self._partition})"
            f" tblproperties ({chosen})"
        )

    def add_columns(self) -> None:
        """Add the columns that a table of an earlier version lacks. Its rows have null there."""
        if added := self.missing_from(self._spark.table(self.name)):
            listed = ", ".join(f"{column.name} {column.dataType.simpleString()}" for column in added)
            self._spark.sql(f"alter table {self.name} add columns ({listed})")

    def missing_from(self, rows: DataFrame) -> list[StructField]:
        """Return the table's columns that rows of an earlier version lack."""
        schema = cast(StructType, StructType.fromDDL(self._columns))
        return [column for column in schema.fields if column.name not in rows.columns]

    def appended(self) -> Appended:
        """Return the end of the table."""
        heads = self._spark.sql(f"select snapshot_id from {self.name}.refs where name = 'main'").collect()  # noqa: S608
        if not heads:
            return Appended(None, {})
        snapshot = int(heads[0][0])
        rows = self._spark.read.option("versionAsOf", snapshot).table(self.name).where(F.col("at") == F.lit(MARK))
        return Appended(snapshot, {(row[0], row[1]): row[2] for row in rows.select(*PLACE).collect()})

    def append(self, rows: DataFrame, after: Appended, end: Offsets) -> None:
        """Append rows with the columns of the table, and store the next offsets, in one commit.

        Args:
            after: The end of the table that the rows continue.
            end: The next offset of each partition.

        Raises:
            OtherWriter: The table does not end there any more; nothing is appended.
        """
        places = [dict(zip(("at", *PLACE), (MARK, *place, offset), strict=True)) for place, offset in end.items()]
        marks = self._spark.createDataFrame(places, self._columns)
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

    # --- maintenance ---

    def rewrite(self, before: datetime) -> int:
        """Merge the small files of each partition before a time, and return the number of merged files."""
        rows = self._procedure(
            "rewrite_data_files",
            f"where => 'at >= {literal(FIRST, '"')} and at < {literal(before, '"')}'",
            # A commit per group of files: an interrupted run keeps what it has merged.
            "options => map('partial-progress.enabled', 'true', 'min-input-files', '2')",
        ).collect()
        return int(rows[0][0]) if rows else 0

    def expire(self, before: datetime) -> None:
        """Remove the snapshots before a time, except the current one, and the files that only they read."""
        self._procedure("expire_snapshots", f"older_than => {literal(before)}", "retain_last => 1").collect()

    def remove_orphans(self) -> int:
        """Remove the files that no snapshot knows and that are older than three days. Return their number."""
        return len(self._procedure("remove_orphan_files").collect())

    def _procedure(self, procedure: str, *arguments: str) -> DataFrame:
        table = self.name.partition(".")[2]
        return self._spark.sql(f"call {CATALOG}.system.{procedure}({', '.join((f"table => '{table}'", *arguments))})")

    def _properties(self) -> dict[str, str]:
        rows = self._spark.sql(f"show tblproperties {self.name}").collect()
        return {row["key"]: row["value"] for row in rows}


def literal(moment: datetime, quote: str = "'") -> str:
    """Return a time as Spark's SQL writes it."""
    return f"timestamp {quote}{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}{quote}"


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
