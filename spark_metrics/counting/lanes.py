"""Divides a batch into lanes by a hash of the send id, and has the executors merge each lane
(spark_metrics.counting.lane_merge).

All records of a send belong to one lane, so only the counts of clubs are updated by several lanes.
"""

from functools import partial

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_metrics.common.session import most_cores
from spark_metrics.counting.lane_merge import LaneResult, LaneRow, Plan, run_lane
from spark_metrics.counting.problems import Problem


class Lanes:
    """Merges batches in a fixed number of lanes. The columns are prepared once.

    Args:
        number: The number of lanes; 0: spark.sql.shuffle.partitions.
        recipients: Whether the log of recipients is written.
    """

    def __init__(self, spark: SparkSession, number: int, *, recipients: bool = False) -> None:
        self.number = number or most_cores(spark)
        # The hash of a number depends on its type; F.lit makes 32-bit numbers of these.
        slots = F.array(*[F.lit(slot).cast("long") for slot in _slots(spark, self.number)])
        self._slot = F.get(slots, F.col("lane"))
        self._steps = (
            [F.col("*"), _hash().alias("hash")],
            [F.col("*"), F.explode(self._lanes()).alias("lane")],
            _columns(recipients=recipients),
        )

    def rows(self, facts: DataFrame) -> DataFrame:
        """Return the facts as columns of LaneRow, of a stream or of a batch."""
        for columns in self._steps:
            facts = facts.select(*columns)
        return facts

    def divided(self, rows: DataFrame) -> DataFrame:
        """Return rows with one partition per lane, in a fixed order."""
        lanes = rows.repartition(self.number, self._slot)
        # Of two records with one id the first counts, however the shuffle orders them. A number is the cheapest prefix.
        return lanes.sortWithinPartitions("kafka_offset", "topic", "partition")

    def merge(self, rows: DataFrame, plan: Plan) -> list[LaneResult]:
        """Merge the rows of a batch; each lane is one task and one transaction. Return the results of the lanes.

        Raises Spark's errors, which quote psycopg's.
        """
        results: list[LaneResult] = self.divided(rows).rdd.mapPartitions(partial(run_lane, plan)).collect()
        return results

    def _lanes(self) -> Column:
        own = F.array(F.pmod("hash", F.lit(self.number)).cast("int"))
        everywhere = F.array(*map(F.lit, range(self.number)))
        # A shuffle is the only barrier before the first lane is merged: by the records of unknown schemas in it, each
        # lane knows that it must not be merged yet.
        return F.when(F.col("problem") == Problem.NOT_LEARNED, everywhere).otherwise(own)


def _hash() -> Column:
    place = F.xxhash64("topic", "partition", "kafka_offset")
    return F.when(F.col("send_id").isNull(), place).otherwise(F.xxhash64("send_id"))


def _columns(*, recipients: bool) -> list[Column]:
    counts, many = F.col("counts"), F.size("counts")
    only_count = F.try_element_at(counts, F.lit(1))
    # If a column had structs in an array, Python would convert every row value by value.
    texts = [counts[name].cast("array<string>") for name in ("channel", "measure", "reason", "count_total")]
    index, users = F.col("result_index"), F.col("user_ids")
    # Nearly every outcome has one result for all its users.
    only = F.when((F.size(users) == F.size(index)) & (F.array_min(index) == F.array_max(index)), F.array_min(index))
    columns = {
        "record_id": F.col("id"),
        # Most records have one count; four scalars cost the task less than an array of one struct.
        "channel": F.when(many == 1, only_count["channel"]),
        "measure": F.when(many == 1, only_count["measure"]),
        "reason": F.when(many == 1, only_count["reason"]),
        "total": F.when(many == 1, only_count["count_total"]),
        "several": F.when(many > 1, F.array(*texts)),
        "users": F.when(only.isNotNull(), F.array_join(users.cast("array<string>"), ",")),
        "only": only,
        "user_ids": F.when(only.isNull(), users),
        "result_index": F.when(only.isNull(), index),
        "decisions": F.col("decisions"),
    }
    valid = ("lane", "hash", "topic", "partition", "kafka_offset", "schema_id", "problem")
    # Without the log of recipients, the last columns are left out.
    names = LaneRow._fields if recipients else LaneRow._fields[: LaneRow._fields.index("users")]
    return [
        F.col(name) if name in valid else F.when(F.col("problem").isNull(), columns.get(name, F.col(name))).alias(name)
        for name in names
    ]


def _slots(spark: SparkSession, number: int) -> list[int]:
    """Return, for each lane, a number that Spark's hash partitioning places in the partition of this lane.

    A partition of its own for each lane keeps all executors busy; the task rejects a partition with two lanes.
    """
    slots: dict[int, int] = {}
    count = 32 * number
    while len(slots) < number:
        found = spark.range(count).select("id", F.pmod(F.hash("id"), F.lit(number))).collect()
        slots |= {lane: number for number, lane in reversed(found)}
        count *= 4
    return [slots[lane] for lane in range(number)]
