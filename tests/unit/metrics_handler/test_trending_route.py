from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from functions.metrics_handler.routes.trending import TrendingRoute
from masscomm.clock import FixedClock
from masscomm.domain.grains import Grain
from masscomm.http.problem import Problem
from masscomm.http.tenant import ALL_CLUBS
from masscomm.stores.metrics.in_memory import InMemoryMetricsStore, StoredCount
from masscomm.stores.metrics.port import Bounds

NOW = datetime(2026, 11, 21, 12, 30, 20, tzinfo=UTC)
MINUTE = NOW.replace(second=0)


def a_count(
    minutes_ago: int, category: str, count_total: int, club_id: int = 1, measure: str = "requested"
) -> StoredCount:
    return StoredCount(
        granularity=Grain.MINUTE,
        bucket=MINUTE - timedelta(minutes=minutes_ago),
        club_id=club_id,
        type=category,
        channel="push",
        measure=measure,
        count_total=count_total,
    )


STORED = [
    a_count(0, "goal", 3),
    a_count(4, "goal", 4, club_id=2),
    a_count(5, "goal", 10),
    a_count(4, "news", 7),
    a_count(9, "news", 1),
    a_count(10, "news", 100),
    a_count(1, "ads", 1, club_id=2),
    a_count(6, "gone", 50),
    a_count(0, "news", 1000, measure="sent"),
]


def trends(bounds: Bounds | None = None, **parameters: str) -> Any:
    store = InMemoryMetricsStore(STORED, watermark=NOW, bounds=bounds or Bounds())
    use_case = TrendingRoute(store, FixedClock(int(NOW.timestamp() * 1000)), timedelta(seconds=5))
    return use_case.answer({"window": ["5"]} | {name: [value] for name, value in parameters.items()}, ALL_CLUBS)


def test_trends_window_ends_with_the_current_minute() -> None:
    answer = trends()
    assert (answer["start"], answer["end"]) == ("2026-11-21T12:26:00Z", "2026-11-21T12:31:00Z")
    assert [tuple(row.values()) for row in answer["rows"]] == [("goal", 7, 10), ("news", 7, 1), ("ads", 1, 0)]
    assert list(answer["rows"][0]) == ["type", "count_total", "before"]
    assert (answer["watermark"], answer["complete"]) == ("2026-11-21T12:30:20Z", False)


def test_trends_by_club_measure_and_filter() -> None:
    assert trends(by="club_id")["rows"] == [
        {"club_id": 1, "count_total": 10, "before": 61},
        {"club_id": 2, "count_total": 5, "before": 0},
    ]
    assert trends(measure="sent")["rows"] == [{"type": "news", "count_total": 1000, "before": 0}]
    assert trends(club_id="2", top="1")["rows"] == [{"type": "goal", "count_total": 4, "before": 0}]


@pytest.mark.parametrize(
    ("field", "value"), [("by", "channel"), ("window", "0"), ("window", "1441"), ("top", "101"), ("start", "x")]
)
def test_invalid_trends_parameter_is_named(field: str, value: str) -> None:
    with pytest.raises(Problem) as raised:
        trends(None, **{field: value})
    assert (raised.value.status, [error.field for error in raised.value.errors]) == (400, [field])


def test_a_window_over_the_bound_is_refused() -> None:
    with pytest.raises(Problem, match="more than 3 rows") as raised:
        trends(Bounds(read=3))
    assert raised.value.status == 400
