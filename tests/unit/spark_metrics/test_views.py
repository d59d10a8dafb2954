from dataclasses import replace

import pytest

from masscomm.errors import Stop
from spark_metrics.common.settings import view_names
from spark_metrics.counting.views import load_views
from tests.support.spark.club_days import CLUB_DAYS


@pytest.mark.parametrize(
    ("names", "why"),
    [
        (["nowhere:VIEW"], "nowhere:VIEW, which cannot be imported"),
        (["tests.support.spark.club_days:NOTHING"], "cannot be imported"),
        (["tests.support.spark.club_days"], "cannot be imported"),
        ([""], "cannot be imported"),
        (["tests.support.spark.club_days:TABLE"], "is not a spark_metrics.counting.views.View"),
        (["tests.support.spark.club_days:CLUB_DAYS"] * 2, "two views of one table"),
    ],
)
def test_unknown_view_is_refused(names: list[str], why: str) -> None:
    with pytest.raises(Stop, match=why):
        load_views(names)


def test_commas_separate_the_names_of_views() -> None:
    assert view_names("c:D, a:B") == ("c:D", "a:B")
    assert view_names("none") == view_names("") == ()


@pytest.mark.kills(guard="views.repeatable")
@pytest.mark.parametrize("asked", ["rand() * 2", "extract(epoch from current_timestamp)", "length(current_user)"])
def test_nondeterministic_expression_is_refused(asked: str) -> None:
    with pytest.raises(Stop, match="club_days depends on when it runs, or on chance"):
        replace(CLUB_DAYS, measures={"count_total": f"count_total + {asked}"}).check_expressions()
