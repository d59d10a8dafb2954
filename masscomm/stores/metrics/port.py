"""The interface of the metrics store, with its queries and results."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Protocol

from masscomm.domain.grains import LATENCY_GRAINS, REASONS_TABLE, Grain
from masscomm.domain.send_states import SendCounts, SendState
from masscomm.texts import Text


class Dimension(StrEnum):
    """A dimension by which counts are grouped, in addition to the bucket."""

    CLUB_ID = "club_id"
    TYPE = "type"
    CHANNEL = "channel"
    MEASURE = "measure"
    # Why notifications were not sent. Only those with a reason are counted by it, in hours.
    REASON = "reason"


# The dimensions of all counts.
OF_COUNTS = (Dimension.CLUB_ID, Dimension.TYPE, Dimension.CHANNEL, Dimension.MEASURE)


class Order(StrEnum):
    """The order of rows. Equal rows are ordered by time bucket and dimensions, ascending; texts are compared by code
    point.
    """

    BUCKET = "bucket"
    LATEST = "-bucket"
    LARGEST = "-count_total"


@dataclass(frozen=True)
class Count:
    """The number of notifications in one time bucket."""

    bucket: datetime
    # The values of the query's dimensions, in their order.
    values: tuple[int | str, ...]
    count_total: int


@dataclass(frozen=True, kw_only=True)
class MetricsQuery:
    """Rows of a grain that begin in [start, end) and match every filter, summed over all columns except the dimensions.

    granularity  the grain of the rows that are read
    buckets      the beginnings of the response's buckets, ascending; the last ends at `end`. None: those of the rows
    dimensions   in the order of the enumeration
    club_id, type, channel, measure, reason   filters; an empty filter matches every value
    fill         whether to add a row of 0 for each bucket and combination of dimensions without a count; it needs
                 `buckets`. The combinations are those of the filters' values if every dimension has a filter, else
                 those in the range
    after        the last row of the previous page
    limit        the maximum number of rows
    """

    granularity: Grain
    start: datetime
    end: datetime
    buckets: tuple[datetime, ...] | None = None
    dimensions: tuple[Dimension, ...] = OF_COUNTS
    club_id: tuple[int, ...] = ()
    type: tuple[str, ...] = ()
    channel: tuple[str, ...] = ()
    measure: tuple[str, ...] = ()
    reason: tuple[str, ...] = ()
    order: Order = Order.BUCKET
    fill: bool = False
    after: Count | None = None
    limit: int = 1000

    def __post_init__(self) -> None:
        if self.fill and self.buckets is None:
            raise ValueError("only named buckets can be filled")
        if self.is_by_reason and self.granularity is not Grain.HOUR:
            raise ValueError("reasons are counted by hour")

    @property
    def is_by_reason(self) -> bool:
        """Return whether only notifications with a reason are counted."""
        return Dimension.REASON in self.dimensions or bool(self.reason)

    @property
    def table(self) -> str:
        """Return the name of the table that is read."""
        return REASONS_TABLE if self.is_by_reason else self.granularity.table

    @property
    def named_combinations(self) -> bool:
        """Return whether the filters alone determine the possible combinations of dimensions."""
        return all(getattr(self, dimension) for dimension in self.dimensions)


@dataclass(frozen=True)
class Bounds:
    """The maximum cost of one query."""

    # The maximum number of stored rows that match.
    read: int = 1_000_000
    # The maximum number of rows in a response that is filled with rows of 0.
    filled: int = 100_000
    # The maximum number of rows in a response with latencies, which has no pages.
    latencies: int = 10_000


# The maximum number of revised time buckets (complete ones that late records have changed) in a result.
MAX_REVISED = 1_000


class TooMuch(Exception):
    """A query exceeds its bounds; the message names the bound."""


def check_read(rows: int, bounds: Bounds) -> None:
    """Check the number of rows to read. Raises TooMuch."""
    if rows > bounds.read:
        raise TooMuch(Text.ROWS_READ.filled(maximum=bounds.read))


def check_filled(rows: int, bounds: Bounds) -> None:
    """Check the number of rows after filling with rows of 0. Raises TooMuch."""
    if rows > bounds.filled:
        raise TooMuch(Text.ROWS_FILLED.filled(maximum=bounds.filled))


def check_latencies(rows: int, bounds: Bounds) -> None:
    """Check the number of rows in a response with latencies. Raises TooMuch."""
    if rows > bounds.latencies:
        raise TooMuch(Text.ROWS_ANSWERED.filled(maximum=bounds.latencies))


def is_complete(watermark: datetime | None, end: datetime, *graces: timedelta) -> bool:
    """Return whether the watermark is later than `end` by the longest grace."""
    return watermark is not None and watermark >= end + max(graces)


@dataclass(frozen=True)
class Counts:
    """The first rows of a query's result, in the query's order."""

    rows: Sequence[Count]
    # Whether the result has more rows than these.
    more: bool
    # The counts include all records that were in the topics at this time; None if no record was ever counted.
    watermark: datetime | None
    # The minimum time, as the metrics job reports it, between the end of a bucket and its completeness.
    grace: timedelta = timedelta(0)
    # The beginning of each revised bucket → the time of its last change after it was complete; at most MAX_REVISED
    # buckets of the query's clubs.
    revised: Mapping[datetime, datetime] = field(default_factory=dict)
    # Rows of earlier buckets of the grain are deleted; None: none is.
    kept_since: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class LatencyQuery:
    """Latencies in the buckets that begin in [start, end), summed over all columns except the dimensions.

    Attributes:
        granularity: The grain of the buckets of the response.
        dimensions: Those of TYPE, CHANNEL and MEASURE that are kept, in the order of the enumeration.
        type, channel, measure: Filters; an empty filter matches every value.
    """

    granularity: Grain
    start: datetime
    end: datetime
    dimensions: tuple[Dimension, ...] = (Dimension.TYPE, Dimension.CHANNEL, Dimension.MEASURE)
    type: tuple[str, ...] = ()
    channel: tuple[str, ...] = ()
    measure: tuple[str, ...] = ()

    @property
    def source(self) -> Grain:
        """Return the grain of the rows that are read: a day is the sum of its hours."""
        return min(self.granularity, LATENCY_GRAINS[-1], key=lambda grain: grain.length)


@dataclass(frozen=True)
class LatencyRow:
    """The latencies of a bucket: the number of notifications by bin (masscomm.domain.latencies)."""

    bucket: datetime
    # The values of the query's dimensions, in their order.
    values: tuple[str, ...]
    bins: Mapping[int, int]


@dataclass(frozen=True)
class Latencies:
    """Rows in the order of bucket and dimensions; texts are compared by code point."""

    rows: Sequence[LatencyRow]
    watermark: datetime | None
    grace: timedelta = timedelta(0)
    # No latency of an earlier bucket is stored; None: all are.
    kept_since: datetime | None = None


@dataclass(frozen=True)
class Trend:
    value: int | str
    # The notifications in the window.
    count_total: int
    # The notifications in the previous window of the same length.
    before: int


@dataclass(frozen=True)
class Trends:
    """The rows with the most notifications; rows with equal counts are ordered by value."""

    rows: Sequence[Trend]
    watermark: datetime | None
    grace: timedelta = timedelta(0)


@dataclass(frozen=True)
class StreamPosition:
    """The position of the stream of counted batches (micro-batches of the metrics job): the id and the time of the
    last batch, None before the first one.
    """

    batch_id: int | None
    finished_at: datetime | None
    watermark: datetime | None
    grace: timedelta = timedelta(0)


@dataclass
class ChannelTotals:
    """The totals of a send on one channel. `by_status` is {status: {reason, or '' without one: notifications}}."""

    requested: int = 0
    duplicates: int = 0
    queued: int = 0
    by_status: dict[str, dict[str, int]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class SendTotals:
    """The totals of a send. `requested_at` and `chunk_count` are None until one of its chunks has been counted."""

    send_id: str
    club_id: int
    type: str
    requested_at: datetime | None
    chunk_count: int | None
    chunks: int
    channels: dict[str, ChannelTotals]
    watermark: datetime | None
    # The states that the totals sum, of the first chunk: channel and number of the block → stored codes
    # (masscomm.domain.notification_codes). They are read on demand.
    states: Mapping[tuple[str, int], bytes] = field(default_factory=dict)

    @property
    def together(self) -> ChannelTotals:
        """Return the totals summed over all channels."""
        together = ChannelTotals()
        by_status: dict[str, Counter[str]] = {}
        for totals in self.channels.values():
            together.requested += totals.requested
            together.duplicates += totals.duplicates
            together.queued += totals.queued
            for status, reasons in totals.by_status.items():
                by_status.setdefault(status, Counter()).update(reasons)
        together.by_status = {status: dict(reasons) for status, reasons in by_status.items()}
        return together

    @property
    def counts(self) -> SendCounts:
        """Return the counts that determine the send's state."""
        together = self.together
        return SendCounts(
            chunk_count=self.chunk_count,
            chunks=self.chunks,
            requested=together.requested,
            queued=together.queued,
            by_status={status: sum(reasons.values()) for status, reasons in together.by_status.items()},
        )


@dataclass(frozen=True, order=True)
class SendListKey:
    """The sort key of a row in the list of sends."""

    requested_at: datetime
    send_id: str


@dataclass(frozen=True, kw_only=True)
class SendRow:
    """One send in the list of sends, with its numbers of notifications on all channels."""

    key: SendListKey
    club_id: int
    type: str
    # The state by counts: the store does not know the controls of a send.
    state: SendState
    requested: int
    # The number of notifications with a final status, published and cancelled ones included.
    terminal: int
    published: int
    cancelled: int
    suppressed: int
    failed: int
    # The number of notifications that are part of digests.
    digested: int


@dataclass(frozen=True, kw_only=True)
class SendListQuery:
    """Sends of these clubs that were requested in [start, end), the latest first.

    A `club_id` of None is every club; () is none. A `start` or `end` of None is open. An empty `type` or `state` (by
    counts) matches every value.
    """

    club_id: tuple[int, ...] | None
    start: datetime | None = None
    end: datetime | None = None
    type: tuple[str, ...] = ()
    state: tuple[SendState, ...] = ()
    # Whether only messages of digests are listed, or none of them; None: they are listed with the others.
    digests: bool | None = False
    after: SendListKey | None = None
    limit: int = 100


@dataclass(frozen=True)
class SendList:
    rows: Sequence[SendRow]
    # Whether there are more rows.
    more: bool
    watermark: datetime | None
    # Sends that were counted first before this time are deleted; None: none is.
    kept_since: datetime | None = None
    # Small sends that have ended and did not change since this time are deleted; None: none is.
    small_kept_since: datetime | None = None


@dataclass(frozen=True, order=True)
class LogKey:
    """The sort key of a row in a user's log of notifications."""

    # The time at which the notification reached its status.
    at: datetime
    send_id: str
    channel: str


@dataclass(frozen=True)
class LogRow:
    """One notification in a user's log. The reason is '' if its status needs none."""

    key: LogKey
    club_id: int
    type: str
    status: str
    reason: str
    # The fields of spark_metrics.common.sources.DECISION that are known; None: no decision is stored.
    decision: Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class LogQuery:
    """A query for a user's notifications, the latest first. A `start` or `end` of None is open; an empty filter
    matches everything.
    """

    user_id: int
    start: datetime | None = None
    end: datetime | None = None
    club_id: tuple[int, ...] = ()
    channel: tuple[str, ...] = ()
    after: LogKey | None = None
    limit: int = 100


@dataclass(frozen=True)
class Log:
    rows: Sequence[LogRow]
    # Whether the log has more rows than these.
    more: bool
    watermark: datetime | None
    # The beginning of the stored log; None: the log is complete.
    since: datetime | None = None
    grace: timedelta = timedelta(0)


@dataclass(frozen=True, order=True)
class RecipientKey:
    """The sort key of a notification in the list of a send's recipients."""

    user_id: int
    channel: str


@dataclass(frozen=True)
class RecipientRow:
    """A notification of a send with its status, and the time at which it reached it. The reason is '' if the status
    needs none.
    """

    key: RecipientKey
    status: str
    reason: str
    at: datetime
    # As in LogRow.
    decision: Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class RecipientQuery:
    """A query for the notifications of a club's send, in the order of their keys. An empty filter matches
    everything.
    """

    send_id: str
    club_id: int
    status: tuple[str, ...] = ()
    reason: tuple[str, ...] = ()
    channel: tuple[str, ...] = ()
    after: RecipientKey | None = None
    limit: int = 100


@dataclass(frozen=True)
class Recipients:
    rows: Sequence[RecipientRow]
    # Whether the log has more rows than these.
    more: bool
    watermark: datetime | None
    # The beginning of the stored log; None: the log is complete.
    since: datetime | None = None


@dataclass(frozen=True, order=True)
class WebhookLogKey:
    """The sort key of a row in the log of webhook messages."""

    # The time of the attempt.
    at: datetime
    message_id: str
    attempt: int


@dataclass(frozen=True, kw_only=True)
class WebhookLogRow:
    """An attempt to send a message to an endpoint."""

    key: WebhookLogKey
    endpoint_id: str
    # The club (tenant) of the event.
    club_id: int
    type: str
    # A value of masscomm.domain.webhooks.AttemptResult.
    status: str
    duration_ms: int
    event_id: str
    # None: there was no response.
    http_status: int | None
    # Why there was no response, or no attempt; "" otherwise.
    error: str


@dataclass(frozen=True, kw_only=True)
class WebhookLogQuery:
    """Attempts for an endpoint in [start, end), the latest first. A `start` or `end` of None is open; an empty filter
    matches everything.
    """

    endpoint_id: str
    start: datetime | None = None
    end: datetime | None = None
    club_id: tuple[int, ...] = ()
    type: tuple[str, ...] = ()
    status: tuple[str, ...] = ()
    message_id: tuple[str, ...] = ()
    # Whether only the latest attempt of each message is wanted.
    is_latest: bool = False
    after: WebhookLogKey | None = None
    limit: int = 50


@dataclass(frozen=True)
class WebhookLog:
    rows: Sequence[WebhookLogRow]
    # Whether the log has more rows than these.
    more: bool
    # Earlier rows are deleted; None: none is.
    kept_since: datetime | None = None


@dataclass(frozen=True, order=True)
class WebhookCountKey:
    """The sort key of a count of webhook messages."""

    bucket: datetime
    club_id: int
    type: str
    status: str


@dataclass(frozen=True)
class WebhookCount:
    """The attempts of one time bucket."""

    key: WebhookCountKey
    count_total: int
    # The sum of the durations.
    duration_ms_total: int


@dataclass(frozen=True, kw_only=True)
class WebhookCountsQuery:
    """Counts of an endpoint's attempts in the buckets that begin in [start, end), in the order of their keys. An empty
    filter matches everything.
    """

    granularity: Grain
    endpoint_id: str
    start: datetime
    end: datetime
    club_id: tuple[int, ...] = ()
    type: tuple[str, ...] = ()
    status: tuple[str, ...] = ()
    after: WebhookCountKey | None = None
    limit: int = 1000


@dataclass(frozen=True)
class WebhookCounts:
    rows: Sequence[WebhookCount]
    # Whether there are more rows.
    more: bool
    # Rows of earlier buckets of the grain are deleted; None: none is.
    kept_since: datetime | None = None


class MetricsStore(Protocol):
    """The interface that reads the tables written by spark_metrics. Every method raises Retry if the store is
    unavailable.
    """

    def counts(self, query: MetricsQuery) -> Counts:
        """Return the rows of a query, from one consistent state of the database. Raises TooMuch."""
        ...

    def trends(self, query: MetricsQuery, middle: datetime) -> Trends:
        """Return the most frequent values of the query's only dimension in [middle, end). Raises TooMuch."""
        ...

    def latencies(self, query: LatencyQuery) -> Latencies:
        """Return the latencies of a query, from one consistent state of the database. Raises TooMuch."""
        ...

    def position(self) -> StreamPosition:
        """Return the id and the time of the last counted batch. The query is cheap enough for polling."""
        ...

    def log(self, query: LogQuery) -> Log | None:
        """Return a user's notifications; None if the log of recipients is disabled."""
        ...

    def list_recipients(self, query: RecipientQuery) -> Recipients | None:
        """Return the notifications of a send; None if the log of recipients is disabled."""
        ...

    def timeline(self, send_id: str, club_id: int, key: RecipientKey) -> Log | None:
        """Return the rows of one notification, one for each status; None if the log of recipients is disabled."""
        ...

    def published_since(self, send_id: str, club_id: int, at: datetime) -> int | None:
        """Return the number of a send's notifications that a provider accepted at a time or later, by the times of
        their outcomes; None if the log of recipients is disabled, or begins later.
        """
        ...

    def send(self, send_id: str, *, with_states: bool = False) -> SendTotals | None:
        """Return a send, from one consistent state of the database; None if no record of it was counted."""
        ...

    def counted(self, send_ids: Iterable[str]) -> frozenset[str]:
        """Return those of the given ids of which a chunk is counted."""
        ...

    def list_sends(self, query: SendListQuery) -> SendList:
        """Return the first sends of a query, from one consistent state of the database. A send without a counted
        chunk is omitted.
        """
        ...

    def webhook_log(self, query: WebhookLogQuery) -> WebhookLog:
        """Return attempts to send messages to an endpoint."""
        ...

    def webhook_counts(self, query: WebhookCountsQuery) -> WebhookCounts:
        """Return the counts of an endpoint's attempts."""
        ...
