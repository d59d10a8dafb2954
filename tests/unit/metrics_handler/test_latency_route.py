from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from functions.metrics_handler.routes.latency import LatencyRoute
from masscomm.clock import FixedClock
from masscomm.domain.grains import Grain
from masscomm.domain.latencies import bin_of
from masscomm.http.problem import Problem
from masscomm.http.tenant import ALL_CLUBS, NO_CLUBS, Clubs
from masscomm.stores.metrics.in_memory import InMemoryMetricsStore, StoredLatency
from masscomm.stores.metrics.port import Bounds

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def stored(latency_ms: int, number: int, *, measure: str = "sent", hours: int = 0) -> StoredLatency:
    return StoredLatency(
        granularity=Grain.HOUR,
        bucket=NOON + timedelta(hours=hours),
        type="news",
        channel="push",
        measure=measure,
        bin=bin_of(latency_ms),
        count_total=number,
    )


STORED = [stored(100, 90), stored(1_000, 8), stored(60_000, 2), stored(5_000, 1, measure="delivered")]
ASKED = {"granularity": ["hour"], "start": ["2026-11-21T11:30:00Z"], "end": ["2026-11-21T12:30:00Z"]}


def latencies(parameters: dict[str, list[str]] | None = None, clubs: Clubs = ALL_CLUBS, **store: Any) -> Any:
    kept = InMemoryMetricsStore(stored_latencies=STORED, **store)
    route = LatencyRoute(kept, FixedClock(int(NOON.timestamp() * 1000)), timedelta(seconds=5))
    return route.answer(ASKED | (parameters or {}), clubs)


def test_percentiles_are_within_the_stated_error() -> None:
    answer = latencies()
    delivered, sent = answer["rows"]
    assert sent["count_total"] == 100
    for name, exact in {"p50_ms": 100, "p95_ms": 1_000, "p99_ms": 60_000}.items():
        assert sent[name] == pytest.approx(exact, rel=answer["error"])
    assert (delivered["measure"], delivered["count_total"]) == ("delivered", 1)
    assert delivered["p50_ms"] == delivered["p99_ms"] == pytest.approx(5_000, rel=answer["error"])


def test_rows_have_only_the_chosen_dimensions() -> None:
    (row,) = latencies({"dimensions": ["channel"], "measure": ["sent"]})["rows"]
    assert list(row) == ["bucket", "channel", "measure", "count_total", "p50_ms", "p95_ms", "p99_ms"]
    assert row["bucket"] == "2026-11-21T12:00:00Z"


def test_the_whole_range_has_its_own_percentiles() -> None:
    """The percentiles of buckets cannot be combined."""
    later = [*STORED, stored(60_000, 300, hours=1)]
    store = InMemoryMetricsStore(stored_latencies=later)
    route = LatencyRoute(store, FixedClock(int(NOON.timestamp() * 1000)), timedelta(seconds=5))
    answer = route.answer(ASKED | {"end": ["2026-11-21T14:00:00Z"], "measure": ["sent"]}, ALL_CLUBS)
    assert [row["p50_ms"] for row in answer["rows"]] == [pytest.approx(100, rel=0.05), pytest.approx(60_000, rel=0.05)]
    (whole,) = answer["whole"]
    assert whole["count_total"] == 400
    assert whole["p50_ms"] == pytest.approx(60_000, rel=0.05)
    assert "bucket" not in whole


def test_answer_is_complete_after_the_watermark() -> None:
    assert latencies()["complete"] is False
    end = NOON + timedelta(hours=1)
    assert latencies(watermark=end + timedelta(seconds=4))["complete"] is False
    assert latencies(watermark=end + timedelta(seconds=5))["complete"] is True


@pytest.mark.kills(guard="tenancy.latencies")
@pytest.mark.parametrize("clubs", [NO_CLUBS, Clubs(frozenset({1, 2}))])
def test_caller_of_some_clubs_sees_no_latency(clubs: Clubs) -> None:
    """The numbers are of all clubs together."""
    with pytest.raises(Problem) as refused:
        latencies(clubs=clubs)
    assert refused.value.status == 403


@pytest.mark.parametrize(
    ("parameters", "field"),
    [
        ({"measure": ["requested"]}, "measure"),
        ({"dimensions": ["club_id"]}, "dimensions"),
        ({"end": ["2026-11-21T11:30:00Z"]}, "end"),
        ({"granularity": ["week"]}, "granularity"),
        ({"start": []}, "start"),
        ({"club_id": ["1"]}, "club_id"),
    ],
)
def test_wrong_parameter_is_named(parameters: dict[str, list[str]], field: str) -> None:
    with pytest.raises(Problem) as refused:
        latencies(parameters)
    assert refused.value.status == 400
    assert [error.field for error in refused.value.errors] == [field]


def test_answer_with_too_many_rows_is_refused() -> None:
    with pytest.raises(Problem, match="more than 1 rows"):
        latencies(bounds=Bounds(latencies=1))
