from dataclasses import replace

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from masscomm.errors import Stop
from spark_metrics.trending import TRENDING, windows
from spark_metrics.views import load_views

_SUMS = "send_id string, minute_s long, club_id long, type string, channel string, measure string, count_total long"


def test_minute_is_counted_in_its_fifteen_windows(spark: SparkSession) -> None:
    rows = [
        ("a", 600, 1, "news", "push", "sent", 3),
        ("b", 600, 1, "news", "push", "sent", 4),
        ("a", 660, 1, "news", "push", "sent", 5),
        ("a", 660, 2, "news", "push", "sent", 0),
        ("a", 660, 2, None, None, None, None),
    ]
    found = spark.createDataFrame(rows, _SUMS).transform(windows).selectExpr("unix_seconds(bucket) as s", "*").collect()
    expected = {660: 7} | {660 + 60 * n: 12 for n in range(1, 15)} | {660 + 60 * 15: 5}
    assert {row["s"]: row["count_total"] for row in found} == expected
    assert {row["club_id"] for row in found} == {1}


@pytest.mark.parametrize(
    ("names", "why"),
    [
        (["nowhere:VIEW"], "nowhere:VIEW, which cannot be imported"),
        (["spark_metrics.trending:NOTHING"], "cannot be imported"),
        (["spark_metrics.trending"], "cannot be imported"),
        ([""], "cannot be imported"),
        (["spark_metrics.trending:windows"], "is not a spark_metrics.views.View"),
        (["spark_metrics.trending:TRENDING"] * 2, "two views of one table"),
    ],
)
def test_unknown_view_is_refused(names: list[str], why: str) -> None:
    with pytest.raises(Stop, match=why):
        load_views(names)


def test_transform_with_other_columns_is_refused(spark: SparkSession) -> None:
    TRENDING.check_transform(spark)
    with pytest.raises(Stop, match="transform of the view trending cannot be planned"):
        replace(TRENDING, transform=lambda sums: sums).check_transform(spark)


@pytest.mark.kills(guard="views.repeatable")
@pytest.mark.parametrize("asked", ["rand() * 2", "unix_timestamp(current_timestamp())", "length(current_user())"])
def test_nondeterministic_transform_is_refused(spark: SparkSession, asked: str) -> None:
    def transform(sums: DataFrame) -> DataFrame:
        return windows(sums).withColumn("count_total", F.expr(f"cast(count_total + {asked} as long)"))

    with pytest.raises(Stop, match="trending depends on when it runs, or on chance"):
        replace(TRENDING, transform=transform).check_transform(spark)
