"""GET /v1/metrics: counts by bucket and dimensions.

granularity  a Grain (UTC); required
start, end   RFC 3339 with an offset: the buckets that begin in [start, end); required
time_zone    an IANA name: day buckets begin at midnight in this zone. They are summed from hour or minute rows; the
             request is refused if the sums cannot be exact
club_id, type, channel, measure, reason   filters, each with any number of values; a missing filter matches every value
measures     the filter `measure`, with its values separated by commas
dimensions   the columns of club_id, type, channel and measure by which rows are grouped, repeated or separated by
             commas; by default all four. `measure` is always included, because a sum of different measures has no
             meaning. With `reason`, or its filter, only notifications with a reason are counted, by hour or day
order        bucket (the default), -bucket or -count_total; equal rows are ordered by bucket and dimensions
fill         zero: a row of 0 for each bucket and combination of dimensions without a count. The combinations are those
             of the filters' values if every dimension has a filter, else those that occur in the range
limit        the maximum number of rows, by default 1000
cursor       next_cursor of the previous page: the key of its last row. So no row is repeated after later counts. In the
             order count_total, a page omits rows whose count has grown past the cursor meanwhile

complete is true once the watermark is later than the end of the last bucket by the grace (grace_ms). After that, only
records that reach their topic late change rows. revised has the complete buckets of this page that late records have
changed, each with the time of the last revision (for the requested clubs; at most 1,000 buckets). revised_at is the
latest of these times.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypedDict, cast
from zoneinfo import ZoneInfo

from functions.metrics_handler.buckets import Buckets, time_zone, utc_buckets, zone_days
from functions.metrics_handler.measures import parse_measure, parse_measures
from masscomm.clock import Clock
from masscomm.domain.grains import Grain, ceiling, floor
from masscomm.domain.statuses import Reason
from masscomm.http import parameters as parse
from masscomm.http.cursor import checked_text, encode_cursor, position_in
from masscomm.http.parameters import Reader, rfc3339, time_of_ms
from masscomm.http.problem import FieldError, Problem
from masscomm.http.requested_clubs import seen
from masscomm.http.tenant import Clubs, parse_club_id
from masscomm.stores.metrics.port import (
    OF_COUNTS,
    Bounds,
    Count,
    Counts,
    Dimension,
    MetricsQuery,
    MetricsStore,
    Order,
    TooMuch,
    check_filled,
    is_complete,
)
from masscomm.texts import Text, text_of

DEFAULT_LIMIT = 1_000
# The maximum size of a count in a cursor: a sum of 64-bit counts fits.
_COUNT_BITS = 100
MAX_LIMIT = 10_000

_SINGLE = ("granularity", "start", "end", "time_zone", "order", "fill", "limit", "cursor")
_REPEATED = ("club_id", "type", "channel", "measure", "measures", "reason", "dimensions")
PARAMETERS = (*_SINGLE, *_REPEATED)


class CountedRow(TypedDict, total=False):
    """A bucket with its count. Only the dimensions of the query are present."""

    bucket: str
    club_id: int
    type: str
    channel: str
    measure: str
    reason: str
    count_total: int


class RevisedBucket(TypedDict):
    """A complete bucket that late records have changed."""

    bucket: str
    revised_at: str


class MetricsBody(TypedDict):
    """Counts by bucket and dimensions."""

    granularity: Grain
    start: str
    end: str
    time_zone: str
    dimensions: list[Dimension]
    rows: list[CountedRow]
    truncated: bool
    """Whether there are more rows."""
    next_cursor: str | None
    watermark: str | None
    """The counts include all records that were in the topics at this time."""
    grace_ms: int
    """The time between the end of a bucket and its completeness."""
    complete: bool
    """Whether the watermark is later than the end of the last bucket by the grace."""
    revised_at: str | None
    revised: list[RevisedBucket]
    kept_since: str | None
    """Counts of earlier buckets are deleted; null: none is. Days of a time zone are sums of such counts."""
    generated_at: str


@dataclass(frozen=True)
class Asked:
    """A query as the caller requested it."""

    # The grain (minute, hour or day) of the requested buckets. The store's query has the grain of the stored rows that
    # are read.
    granularity: Grain
    start: datetime
    end: datetime
    # The time zone of day buckets; None is UTC.
    zone: ZoneInfo | None
    # The end of the last requested time bucket.
    last_end: datetime
    # The store's query for all pages together.
    whole: MetricsQuery
    # The last row of the previous page.
    after: Count | None = None

    @property
    def page(self) -> MetricsQuery:
        """Return the query for this page. If rows are ordered by bucket, it omits the buckets that earlier pages
        have completed.
        """
        query, after = self.whole, self.after
        if after is None:
            return query
        if query.fill or query.order is Order.LARGEST:
            return replace(query, after=after)
        if query.order is Order.BUCKET:
            return replace(query, after=after, start=after.bucket)
        if query.buckets is None:
            return replace(query, after=after, end=after.bucket + query.granularity.length)
        end = next((moment for moment in query.buckets if moment > after.bucket), query.end)
        return replace(query, after=after, end=end)

    def written(self, bucket: datetime) -> str:
        """Return the beginning of a bucket in the requested time zone."""
        return rfc3339(bucket) if self.zone is None else bucket.astimezone(self.zone).isoformat()


@dataclass(frozen=True)
class MetricsRoute:
    """The route GET /v1/metrics. `grace` is the time after the end of a bucket until it counts as complete; the
    longer one of this and the stream's grace applies.
    """

    store: MetricsStore
    clock: Clock
    grace: timedelta

    def answer(self, parameters: Mapping[str, list[str]], clubs: Clubs) -> MetricsBody:
        """Return the response body, for the clubs that the caller may read.

        Raises:
            Problem: 400 with each wrong parameter or the exceeded bound, or 403.
            Retry: the store is unavailable.
        """
        asked = parse_query(parameters, clubs)
        try:
            counts = self.store.counts(asked.page)
        except TooMuch as error:
            raise too_much(error) from error
        return self._body(asked, counts)

    def _body(self, asked: Asked, counts: Counts) -> MetricsBody:
        query = asked.whole
        return {
            "granularity": asked.granularity,
            "start": rfc3339(asked.start),
            "end": rfc3339(asked.end),
            "time_zone": asked.zone.key if asked.zone else "UTC",
            "dimensions": list(query.dimensions),
            "rows": [
                cast(
                    "CountedRow",
                    {"bucket": asked.written(row.bucket)}
                    | dict(zip(query.dimensions, row.values, strict=True))
                    | {"count_total": row.count_total},
                )
                for row in counts.rows
            ],
            "truncated": counts.more,
            "next_cursor": _cursor_after(query, counts.rows[-1]) if counts.more else None,
            "watermark": rfc3339(counts.watermark),
            "grace_ms": max(self.grace, counts.grace) // timedelta(milliseconds=1),
            "complete": is_complete(counts.watermark, asked.last_end, self.grace, counts.grace),
            "revised_at": rfc3339(max(counts.revised.values(), default=None)),
            "revised": [
                {"bucket": asked.written(bucket), "revised_at": rfc3339(at)} for bucket, at in counts.revised.items()
            ],
            "kept_since": rfc3339(counts.kept_since),
            "generated_at": time_of_ms(self.clock.now_ms()),
        }


def too_much(error: TooMuch) -> Problem:
    """Return the problem response of a query that exceeds its bounds."""
    message = Text.QUERY_TOO_LARGE.filled(reason=text_of(error))
    return Problem(400, message, errors=[FieldError("start", message)])


def parse_query(parameters: Mapping[str, list[str]], clubs: Clubs) -> Asked:
    """Parse the query parameters, {name: values}.

    Raises:
        Problem: 400 with each wrong parameter or the exceeded bound; 403 for clubs that are not permitted.
    """
    read = Reader(parameters, PARAMETERS)
    granularity = read.single("granularity", _granularity, required=True)
    start = read.single("start", parse.time, required=True)
    end = read.single("end", parse.time, required=True)
    zone = read.single("time_zone", time_zone)
    order = read.single("order", _order)
    fill = read.single("fill", _fill)
    limit = read.single("limit", _limit)
    cursor = read.single("cursor", parse.cursor)
    club_id = read.several("club_id", parse_club_id)
    category = read.several("type", parse.words)
    channel = read.several("channel", parse.words)
    measure = read.several("measure", parse_measure)
    measures = read.several("measures", parse_measures)
    reason = read.several("reason", _reason)
    asked = read.several("dimensions", _dimensions)
    if start is not None and end is not None and start >= end:
        read.refuse("end", Text.END_NOT_LATER.filled())
    if zone is not None and granularity not in (None, Grain.DAY):
        read.refuse("time_zone", Text.ZONE_NEEDS_DAYS.filled(granularity=granularity))
    if read.given("measure") and read.given("measures"):
        read.refuse("measures", Text.MEASURE_TWICE.filled())
    if read.errors or granularity is None or start is None or end is None:
        raise read.problem()
    chosen = {dimension for part in asked for dimension in part} if asked else set(OF_COUNTS)
    by_reason = Dimension.REASON in chosen or bool(reason)
    if by_reason and granularity is Grain.MINUTE:
        read.refuse("granularity", Text.REASONS_BY_HOUR.filled())
        raise read.problem()
    try:
        found = _on_rows(granularity, start, end, zone, filled=fill is not None, by_reason=by_reason)
    except ValueError as error:
        read.refuse("time_zone", Text.ZONE_INEXACT.filled(reason=text_of(error)))
        raise read.problem() from error
    found = replace(
        found,
        whole=replace(
            found.whole,
            dimensions=tuple(d for d in Dimension if d in chosen or d is Dimension.MEASURE),
            club_id=seen(club_id, clubs),
            type=category,
            channel=channel,
            measure=measure or tuple(dict.fromkeys(each for part in measures for each in part)),
            reason=reason,
            order=order or Order.BUCKET,
            fill=fill is not None,
            limit=limit or DEFAULT_LIMIT,
        ),
    )
    if cursor is None:
        return found
    return position_in(
        cursor, _identity(found.whole), read, lambda key: _continued(found, _row_before(key, found.whole))
    )


def _cursor_after(query: MetricsQuery, row: Count) -> str:
    return encode_cursor(_identity(query), int(row.bucket.timestamp()), list(row.values), row.count_total)


def _row_before(key: list[Any], query: MetricsQuery) -> Count:
    """Return the last row of the page before a cursor. Raises ValueError if no row of the query can have this key."""
    match key:
        case [int() as seconds, list() as values, int() as count]:
            if len(values) != len(query.dimensions) or not all(map(_fits, query.dimensions, values)):
                raise ValueError("not this query's dimensions")
            if count.bit_length() > _COUNT_BITS or abs(seconds) >= 2**36:
                raise ValueError("no such row")
            return Count(datetime.fromtimestamp(seconds, UTC), tuple(values), int(count))
        case _:
            raise ValueError("not a row")


def _identity(query: MetricsQuery) -> object:
    """Return the part of a query that is the same for all its pages."""
    same = repr(replace(query, after=None, limit=0, buckets=None, fill=False))
    buckets = None if query.buckets is None else [int(moment.timestamp()) for moment in query.buckets]
    return same, query.fill, buckets


def _fits(dimension: Dimension, value: object) -> bool:
    """Return whether a dimension can have the value. Raises ValueError for a text that cannot be stored."""
    if dimension is Dimension.CLUB_ID:
        return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63
    return isinstance(value, str) and checked_text(value) == value


def _on_rows(
    granularity: Grain, start: datetime, end: datetime, zone: ZoneInfo | None, *, filled: bool, by_reason: bool
) -> Asked:
    """Choose the stored rows to read. Raises ValueError if the zone's days cannot be summed exactly, Problem if
    there are too many buckets.
    """
    buckets: Buckets | None = None
    if zone is not None:
        buckets = zone_days(zone, start, end)
    elif filled or (by_reason and granularity is Grain.DAY):
        try:
            check_filled((end - start) // granularity.length, Bounds())
        except TooMuch as error:
            raise too_much(error) from error
        buckets = utc_buckets(granularity, start, end)
    if by_reason and buckets is not None:
        if buckets.source is Grain.MINUTE:
            raise ValueError(Text.REASONS_BY_HOUR.filled())
        buckets = replace(buckets, source=Grain.HOUR)
    if buckets is None:
        query = MetricsQuery(granularity=granularity, start=start, end=end)
        return Asked(granularity, start, end, zone, ceiling(end, granularity.length), query)
    first = buckets.starts[0] if buckets.starts else buckets.end
    query = MetricsQuery(granularity=buckets.source, start=first, end=buckets.end, buckets=buckets.starts)
    return Asked(granularity, start, end, zone, buckets.end, query)


def _continued(asked: Asked, after: Count) -> Asked:
    """Return the query continued after a row. Raises ValueError if the row's bucket does not belong to the query."""
    query = asked.whole
    own = floor(after.bucket, query.granularity.length)
    known = after.bucket in query.buckets if query.buckets is not None else after.bucket == own
    if not known or not query.start <= after.bucket < query.end:
        raise ValueError("no such bucket")
    return replace(asked, after=after)


# The API description shows the docstrings of the following parsers to callers.


_granularity = parse.choice(Grain)
_reason = parse.choice(Reason)
_order = parse.choice(Order)


@parse.of_form(Text.FORM_ZERO.filled())
def _fill(text: str) -> str:
    if text != "zero":
        raise ValueError(text)
    return text


_limit = parse.whole_number(1, MAX_LIMIT)


@parse.of_form(Text.FORM_CHOICES.filled(choices=", ".join(Dimension)))
def _dimensions(text: str) -> tuple[Dimension, ...]:
    return tuple(Dimension(name) for name in text.split(","))
