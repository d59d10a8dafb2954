"""For any query and rows, the response is a group-by, equals its pages together, and no parameter causes a fault."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.metrics_handler.routes.metrics import PARAMETERS, MetricsBody, MetricsRoute
from masscomm.clock import FixedClock
from masscomm.http.problem import Problem
from masscomm.http.tenant import ALL_CLUBS
from masscomm.stores.metrics.in_memory import InMemoryMetricsStore
from tests.support.inputs.metrics_queries import Event, events, expected, queries, rows_of, stored


def over(happened: list[Event]) -> MetricsRoute:
    return MetricsRoute(InMemoryMetricsStore(stored(happened)), FixedClock(), timedelta())


def pages(query: MetricsRoute, asked: dict[str, list[str]], limit: int) -> list[MetricsBody]:
    found = [query.answer(asked | {"limit": [str(limit)]}, ALL_CLUBS)]
    while cursor := found[-1]["next_cursor"]:
        assert len(found[-1]["rows"]) == limit
        found.append(query.answer(asked | {"limit": [str(limit)], "cursor": [cursor]}, ALL_CLUBS))
    return found


@given(events, queries())
def test_random_query_agrees_with_a_group_by(happened: list[Event], asked: dict[str, list[str]]) -> None:
    everything = expected(happened, asked)
    assert rows_of(over(happened).answer(asked | {"limit": ["10000"]}, ALL_CLUBS)) == everything[:10_000]


@given(events, queries(), st.integers(1, 40))
def test_pages_in_turn_equal_the_answer(happened: list[Event], asked: dict[str, list[str]], limit: int) -> None:
    whole = over(happened).answer(asked | {"limit": ["2000"]}, ALL_CLUBS)["rows"]
    # Larger results are skipped, because filled minutes would make thousands of pages of one row.
    if len(whole) < min(2_000, 40 * limit):
        found = [row for page in pages(over(happened), asked, limit) for row in page["rows"]]
        assert found == whole


@given(events, events, queries().filter(lambda asked: asked.get("order") != ["-count_total"]))
def test_rows_counted_between_pages_repeat_and_lose_no_row(
    before: list[Event], more: list[Event], asked: dict[str, list[str]]
) -> None:
    """The cursor is a key: an offset would repeat rows when earlier rows arrive."""
    asked.pop("fill", None)
    first = over(before).answer(asked | {"limit": ["3"]}, ALL_CLUBS)
    if (cursor := first["next_cursor"]) is None:
        return
    rest = over(before + more).answer(asked | {"limit": ["10000"], "cursor": [cursor]}, ALL_CLUBS)
    after = rows_of(over(before + more).answer(asked | {"limit": ["10000"]}, ALL_CLUBS))
    place = [row[:-1] for row in after].index(rows_of(first)[-1][:-1])
    assert rows_of(rest) == after[place + 1 :]


_words = st.one_of(
    st.text(st.characters(exclude_categories=()), max_size=30),
    st.sampled_from(
        ["minute", "day", "2026-11-21T00:00:00Z", "2199-12-31T23:59:59.999999999Z", "1970-01-01T00:00:00Z"]
    ),
    st.sampled_from(["0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "2026-11-21T24:00:00Z", "1", "zero"]),
    st.sampled_from(
        ["Europe/Madrid", "America", "../etc/passwd", "right/UTC", "localtime", "-bucket", "W10", "bnVsbA"]
    ),
)
_names = st.one_of(st.sampled_from(PARAMETERS), st.text(max_size=8))
_valid = {"granularity": ["hour"], "start": ["2026-11-21T00:00:00Z"], "end": ["2026-11-22T00:00:00Z"]}


@pytest.mark.guarantee("metrics_api_answer.refused_values")
@given(st.dictionaries(_names, st.lists(_words, max_size=3), max_size=5), st.booleans())
def test_no_parameters_cause_a_fault(strange: dict[str, list[str]], mostly_valid: bool) -> None:
    refused: Problem | None = None
    try:
        over([]).answer(_valid | strange if mostly_valid else strange, ALL_CLUBS)
    except Problem as problem:
        refused = problem
    if refused is not None:
        assert refused.status == 400
        assert refused.errors or "more than" in refused.detail
