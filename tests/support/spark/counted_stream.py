"""A new database that counts and archives records, for tests of recomputing and of the archive."""

from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from masscomm.domain.limits import FAR_FUTURE_MS
from spark_metrics.archive.mark import claim_table
from spark_metrics.archive.table import ArchiveTable, rows_of
from spark_metrics.archive.uncounted import UncountedTable
from spark_metrics.common.settings import Settings
from spark_metrics.common.span import Span
from spark_metrics.counting.batches import count_batch
from spark_metrics.counting.facts import facts
from spark_metrics.counting.lanes import Lanes
from spark_metrics.counting.sink import PostgresSink
from spark_metrics.counting.views import load_views
from spark_metrics.recompute import Recompute
from tests.support.spark.archived import WRITERS
from tests.support.spark.session import Record, ToFrame

DAY_MS = 86_400_000


class CountedStream:
    """Counts and archives records as the job does, without Kafka and in this process."""

    def __init__(
        self, spark: SparkSession, kafka_frame: ToFrame, database: str, folder: Path, views: Sequence[str] = ()
    ) -> None:
        self.spark, self.frame = spark, kafka_frame
        self.settings = Settings(
            bootstrap_servers="", registry_url="", database_url=database, archive_dir=str(folder), views=tuple(views)
        )
        self.table = ArchiveTable(spark, self.settings)
        self.uncounted = UncountedTable(spark, self.settings)
        self.sink = PostgresSink(database, views=load_views(views), recipients=True)
        for view in self.sink.views:
            view.prepare_table(self.sink.connected())
        self.sink.take_over()
        claim_table(
            self.sink.connected(), self.table, {("send.api", 0): 0, ("outcome", 0): 0, ("webhook_outcome", 0): 0}
        )
        self.batches = 0

    def count(self, *records: Record) -> None:
        self.batches += 1
        lanes = Lanes(self.spark, 2, recipients=True)
        count_batch(
            lanes.rows(self.facts(*records)),
            lanes,
            self.sink.begin(lanes.number),
            batch_id=self.batches,
            sink=self.sink,
            learn=lambda unknown: set(unknown),
        )
        self.uncounted.continue_from(self.sink.connected())

    def archive(self, *records: Record) -> None:
        before = self.table.appended()
        after = dict(before.offsets)
        for record in records:
            place = (record["topic"], 0)
            after[place] = max(after[place], record["offset"] + 1)
        self.table.append(rows_of(self.facts(*records)), before, after)

    def both(self, *records: Record) -> None:
        self.archive(*records)
        self.count(*records)

    def facts(self, *records: Record) -> DataFrame:
        return facts(self.frame(records), writers=WRITERS, far_future_ms=FAR_FUTURE_MS, recipients=True)

    def differing(self, span: Span | None = None) -> int:
        return Recompute(self.settings, self.spark, span or Span()).run(wait_s=0).problems
