"""A view for tests: the notifications of a club by day."""

from datetime import timedelta

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_metrics.views import View

DAY_S = 86_400
TABLE = (
    b"create table club_days (bucket timestamptz, club_id bigint, count_total bigint not null,"
    b" primary key (bucket, club_id))"
)


def by_day(sums: DataFrame) -> DataFrame:
    """Sum the counts of each club and day."""
    return (
        sums.where(F.col("count_total") > 0)
        .groupBy(F.timestamp_seconds(F.expr(f"minute_s div {DAY_S} * {DAY_S}")).alias("bucket"), "club_id")
        .agg(F.sum("count_total").alias("count_total"))
    )


CLUB_DAYS = View(
    table="club_days",
    keys=("bucket", "club_id"),
    sums=("count_total",),
    transform=by_day,
    step_s=DAY_S,
    keep=timedelta(days=3),
)
