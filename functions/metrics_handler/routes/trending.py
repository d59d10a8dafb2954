"""GET /v1/metrics/trending: the categories or clubs with the most notifications in the last minutes.

by           type (the default) or club_id
window       minutes, by default 15. The last one is the current minute, so its count still grows
measure      the measure to compare, by default requested
top          the maximum number of rows, by default 10
club_id, type, channel   filters, each with any number of values

The counts are the sums of counts_minute. Each row has count_total of the window, and in `before` the count of the
previous window. Equal rows are ordered by name.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal, TypedDict, cast

from functions.metrics_handler.measures import parse_measure
from functions.metrics_handler.routes.metrics import too_much
from masscomm.clock import Clock
from masscomm.domain.grains import Grain, floor
from masscomm.domain.measures import REQUESTED
from masscomm.http import parameters as parse
from masscomm.http.parameters import Reader, rfc3339
from masscomm.http.requested_clubs import seen
from masscomm.http.tenant import Clubs, parse_club_id
from masscomm.stores.metrics.port import Dimension, MetricsQuery, MetricsStore, TooMuch, is_complete

DEFAULT_WINDOW_MIN, MAX_WINDOW_MIN = 15, 1_440
DEFAULT_TOP, MAX_TOP = 10, 100

PARAMETERS = ("by", "window", "measure", "top", "club_id", "type", "channel")


class TrendingRow(TypedDict, total=False):
    """A category or a club with its counts."""

    type: str
    club_id: int
    count_total: int
    before: int
    """The count of the previous window."""


class TrendsBody(TypedDict):
    """The categories or clubs with the most notifications in a window."""

    by: Literal["type", "club_id"]
    measure: str
    start: str
    end: str
    rows: list[TrendingRow]
    watermark: str | None
    """The counts include all records that were in the topics at this time."""
    grace_ms: int
    complete: bool
    generated_at: str


@dataclass(frozen=True)
class TrendingRoute:
    """The route GET /v1/metrics/trending. `grace` has the same meaning as in MetricsRoute."""

    store: MetricsStore
    clock: Clock
    grace: timedelta

    def answer(self, parameters: Mapping[str, list[str]], clubs: Clubs) -> TrendsBody:
        """Return the response body, for the clubs that the caller may read.

        Raises:
            Problem: 400 with each wrong parameter or the exceeded bound, or 403.
            Retry: the store is unavailable.
        """
        now = datetime.fromtimestamp(self.clock.now_ms() / 1000, UTC)
        query, middle = _parsed(parameters, clubs, now)
        try:
            trends = self.store.trends(query, middle)
        except TooMuch as error:
            raise too_much(error) from error
        (by,) = query.dimensions
        return {
            "by": cast('Literal["type", "club_id"]', by.value),
            "measure": query.measure[0],
            "start": rfc3339(middle),
            "end": rfc3339(query.end),
            "rows": [
                cast("TrendingRow", {by: row.value, "count_total": row.count_total, "before": row.before})
                for row in trends.rows
            ],
            "watermark": rfc3339(trends.watermark),
            "grace_ms": max(self.grace, trends.grace) // timedelta(milliseconds=1),
            "complete": is_complete(trends.watermark, query.end, self.grace, trends.grace),
            "generated_at": rfc3339(now),
        }


def _parsed(parameters: Mapping[str, list[str]], clubs: Clubs, now: datetime) -> tuple[MetricsQuery, datetime]:
    """Return one query for both windows, and the beginning of the later window."""
    read = Reader(parameters, PARAMETERS)
    by = read.single("by", _by) or Dimension.TYPE
    window = read.single("window", _window) or DEFAULT_WINDOW_MIN
    measure = read.single("measure", parse_measure) or REQUESTED
    top = read.single("top", _top) or DEFAULT_TOP
    club_id = read.several("club_id", parse_club_id)
    category = read.several("type", parse.words)
    channel = read.several("channel", parse.words)
    read.check()
    minute = Grain.MINUTE.length
    end = floor(now, minute) + minute
    query = MetricsQuery(
        granularity=Grain.MINUTE,
        start=end - 2 * window * minute,
        end=end,
        dimensions=(by,),
        club_id=seen(club_id, clubs),
        type=category,
        channel=channel,
        measure=(measure,),
        limit=top,
    )
    return query, end - window * minute


_by = parse.choice((Dimension.TYPE, Dimension.CLUB_ID))
_window = parse.whole_number(1, MAX_WINDOW_MIN)
_top = parse.whole_number(1, MAX_TOP)
