"""The results of the messages with events to an endpoint.

GET /v1/webhooks/{endpoint_id}/log       attempts, the latest first
GET /v1/webhooks/{endpoint_id}/metrics   counts of attempts by bucket, tenant, event type and status

granularity  a Grain (UTC); required, for the counts only
start, end   RFC 3339 with an offset: attempts in [start, end), or the buckets that begin in it; required for the counts
type         event types; a missing filter matches every value
status       delivered, retried (another attempt follows) or given_up
limit        the maximum number of rows
cursor       next_cursor of the previous page

An endpoint of another club has the same response as a malformed id. Whether an endpoint exists is not asked: what
became of the messages to a deleted one stays readable. Rows of other clubs' events are left out.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypedDict

from masscomm.clock import Clock
from masscomm.domain.grains import Grain
from masscomm.domain.webhooks import AttemptResult
from masscomm.http import parameters as parse
from masscomm.http.cursor import checked_text, encode_cursor, position_in
from masscomm.http.endpoints import endpoint_key
from masscomm.http.parameters import Reader, rfc3339, time_of_ms
from masscomm.http.requested_clubs import seen
from masscomm.http.tenant import Clubs
from masscomm.operations.webhook_log import log_key, log_position, moment_of, ms_of
from masscomm.stores.metrics.port import (
    MetricsStore,
    WebhookCountKey,
    WebhookCountsQuery,
    WebhookLogQuery,
)
from masscomm.texts import Text

DEFAULT_LIMIT, MAX_LIMIT = 50, 200
DEFAULT_COUNTS, MAX_COUNTS = 1_000, 1_000
_FILTERS = ("start", "end", "type", "status", "limit", "cursor")
LOG_PARAMETERS = _FILTERS
METRICS_PARAMETERS = ("granularity", *_FILTERS)


class WebhookLogBodyRow(TypedDict):
    """An attempt to send a message."""

    at: str
    message_id: str
    """The `webhook-id` of a request with this message only."""
    event_id: str
    type: str
    club_id: int
    """The tenant of the event."""
    status: AttemptResult
    attempt: int
    """The number of the attempt, from 1."""
    http_status: int | None
    """The status of the response; null if there was none."""
    duration_ms: int
    error: str | None
    """Why there was no response, or no attempt."""


class WebhookLogBody(TypedDict):
    """Attempts to send messages to an endpoint, the latest first."""

    rows: list[WebhookLogBodyRow]
    truncated: bool
    """Whether there are more rows."""
    next_cursor: str | None
    kept_since: str | None
    """Earlier attempts are deleted; null: none is."""
    generated_at: str


class WebhookCountRow(TypedDict):
    """Attempts of a bucket."""

    bucket: str
    club_id: int
    """The tenant of the events."""
    type: str
    status: AttemptResult
    count_total: int
    duration_ms_mean: int
    """The mean duration of the attempts."""


class WebhookMetricsBody(TypedDict):
    """Counts of the attempts to send messages to an endpoint."""

    granularity: Grain
    rows: list[WebhookCountRow]
    truncated: bool
    """Whether there are more rows."""
    next_cursor: str | None
    kept_since: str | None
    """Counts of earlier buckets are deleted; null: none is."""
    generated_at: str


@dataclass(frozen=True)
class WebhooksRoute:
    """The routes below GET /v1/webhooks/{endpoint_id} that read the metrics database."""

    store: MetricsStore
    clock: Clock

    def log(self, endpoint_id: str, parameters: Mapping[str, list[str]], clubs: Clubs) -> WebhookLogBody:
        """Return a page of the log.

        Raises:
            Problem: 400 with each wrong parameter, 403 or 404.
            Retry: the store is unavailable.
        """
        read = Reader(parameters, LOG_PARAMETERS)
        start, end = _times(read, required=False)
        cursor = read.single("cursor", parse.cursor)
        query = WebhookLogQuery(
            endpoint_id=endpoint_id,
            start=start,
            end=end,
            type=read.several("type", parse.words),
            status=read.several("status", _status),
            limit=read.single("limit", _limit) or DEFAULT_LIMIT,
            club_id=_visible(endpoint_id, clubs),
        )
        read.check()
        identity = replace(query, limit=0)
        if cursor is not None:
            query = replace(query, after=position_in(cursor, identity, read, log_key))
        found = self.store.webhook_log(query)
        last = found.rows[-1].key if found.more else None
        return {
            "rows": [
                {
                    "at": rfc3339(row.key.at),
                    "message_id": row.key.message_id,
                    "event_id": row.event_id,
                    "type": row.type,
                    "club_id": row.club_id,
                    "status": AttemptResult(row.status),
                    "attempt": row.key.attempt,
                    "http_status": row.http_status,
                    "duration_ms": row.duration_ms,
                    "error": row.error or None,
                }
                for row in found.rows
            ],
            "truncated": found.more,
            "next_cursor": encode_cursor(identity, *log_position(last)) if last else None,
            "kept_since": rfc3339(found.kept_since),
            "generated_at": time_of_ms(self.clock.now_ms()),
        }

    def metrics(self, endpoint_id: str, parameters: Mapping[str, list[str]], clubs: Clubs) -> WebhookMetricsBody:
        """Return a page of the counts.

        Raises:
            Problem: 400 with each wrong parameter, 403 or 404.
            Retry: the store is unavailable.
        """
        read = Reader(parameters, METRICS_PARAMETERS)
        granularity = read.single("granularity", parse.choice(Grain), required=True)
        start, end = _times(read, required=True)
        cursor = read.single("cursor", parse.cursor)
        event_type, status = read.several("type", parse.words), read.several("status", _status)
        limit = read.single("limit", _counts_limit) or DEFAULT_COUNTS
        visible = _visible(endpoint_id, clubs)
        if read.errors or granularity is None or start is None or end is None:
            raise read.problem()
        query = WebhookCountsQuery(
            granularity=granularity,
            endpoint_id=endpoint_id,
            start=start,
            end=end,
            type=event_type,
            status=status,
            limit=limit,
            club_id=visible,
        )
        identity = replace(query, limit=0)
        if cursor is not None:
            query = replace(query, after=position_in(cursor, identity, read, _count_key))
        found = self.store.webhook_counts(query)
        last = found.rows[-1].key if found.more else None
        after = encode_cursor(identity, ms_of(last.bucket), last.club_id, last.type, last.status) if last else None
        return {
            "granularity": granularity,
            "rows": [
                {
                    "bucket": rfc3339(row.key.bucket),
                    "club_id": row.key.club_id,
                    "type": row.key.type,
                    "status": AttemptResult(row.key.status),
                    "count_total": row.count_total,
                    "duration_ms_mean": round(row.duration_ms_total / row.count_total),
                }
                for row in found.rows
            ],
            "truncated": found.more,
            "next_cursor": after,
            "kept_since": rfc3339(found.kept_since),
            "generated_at": time_of_ms(self.clock.now_ms()),
        }


_status = parse.choice(AttemptResult)
_limit = parse.whole_number(1, MAX_LIMIT)
_counts_limit = parse.whole_number(1, MAX_COUNTS)


def _visible(endpoint_id: str, clubs: Clubs) -> tuple[int, ...]:
    """Return the filter for the clubs of the events that the caller may see. Raises Problem with status 403 or 404."""
    visible = seen((), clubs)
    endpoint_key(endpoint_id, clubs)
    return visible  # guard: tenancy.events_of_an_endpoint


def _times(read: Reader, *, required: bool) -> tuple[datetime | None, datetime | None]:
    start, end = (read.single(name, parse.time, required=required) for name in ("start", "end"))
    if start is not None and end is not None and start >= end:
        read.refuse("end", Text.END_NOT_LATER.filled())
    return start, end


def _count_key(key: list[Any]) -> WebhookCountKey:
    match key:
        case [int() as at_ms, int() as club_id, str() as event_type, str() as status] if abs(club_id) < 2**63:
            return WebhookCountKey(moment_of(at_ms), club_id, checked_text(event_type), checked_text(status))
    raise ValueError("not a row")
