import base64
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from functions.metrics_handler.routes.metrics import MetricsRoute, parse_query
from masscomm.clock import FixedClock
from masscomm.domain.grains import Grain
from masscomm.http.problem import Problem
from masscomm.http.tenant import ALL_CLUBS, Clubs
from masscomm.stores.metrics.in_memory import InMemoryMetricsStore, StoredCount
from masscomm.stores.metrics.port import OF_COUNTS, Bounds

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
ASKED = {"granularity": ["minute"], "start": ["2026-11-21T12:00:00Z"], "end": ["2026-11-21T12:02:00Z"]}


def a_count(minute: int, club_id: int, measure: str, count_total: int, channel: str = "push") -> StoredCount:
    return StoredCount(
        granularity=Grain.MINUTE,
        bucket=NOON + timedelta(minutes=minute),
        club_id=club_id,
        type="news",
        channel=channel,
        measure=measure,
        count_total=count_total,
    )


@pytest.fixture
def query() -> MetricsRoute:
    stored = [
        a_count(0, 1, "sent", 3),
        a_count(0, 2, "sent", 4),
        a_count(0, 2, "sent", 5, channel="email"),
        a_count(1, 1, "requested", 9),
        a_count(2, 1, "sent", 100),
    ]
    store = InMemoryMetricsStore(stored, watermark=NOON + timedelta(minutes=2, seconds=5))
    return MetricsRoute(store, FixedClock(), grace=timedelta(seconds=5))


def rows(answer: Any) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in answer["rows"]]


def test_query_without_filters_groups_by_all_dimensions(query: MetricsRoute) -> None:
    answer = query.answer(ASKED, ALL_CLUBS)
    assert answer["dimensions"] == ["club_id", "type", "channel", "measure"]
    assert rows(answer) == [
        ("2026-11-21T12:00:00Z", 1, "news", "push", "sent", 3),
        ("2026-11-21T12:00:00Z", 2, "news", "email", "sent", 5),
        ("2026-11-21T12:00:00Z", 2, "news", "push", "sent", 4),
        ("2026-11-21T12:01:00Z", 1, "news", "push", "requested", 9),
    ]
    assert list(answer["rows"][0]) == ["bucket", "club_id", "type", "channel", "measure", "count_total"]


def test_omitted_dimensions_are_summed_over(query: MetricsRoute) -> None:
    answer = query.answer(ASKED | {"dimensions": ["channel"], "measure": ["sent"]}, ALL_CLUBS)
    assert answer["dimensions"] == ["channel", "measure"]
    assert rows(answer) == [("2026-11-21T12:00:00Z", "email", "sent", 5), ("2026-11-21T12:00:00Z", "push", "sent", 7)]


def test_repeated_filters_are_combined(query: MetricsRoute) -> None:
    answer = query.answer(ASKED | {"club_id": ["1", "2"], "channel": ["push"], "dimensions": ["measure"]}, ALL_CLUBS)
    assert rows(answer) == [("2026-11-21T12:00:00Z", "sent", 7), ("2026-11-21T12:01:00Z", "requested", 9)]


def test_rows_beyond_the_limit_make_the_answer_truncated(query: MetricsRoute) -> None:
    answer = query.answer(ASKED | {"limit": ["3"]}, ALL_CLUBS)
    assert (len(answer["rows"]), answer["truncated"]) == (3, True)
    assert not query.answer(ASKED | {"limit": ["4"]}, ALL_CLUBS)["truncated"]


@pytest.mark.parametrize(
    ("end", "complete"),
    [
        ("2026-11-21T12:02:00Z", True),  # the watermark is the end plus the grace period
        ("2026-11-21T12:02:00.001Z", False),  # the bucket that begins at 12:02 is included, and lasts until 12:03
        ("2026-11-21T12:01:30Z", True),
    ],
)
def test_answer_is_complete_once_the_watermark_passed_its_end(query: MetricsRoute, end: str, complete: bool) -> None:
    assert query.answer(ASKED | {"end": [end]}, ALL_CLUBS)["complete"] is complete


def test_answer_has_revised_buckets_and_the_grace(query: MetricsRoute) -> None:
    assert isinstance(query.store, InMemoryMetricsStore)
    query.store.revised_minutes = [
        (NOON, 1, NOON + timedelta(hours=1)),
        (NOON + timedelta(minutes=1), 2, NOON + timedelta(hours=2)),
    ]
    query.store.grace = timedelta(milliseconds=5_001)
    answer = query.answer(ASKED, ALL_CLUBS)
    # With one more millisecond of grace the watermark is too early for the query's end.
    assert (answer["grace_ms"], answer["complete"]) == (5_001, False)
    assert answer["revised_at"] == "2026-11-21T14:00:00Z"
    assert answer["revised"] == [
        {"bucket": "2026-11-21T12:00:00Z", "revised_at": "2026-11-21T13:00:00Z"},
        {"bucket": "2026-11-21T12:01:00Z", "revised_at": "2026-11-21T14:00:00Z"},
    ]
    # revised_at must not reveal late records of other clubs.
    assert query.answer(ASKED, clubs=Clubs(frozenset({1})))["revised_at"] == "2026-11-21T13:00:00Z"
    assert query.answer(ASKED | {"club_id": ["3"]}, ALL_CLUBS)["revised_at"] is None


def test_answer_without_any_count_is_not_complete() -> None:
    answer = MetricsRoute(InMemoryMetricsStore(), FixedClock(), timedelta()).answer(ASKED, ALL_CLUBS)
    assert (answer["rows"], answer["watermark"], answer["complete"]) == ([], None, False)
    assert answer["generated_at"] == "2023-11-14T22:13:20Z"


def test_time_with_any_offset_is_accepted() -> None:
    parsed = parse_query(ASKED | {"start": ["2026-11-21t13:00:00.250+01:00"]}, ALL_CLUBS)
    assert parsed.whole.start == NOON + timedelta(milliseconds=250)
    assert parsed.whole.dimensions == OF_COUNTS


@pytest.mark.parametrize(
    ("wrong", "fields"),
    [
        ({"granularity": []}, ["granularity"]),
        ({"granularity": ["second"]}, ["granularity"]),
        ({"granularity": ["minute", "hour"]}, ["granularity"]),
        ({"start": ["2026-11-21T12:00:00"]}, ["start"]),
        ({"start": ["2026-11-21"]}, ["start"]),
        ({"start": ["20261121T120000Z"]}, ["start"]),
        ({"start": ["2026-11-21T12:00:00 01:00"]}, ["start"]),  # a decoded + that the client did not escape
        ({"start": ["2026-02-30T12:00:00Z"]}, ["start"]),
        ({"start": ["0001-01-01T00:00:00+23:59"]}, ["start"]),
        ({"end": ["2026-11-21T12:00:00Z"]}, ["end"]),
        ({"end": ["2026-11-21T11:00:00Z"]}, ["end"]),
        ({"limit": ["0"]}, ["limit"]),
        ({"limit": ["10001"]}, ["limit"]),
        ({"limit": ["\u0663"]}, ["limit"]),
        ({"club_id": ["1", "one"]}, ["club_id"]),
        ({"club_id": [str(2**63)]}, ["club_id"]),
        ({"type": [""]}, ["type"]),
        ({"channel": ["a\0"]}, ["channel"]),
        ({"measure": ["opened"]}, ["measure"]),
        ({"dimensions": ["channel,bucket"]}, ["dimensions"]),
        ({"type": ["x"] * 101}, ["type"]),
        ({"colour": ["red"], "limit": ["x"], "end": []}, ["colour", "end", "limit"]),
    ],
)
def test_every_wrong_parameter_is_named(wrong: dict[str, list[str]], fields: list[str]) -> None:
    with pytest.raises(Problem) as raised:
        parse_query(ASKED | wrong, ALL_CLUBS)
    assert raised.value.status == 400
    assert [error.field for error in raised.value.errors] == fields
    for field in fields:
        assert field in raised.value.detail


def forged(cursor: str, place: int, value: object) -> str:
    key = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    key[place] = value
    return base64.urlsafe_b64encode(json.dumps(key).encode()).decode()


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (0, "0000000000000000"),
        (1, 10**30),
        (1, int(NOON.timestamp()) + 1),
        (1, int(NOON.timestamp()) + 600),
        (1, "x"),
        (2, []),
        (2, [1, "news", "push", 7]),
        (2, ["1", "news", "push", "sent"]),
        (2, [True, "news", "push", "sent"]),
        (2, [2**63, "news", "push", "sent"]),
        (2, [1, "a\0", "push", "sent"]),
        (2, [1, "\ud800", "push", "sent"]),
        (3, 2**200),
        (3, None),
    ],
)
def test_forged_cursor_is_refused(query: MetricsRoute, place: int, value: object) -> None:
    """A cursor with another value would make Postgres fail, or make the route count half a bucket."""
    cursor = query.answer(ASKED | {"limit": ["1"]}, ALL_CLUBS)["next_cursor"] or ""
    same = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))[place]
    assert len(query.answer(ASKED | {"cursor": [forged(cursor, place, same)]}, ALL_CLUBS)["rows"]) == 3
    with pytest.raises(Problem) as raised:
        query.answer(ASKED | {"cursor": [forged(cursor, place, value)]}, ALL_CLUBS)
    assert [error.field for error in raised.value.errors] == ["cursor"]


def test_cursor_is_valid_for_its_query_with_any_limit(query: MetricsRoute) -> None:
    cursor = query.answer(ASKED | {"limit": ["1"]}, ALL_CLUBS)["next_cursor"] or ""
    assert len(query.answer(ASKED | {"limit": ["2"], "cursor": [cursor]}, ALL_CLUBS)["rows"]) == 2
    for other in ({"order": ["-bucket"]}, {"channel": ["push"]}, {"end": ["2026-11-21T12:03:00Z"]}, {"fill": ["zero"]}):
        with pytest.raises(Problem):
            query.answer(ASKED | other | {"cursor": [cursor]}, ALL_CLUBS)


@pytest.mark.parametrize(
    ("contradictory", "field"),
    [
        ({"time_zone": ["Europe/Madrid"]}, "time_zone"),
        ({"granularity": ["day"], "time_zone": ["Europe/Nowhere"]}, "time_zone"),
        ({"granularity": ["day"], "time_zone": ["localtime"]}, "time_zone"),
        ({"granularity": ["day"], "time_zone": ["right/UTC"]}, "time_zone"),
        ({"granularity": ["day"], "time_zone": ["../UTC"]}, "time_zone"),
        ({"measure": ["sent"], "measures": ["sent"]}, "measures"),
        ({"measures": ["sent,opened"]}, "measures"),
        ({"order": ["count_total"]}, "order"),
        ({"fill": ["null"]}, "fill"),
    ],
)
def test_contradictory_parameters_are_named(contradictory: dict[str, list[str]], field: str) -> None:
    with pytest.raises(Problem) as raised:
        parse_query(ASKED | contradictory, ALL_CLUBS)
    assert (raised.value.status, [error.field for error in raised.value.errors]) == (400, [field])


def test_query_beyond_a_bound_is_refused_with_it(query: MetricsRoute) -> None:
    store = InMemoryMetricsStore([a_count(0, club, "sent", 1) for club in range(4)], bounds=Bounds(read=3))
    with pytest.raises(Problem, match="more than 3 rows") as raised:
        MetricsRoute(store, FixedClock(), timedelta()).answer(ASKED, ALL_CLUBS)
    assert raised.value.status == 400
    with pytest.raises(Problem, match="more than 100000 rows"):
        # The query is refused by its range alone, before any bucket is made.
        parse_query(ASKED | {"end": ["2027-11-21T12:00:00Z"], "fill": ["zero"]}, ALL_CLUBS)


def test_days_of_a_time_zone_have_its_offset() -> None:
    stored = [replace(a_count(0, 1, "sent", 5), granularity=Grain.HOUR)]
    asked = {"granularity": ["day"], "start": ["2026-11-21T00:00:00+01:00"], "end": ["2026-11-22T00:00:00+01:00"]}
    store = InMemoryMetricsStore(stored, watermark=NOON + timedelta(hours=11))
    answer = MetricsRoute(store, FixedClock(), timedelta()).answer(asked | {"time_zone": ["Europe/Madrid"]}, ALL_CLUBS)
    assert [(row["bucket"], row["count_total"]) for row in answer["rows"]] == [("2026-11-21T00:00:00+01:00", 5)]
    assert (answer["time_zone"], answer["complete"]) == ("Europe/Madrid", True)


def test_error_lists_the_allowed_values() -> None:
    with pytest.raises(Problem) as raised:
        parse_query(ASKED | {"measure": ["opened"], "granularity": ["week"], "colour": ["red"]}, ALL_CLUBS)
    messages = {error.field: error.message for error in raised.value.errors}
    assert "requested, duplicate" in messages["measure"]
    assert "minute, hour, day" in messages["granularity"]
    assert "club_id" in messages["colour"]
