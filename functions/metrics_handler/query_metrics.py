"""GET /v1/metrics: counts by bucket and dimensions.

granularity  minute, hour or day (UTC); required
start, end   RFC 3339 with an offset: the buckets that begin in [start, end); required
club_id, type, channel, measure   only these, each as often as wanted; without one, everything
dimensions   which of those four to tell apart, as often as wanted or with commas; the rest is summed over. Without it
             all four; `measure` is always told apart, because a sum of different measures means nothing
limit        rows at most, 1000 without it

complete says that the watermark has passed the end of the last bucket by the grace: the rows do not grow any more, but
for records that reach their topic later than that.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from functions.metrics_handler.metrics_store import Counts, Dimension, Granularity, MetricsQuery, MetricsStore
from masscomm.clock import Clock
from masscomm.measures import MEASURES
from masscomm.problem import FieldError, Problem

DEFAULT_LIMIT = 1_000
MAX_LIMIT = 10_000
MAX_FILTER_VALUES = 100

_SINGLE = ("granularity", "start", "end", "limit")
_REPEATED = ("club_id", "type", "channel", "measure", "dimensions")
_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_MAX_TEXT = 200


@dataclass(frozen=True)
class QueryMetrics:
    """The use case. grace: how long after its end a bucket may still get records that were under way."""

    store: MetricsStore
    clock: Clock
    grace: timedelta

    def answer(self, parameters: Mapping[str, list[str]]) -> dict[str, Any]:
        """The answer's body. Errors: Problem(400) naming each wrong parameter, Retry."""
        query = parse_query(parameters)
        return self._body(query, self.store.counts(query))

    def _body(self, query: MetricsQuery, counts: Counts) -> dict[str, Any]:
        return {
            "granularity": query.granularity,
            "start": rfc3339(query.start),
            "end": rfc3339(query.end),
            "dimensions": list(query.dimensions),
            "rows": [
                {"bucket": rfc3339(row.bucket)}
                | dict(zip(query.dimensions, row.values, strict=True))
                | {"count_total": row.count_total}
                for row in counts.rows
            ],
            "truncated": counts.more,
            "watermark": rfc3339(counts.watermark),
            "complete": counts.watermark is not None and counts.watermark >= _last_end(query) + self.grace,
            "generated_at": rfc3339(datetime.fromtimestamp(self.clock.now_ms() / 1000, UTC)),
        }


_LENGTH = {
    Granularity.MINUTE: timedelta(minutes=1),
    Granularity.HOUR: timedelta(hours=1),
    Granularity.DAY: timedelta(days=1),
}


def _last_end(query: MetricsQuery) -> datetime:
    """Where the last bucket that begins before `end` ends: it may reach past it."""
    length = _LENGTH[query.granularity]
    epoch = datetime.fromtimestamp(0, UTC)
    return epoch + -((epoch - query.end) // length) * length


def parse_query(parameters: Mapping[str, list[str]]) -> MetricsQuery:
    """The query that parameters ({name: values}) ask for. Errors: Problem(400), every wrong parameter named."""
    read = _Reader(parameters)
    granularity = read.single("granularity", _granularity, required=True)
    start = read.single("start", _time, required=True)
    end = read.single("end", _time, required=True)
    limit = read.single("limit", _limit)
    club_id = read.several("club_id", _club_id)
    category = read.several("type", _text)
    channel = read.several("channel", _text)
    measure = read.several("measure", _measure)
    asked = read.several("dimensions", _dimensions)
    if start is not None and end is not None and start >= end:
        read.errors.append(FieldError("end", "must be later than start"))
    if read.errors or granularity is None or start is None or end is None:
        names = ", ".join(dict.fromkeys(error.field for error in read.errors))
        raise Problem(400, f"These parameters cannot be used: {names}.", errors=read.errors)
    chosen = {dimension for part in asked for dimension in part} if asked else set(Dimension)
    return MetricsQuery(
        granularity=granularity,
        start=start,
        end=end,
        dimensions=tuple(d for d in Dimension if d in chosen or d is Dimension.MEASURE),
        club_id=club_id,
        type=category,
        channel=channel,
        measure=measure,
        limit=limit or DEFAULT_LIMIT,
    )


class _Reader:
    """Takes parameters apart and keeps what is wrong with them, so that a caller learns all of it at once."""

    def __init__(self, parameters: Mapping[str, list[str]]) -> None:
        allowed = (*_SINGLE, *_REPEATED)
        self._parameters = parameters
        self.errors = [
            FieldError(name, f"is not a parameter; allowed are {', '.join(allowed)}")
            for name in parameters
            if name not in allowed
        ]

    def single[T](self, name: str, parse: Callable[[str], T], *, required: bool = False) -> T | None:
        """A parameter that may be given once; None where it is missing or wrong."""
        values = self._parameters.get(name, [])
        if len(values) > 1:
            self.errors.append(FieldError(name, "must be given once"))
            return None
        if not values:
            if required:
                self.errors.append(FieldError(name, f"is missing: {parse.__doc__}"))
            return None
        return self._parsed(name, values[0], parse)

    def several[T](self, name: str, parse: Callable[[str], T]) -> tuple[T, ...]:
        """A parameter that may be given several times; its good values."""
        values = self._parameters.get(name, [])
        if len(values) > MAX_FILTER_VALUES:
            self.errors.append(FieldError(name, f"may be given at most {MAX_FILTER_VALUES} times"))
            return ()
        parsed = (self._parsed(name, value, parse) for value in values)
        return tuple(value for value in parsed if value is not None)

    def _parsed[T](self, name: str, value: str, parse: Callable[[str], T]) -> T | None:
        try:
            return parse(value)
        except ValueError:
            self.errors.append(FieldError(name, f"{value[:100]!r} cannot be used: {parse.__doc__}"))
            return None


# The docstrings below are what a caller reads.


def _granularity(text: str) -> Granularity:
    """one of minute, hour, day"""
    return Granularity(text)


def _time(text: str) -> datetime:
    """a time as RFC 3339 has it, with an offset, e.g. 2026-11-21T08:00:00Z (a + in a URL is written %2B)"""
    if not _RFC3339.fullmatch(text):
        raise ValueError(text)
    try:
        return datetime.fromisoformat(text.upper()).astimezone(UTC)
    except OverflowError as error:  # the first and the last day there are, in another zone
        raise ValueError(text) from error


def _limit(text: str) -> int:
    """a whole number from 1 to 10000"""
    if not text.isascii() or not text.isdecimal() or len(text) > 5 or not 1 <= int(text) <= MAX_LIMIT:
        raise ValueError(text)
    return int(text)


def _club_id(text: str) -> int:
    """a whole number of 64 bits"""
    if not re.fullmatch(r"-?\d{1,19}", text, re.ASCII) or not -(2**63) <= int(text) < 2**63:
        raise ValueError(text)
    return int(text)


def _text(text: str) -> str:
    """1 to 200 characters, no NUL"""
    if not 1 <= len(text) <= _MAX_TEXT or "\0" in text:
        raise ValueError(text)
    return text


def _measure(text: str) -> str:
    if text not in MEASURES:
        raise ValueError(text)
    return text


_measure.__doc__ = f"one of {', '.join(MEASURES)}"


def _dimensions(text: str) -> tuple[Dimension, ...]:
    """any of club_id, type, channel, measure, several times or with commas between them"""
    return tuple(Dimension(name) for name in text.split(","))


def rfc3339(moment: datetime | None) -> str | None:
    """A moment as answers write it: UTC, milliseconds where it has any; None stays None."""
    if moment is None:
        return None
    precision = "milliseconds" if moment.microsecond else "seconds"
    return moment.astimezone(UTC).isoformat(timespec=precision).replace("+00:00", "Z")
