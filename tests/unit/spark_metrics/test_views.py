from dataclasses import replace

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from masscomm.errors import Stop
from spark_metrics.settings import view_names
from spark_metrics.views import load_views
from tests.support.spark.club_days import CLUB_DAYS, by_day


@pytest.mark.parametrize(
    ("names", "why"),
    [
        (["nowhere:VIEW"], "nowhere:VIEW, which cannot be imported"),
        (["tests.support.spark.club_days:NOTHING"], "cannot be imported"),
        (["tests.support.spark.club_days"], "cannot be imported"),
        ([""], "cannot be imported"),
        (["tests.support.spark.club_days:by_day"], "is not a spark_metrics.views.View"),
        (["tests.support.spark.club_days:CLUB_DAYS"] * 2, "two views of one table"),
    ],
)
def test_unknown_view_is_refused(names: list[str], why: str) -> None:
    with pytest.raises(Stop, match=why):
        load_views(names)


def test_view_of_earlier_versions_is_ignored_in_the_setting() -> None:
    """The documentation of earlier versions included it in SPARK_VIEWS."""
    assert view_names("spark_metrics.trending:TRENDING, a:B") == ("a:B",)
    assert view_names("none") == view_names("") == ()


def test_transform_with_other_columns_is_refused(spark: SparkSession) -> None:
    CLUB_DAYS.check_transform(spark)
    with pytest.raises(Stop, match="transform of the view club_days cannot be planned"):
        replace(CLUB_DAYS, transform=lambda sums: sums).check_transform(spark)


@pytest.mark.kills(guard="views.repeatable")
@pytest.mark.parametrize("asked", ["rand() * 2", "unix_timestamp(current_timestamp())", "length(current_user())"])
def test_nondeterministic_transform_is_refused(spark: SparkSession, asked: str) -> None:
    def transform(sums: DataFrame) -> DataFrame:
        return by_day(sums).withColumn("count_total", F.expr(f"cast(count_total + {asked} as long)"))

    with pytest.raises(Stop, match="club_days depends on when it runs, or on chance"):
        replace(CLUB_DAYS, transform=transform).check_transform(spark)
