"""GET /v1/metrics/latency: how long notifications took from due to sent, and from due to delivered.

granularity  a Grain (UTC); required
start, end   RFC 3339 with an offset: the buckets that begin in [start, end); required
type, channel, measure   filters, each with any number of values; a missing filter matches every value
dimensions   the columns of type, channel and measure by which rows are grouped, repeated or separated by commas; by
             default all three. `measure` is always included, because different measures have no common latency

A notification is due when its send was requested or, if that is later, at the send's own time or at the end of what
held it: quiet hours, a pace, a pause, the window of a digest. It counts in the bucket in which it had the status. The
numbers are of all clubs together, for callers that may see every club.

complete is true once the watermark is later than the end of the last bucket by the grace, as for GET /v1/metrics.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TypedDict, cast

from functions.metrics_handler.routes.metrics import too_much
from masscomm.clock import Clock
from masscomm.domain.grains import Grain, ceiling
from masscomm.domain.latencies import ERROR, MEASURED, quantiles
from masscomm.http import parameters as parse
from masscomm.http.parameters import Reader, rfc3339, time_of_ms
from masscomm.http.problem import Problem
from masscomm.http.requested_clubs import seen
from masscomm.http.tenant import Clubs
from masscomm.stores.metrics.port import Dimension, Latencies, LatencyQuery, MetricsStore, TooMuch, is_complete
from masscomm.texts import Text

DIMENSIONS = (Dimension.TYPE, Dimension.CHANNEL, Dimension.MEASURE)
PARAMETERS = ("granularity", "start", "end", "type", "channel", "measure", "dimensions")
_SHARES = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99}


class LatencyWholeRow(TypedDict, total=False):
    """Latencies in milliseconds. Only the dimensions of the query are present."""

    type: str
    channel: str
    measure: str
    count_total: int
    """The number of notifications whose latency is known."""
    p50_ms: float
    """Half of the notifications took at most this long."""
    p95_ms: float
    p99_ms: float


class LatencyBodyRow(LatencyWholeRow, total=False):
    """The latencies of a bucket in milliseconds. Only the dimensions of the query are present."""

    bucket: str


class LatencyBody(TypedDict):
    """Latencies by bucket and dimensions."""

    granularity: Grain
    start: str
    end: str
    dimensions: list[Dimension]
    rows: list[LatencyBodyRow]
    whole: list[LatencyWholeRow]
    """The latencies of all buckets together."""
    error: float
    """The largest relative error of a latency."""
    watermark: str | None
    """The latencies include all records that were in the topics at this time."""
    grace_ms: int
    """The time between the end of a bucket and its completeness."""
    complete: bool
    """Whether the watermark is later than the end of the last bucket by the grace."""
    kept_since: str | None
    """Latencies of earlier buckets are not stored; null: all are."""
    generated_at: str


@dataclass(frozen=True)
class LatencyRoute:
    """The route GET /v1/metrics/latency. `grace` has the same meaning as in MetricsRoute."""

    store: MetricsStore
    clock: Clock
    grace: timedelta

    def answer(self, parameters: Mapping[str, list[str]], clubs: Clubs) -> LatencyBody:
        """Return the response body, for a caller that may see every club.

        Raises:
            Problem: 400 with each wrong parameter or the exceeded bound, or 403.
            Retry: the store is unavailable.
        """
        seen((), clubs)
        if not clubs.every:  # guard: tenancy.latencies
            raise Problem(403, Text.EVERY_CLUB_SEEN.filled())
        query = _parsed(parameters)
        try:
            found = self.store.latencies(query)
        except TooMuch as error:
            raise too_much(error) from error
        return self._body(query, found)

    def _body(self, query: LatencyQuery, found: Latencies) -> LatencyBody:
        last_end = ceiling(query.end, query.granularity.length)
        return {
            "granularity": query.granularity,
            "start": rfc3339(query.start),
            "end": rfc3339(query.end),
            "dimensions": list(query.dimensions),
            "rows": [
                cast("LatencyBodyRow", {"bucket": rfc3339(row.bucket)} | _columns(query, row.values, row.bins))
                for row in found.rows
            ],
            "whole": [cast("LatencyWholeRow", _columns(query, values, bins)) for values, bins in _whole(found).items()],
            "error": ERROR,
            "watermark": rfc3339(found.watermark),
            "grace_ms": max(self.grace, found.grace) // timedelta(milliseconds=1),
            "complete": is_complete(found.watermark, last_end, self.grace, found.grace),
            "kept_since": rfc3339(found.kept_since),
            "generated_at": time_of_ms(self.clock.now_ms()),
        }


def _whole(found: Latencies) -> dict[tuple[str, ...], Counter[int]]:
    """Return the bins of all buckets together, by the values of the dimensions in their order."""
    sums: defaultdict[tuple[str, ...], Counter[int]] = defaultdict(Counter)
    for row in found.rows:
        sums[row.values].update(row.bins)
    return dict(sorted(sums.items()))


def _columns(query: LatencyQuery, values: tuple[str, ...], bins: Mapping[int, int]) -> dict[str, object]:
    return {
        **dict(zip(query.dimensions, values, strict=True)),
        "count_total": sum(bins.values()),
        **dict(zip(_SHARES, quantiles(bins, list(_SHARES.values())), strict=True)),
    }


def _parsed(parameters: Mapping[str, list[str]]) -> LatencyQuery:
    read = Reader(parameters, PARAMETERS)
    granularity = read.single("granularity", parse.choice(Grain), required=True)
    start = read.single("start", parse.time, required=True)
    end = read.single("end", parse.time, required=True)
    category, channel = read.several("type", parse.words), read.several("channel", parse.words)
    measure = read.several("measure", parse_status)
    asked = read.several("dimensions", _dimensions)
    if start is not None and end is not None and start >= end:
        read.refuse("end", Text.END_NOT_LATER.filled())
    if read.errors or granularity is None or start is None or end is None:
        raise read.problem()
    chosen = {dimension for part in asked for dimension in part} if asked else set(DIMENSIONS)
    length = granularity.length
    return LatencyQuery(
        granularity=granularity,
        # A bucket that begins earlier is left out as a whole, also if its hours are read.
        start=ceiling(start, length),
        end=ceiling(end, length),
        dimensions=tuple(each for each in DIMENSIONS if each in chosen or each is Dimension.MEASURE),
        type=category,
        channel=channel,
        measure=measure,
    )


parse_status = parse.choice(MEASURED)


@parse.of_form(Text.FORM_CHOICES.filled(choices=", ".join(DIMENSIONS)))
def _dimensions(text: str) -> tuple[Dimension, ...]:
    return tuple(DIMENSIONS[DIMENSIONS.index(Dimension(name))] for name in text.split(","))
