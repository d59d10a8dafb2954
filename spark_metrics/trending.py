"""The view behind GET /v1/metrics/trending: what the 15 minutes before each minute's end hold."""

from datetime import timedelta

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from masscomm.domain.measures import TRENDING_WINDOW_MIN
from spark_metrics.views import View

_KEYS = ("bucket", "club_id", "type", "channel", "measure")


def windows(sums: DataFrame) -> DataFrame:
    """A minute's sums into the 15 windows that hold it; bucket: where the window ends."""
    ends = F.expr(f"sequence(minute_s + 60, minute_s + {60 * TRENDING_WINDOW_MIN}, 60L)")
    return (
        sums.where(F.col("count_total") > 0)
        .withColumn("end_s", F.explode(ends))
        .withColumn("bucket", F.timestamp_seconds("end_s"))
        .groupBy(*_KEYS)
        .agg(F.sum("count_total").alias("count_total"))
    )


# The API compares a day with the day before it.
TRENDING = View(table="trending", keys=_KEYS, sums=("count_total",), transform=windows, keep=timedelta(days=3))
