"""Spans: the hours that a command's --from and --to select."""

from datetime import datetime, timedelta

import pytest

from masscomm.domain.limits import FAR_FUTURE_MS
from spark_metrics.common.span import AHEAD, Span, instant


def at(text: str) -> datetime:
    return datetime.fromisoformat(f"{text}Z")


@pytest.mark.parametrize(
    ("step_s", "first", "end"),
    [
        (60, "2026-11-20T09:30:00", "2026-11-20T10:16:00"),
        (3_600, "2026-11-20T09:00:00", "2026-11-20T11:00:00"),
        (86_400, "2026-11-20T00:00:00", "2026-11-21T00:00:00"),
    ],
)
def test_span_is_widened_to_whole_buckets(step_s: int, first: str, end: str) -> None:
    span = Span(at("2026-11-20T09:30:59.999"), at("2026-11-20T10:15:00.000001"))
    assert span.whole(step_s) == Span(at(first), at(end))
    assert span.whole(step_s).whole(step_s) == span.whole(step_s)


def test_span_of_whole_buckets_is_not_widened() -> None:
    span = Span(at("2026-11-20T00:00:00"), at("2026-11-22T00:00:00"))
    assert span.whole(86_400) == span


def test_span_before_1970_is_widened_downwards() -> None:
    assert Span(at("1969-12-31T23:59:30"), at("1969-12-31T23:59:30")).whole(60) == Span(
        at("1969-12-31T23:59:00"), at("1970-01-01T00:00:00")
    )


def test_an_open_side_stays_open() -> None:
    assert Span().whole(60) == Span()


def test_a_date_is_its_midnight_in_utc() -> None:
    assert instant("2026-11-20") == at("2026-11-20T00:00:00")
    assert instant("2026-11-20T01:00:00+02:00") == at("2026-11-19T23:00:00")


@pytest.mark.parametrize("text", ["", "yesterday", "2026-11-20T01:00:00", "2026-13-01"])
def test_malformed_instant_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        instant(text)


def test_a_counted_record_is_never_further_ahead() -> None:
    """recompute reads the archive this far before its span."""
    assert timedelta(milliseconds=FAR_FUTURE_MS) <= AHEAD
