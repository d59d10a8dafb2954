"""GET /v1/metrics with the dimension `reason`."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from functions.metrics_handler.routes.metrics import MetricsRoute
from masscomm.clock import FixedClock
from masscomm.domain.grains import REASONS_TABLE, Grain
from masscomm.http.problem import Problem
from masscomm.http.tenant import ALL_CLUBS, Clubs
from masscomm.stores.metrics.in_memory import InMemoryMetricsStore, StoredCount

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def stored(measure: str, count_total: int, reason: str = "", *, club_id: int = 1, hours: int = 0) -> StoredCount:
    return StoredCount(
        granularity=Grain.HOUR,
        bucket=NOON + timedelta(hours=hours),
        club_id=club_id,
        type="news",
        channel="push",
        measure=measure,
        count_total=count_total,
        reason=reason,
    )


STORED = [
    stored("sent", 90),
    stored("failed", 10),
    stored("failed", 7, "no_template"),
    stored("failed", 3, "provider_error", club_id=2),
    stored("failed", 5, "no_template", hours=13),
]


def counts(*, clubs: Clubs = ALL_CLUBS, **parameters: str) -> Any:
    store = InMemoryMetricsStore(STORED, kept_since={REASONS_TABLE: NOON})
    route = MetricsRoute(store, FixedClock(int(NOON.timestamp() * 1000)), timedelta(seconds=5))
    asked = {"granularity": "hour", "start": "2026-11-21T00:00:00Z", "end": "2026-11-23T00:00:00Z"} | parameters
    return route.answer({name: [value] for name, value in asked.items()}, clubs)


def rows(answer: Any) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in answer["rows"]]


def test_reasons_are_a_dimension_of_their_own() -> None:
    answer = counts(dimensions="reason")
    assert rows(answer) == [
        ("2026-11-21T12:00:00Z", "failed", "no_template", 7),
        ("2026-11-21T12:00:00Z", "failed", "provider_error", 3),
        ("2026-11-22T01:00:00Z", "failed", "no_template", 5),
    ]
    assert answer["kept_since"] == "2026-11-21T12:00:00Z"


def test_without_the_dimension_each_notification_counts_once() -> None:
    assert [row["count_total"] for row in counts(dimensions="measure")["rows"]] == [10, 90]
    assert "reason" not in counts()["rows"][0]


def test_days_of_reasons_are_sums_of_their_hours() -> None:
    of_days: dict[str, Any] = {"granularity": "day", "dimensions": "reason", "reason": "no_template"}
    assert [row[-1] for row in rows(counts(**of_days))] == [7, 5]
    assert [row[-1] for row in rows(counts(**of_days, time_zone="America/New_York"))] == [12]


def test_a_tenant_sees_its_own_reasons() -> None:
    assert rows(counts(clubs=Clubs(frozenset({2})), dimensions="reason")) == [
        ("2026-11-21T12:00:00Z", "failed", "provider_error", 3)
    ]


@pytest.mark.parametrize(
    ("parameters", "field"),
    [
        ({"granularity": "minute"}, "granularity"),
        ({"granularity": "day", "time_zone": "Asia/Kolkata"}, "time_zone"),
        ({"reason": "bad_luck"}, "reason"),
    ],
)
def test_reasons_that_are_not_counted_are_refused(parameters: dict[str, Any], field: str) -> None:
    with pytest.raises(Problem) as refused:
        counts(dimensions="reason", **parameters)
    assert refused.value.status == 400
    assert [error.field for error in refused.value.errors] == [field]
