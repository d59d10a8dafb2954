"""An archive of a new database, for tests of its table and of its queries."""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from masscomm.domain.limits import FAR_FUTURE_MS
from spark_metrics.archive.mark import claim_table
from spark_metrics.archive.table import ArchiveTable, rows_of
from spark_metrics.common.database import connect
from spark_metrics.common.settings import Settings
from spark_metrics.counting.facts import facts
from spark_metrics.counting.sink import PostgresSink
from tests.support.spark.archived import WRITERS
from tests.support.spark.session import Record, ToFrame

SENDS = ("send.api", 0)


class Writing:
    """An archive of a new database, and the rows of records."""

    def __init__(self, spark: SparkSession, kafka_frame: ToFrame, database: str, folder: Path) -> None:
        self.spark, self.frame = spark, kafka_frame
        self.settings = Settings(bootstrap_servers="", registry_url="", database_url=database, archive_dir=str(folder))
        self.table = ArchiveTable(spark, self.settings)
        sink = PostgresSink(database)
        sink.take_over()
        sink.close()
        with connect(database, "test") as connection:
            claim_table(connection, self.table, {SENDS: 0})

    def rows(self, *records: Record, recipients: bool = True) -> DataFrame:
        decoded = facts(self.frame(records), writers=WRITERS, far_future_ms=FAR_FUTURE_MS, recipients=recipients)
        return rows_of(decoded)

    def offsets(self) -> list[int]:
        return sorted(row["kafka_offset"] for row in self.table.records().select("kafka_offset").collect())
