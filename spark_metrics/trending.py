"""The view for GET /v1/metrics/trending: for each minute, the counts of the 15 minutes before its end."""

from datetime import timedelta

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from masscomm.domain.measures import TRENDING_WINDOW_MIN
from spark_metrics.views import View

_KEYS = ("bucket", "club_id", "type", "channel", "measure")


def windows(sums: DataFrame) -> DataFrame:
    """Add the sums of a minute to the 15 windows that contain it. The column `bucket` is the end of a window."""
    ends = F.expr(f"sequence(minute_s + 60, minute_s + {60 * TRENDING_WINDOW_MIN}, 60L)")
    return (
        sums.where(F.col("count_total") > 0)
        .withColumn("end_s", F.explode(ends))
        .withColumn("bucket", F.timestamp_seconds("end_s"))
        .groupBy(*_KEYS)
        .agg(F.sum("count_total").alias("count_total"))
    )


# The API compares a day with the previous day, so rows are kept for more than two days.
TRENDING = View(table="trending", keys=_KEYS, sums=("count_total",), transform=windows, keep=timedelta(days=3))
