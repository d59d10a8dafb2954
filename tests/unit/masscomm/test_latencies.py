from collections import Counter
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masscomm.domain.latencies import ERROR, LAST_BIN, bin_of, quantiles, value_of

MONTH_MS = 30 * 86_400_000
LATENCIES = st.one_of(st.integers(1, MONTH_MS), st.integers(1, 2_000))


@given(LATENCIES)
def test_value_of_a_bin_is_near_each_of_its_latencies(latency_ms: int) -> None:
    assert abs(value_of(bin_of(latency_ms)) - latency_ms) <= ERROR * latency_ms


@given(LATENCIES, LATENCIES)
def test_bins_have_the_order_of_latencies(one: int, other: int) -> None:
    assert (bin_of(one) <= bin_of(other)) or one > other


@pytest.mark.parametrize(
    ("latency_ms", "expected"),
    [(0, 0), (-5, 0), (-(2**63), 0), (1, 1), (2**63, LAST_BIN), (2**80, LAST_BIN)],
)
def test_latency_outside_all_bins_is_in_the_nearest(latency_ms: int, expected: int) -> None:
    assert bin_of(latency_ms) == expected


def test_bins_fit_their_column() -> None:
    assert bin_of(2 * MONTH_MS) <= LAST_BIN < 2**15


@given(st.lists(LATENCIES, min_size=1), st.floats(0.01, 1.0))
def test_quantile_of_bins_is_near_that_of_the_latencies(latencies: list[int], share: float) -> None:
    exact = sorted(latencies)[max(1, ceil(share * len(latencies))) - 1]
    (found,) = quantiles(Counter(map(bin_of, latencies)), [share])
    assert abs(found - exact) <= ERROR * exact


@given(st.lists(LATENCIES, min_size=1), st.lists(LATENCIES))
def test_sums_of_bins_are_those_of_all_latencies(some: list[int], others: list[int]) -> None:
    added = Counter(map(bin_of, some)) + Counter(map(bin_of, others))
    assert quantiles(added, [0.5, 0.95]) == quantiles(Counter(map(bin_of, some + others)), [0.5, 0.95])
