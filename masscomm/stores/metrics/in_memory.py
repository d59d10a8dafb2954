"""A metrics store in memory, for unit tests; it passes the same contract tests as the store in Postgres."""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import product
from typing import Any

from masscomm.domain.grains import Grain, floor
from masscomm.domain.ids import DIGEST_SENDS
from masscomm.domain.send_states import counted_state
from masscomm.domain.statuses import PUBLISHED, RANK, Status
from masscomm.stores.metrics.port import (
    MAX_REVISED,
    Bounds,
    Count,
    Counts,
    Dimension,
    Latencies,
    LatencyQuery,
    LatencyRow,
    Log,
    LogQuery,
    LogRow,
    MetricsQuery,
    Order,
    RecipientKey,
    RecipientQuery,
    RecipientRow,
    Recipients,
    SendList,
    SendListKey,
    SendListQuery,
    SendRow,
    SendTotals,
    StreamPosition,
    Trend,
    Trends,
    WebhookCount,
    WebhookCounts,
    WebhookCountsQuery,
    WebhookLog,
    WebhookLogQuery,
    WebhookLogRow,
    check_filled,
    check_latencies,
    check_read,
)


@dataclass(frozen=True, kw_only=True)
class StoredCount:
    """A row of one of the three tables of counts (minutes, hours, days), or with a reason of the counts by reason."""

    granularity: Grain
    bucket: datetime
    club_id: int
    type: str
    channel: str
    measure: str
    count_total: int
    reason: str = ""


@dataclass(frozen=True)
class StoredWebhookCount:
    """A row of one of the three tables of webhook counts."""

    granularity: Grain
    endpoint_id: str
    count: WebhookCount


@dataclass(frozen=True, kw_only=True)
class StoredLatency:
    """A row of one of the two tables of latencies."""

    granularity: Grain
    bucket: datetime
    type: str
    channel: str
    measure: str
    bin: int
    count_total: int


@dataclass
class InMemoryMetricsStore:
    """Implements port.MetricsStore over lists, and over sends by their id."""

    stored: list[StoredCount] = field(default_factory=list)
    sends: dict[str, SendTotals] = field(default_factory=dict)
    watermark: datetime | None = None
    bounds: Bounds = field(default_factory=Bounds)
    batch_id: int | None = None
    finished_at: datetime | None = None
    recipients: list[tuple[int, LogRow]] | None = None
    grace: timedelta = timedelta(0)
    revised_minutes: list[tuple[datetime, int, datetime]] = field(default_factory=list)
    # The time since which rows are kept, of a grain's table or of `sends`.
    kept_since: dict[str, datetime] = field(default_factory=dict)
    webhook_rows: list[WebhookLogRow] = field(default_factory=list)
    stored_webhooks: list[StoredWebhookCount] = field(default_factory=list)
    stored_latencies: list[StoredLatency] = field(default_factory=list)

    def counts(self, query: MetricsQuery) -> Counts:
        kept = self.kept_since.get(query.table)
        if query.buckets == ():
            return Counts([], more=False, watermark=self.watermark, grace=self.grace, kept_since=kept)
        matching = [row for row in self.stored if _matches(row, query)]
        check_read(len(matching), self.bounds)
        totals: Counter[tuple[datetime, tuple[int | str, ...]]] = Counter()
        for row in matching:
            bucket = row.bucket
            if query.buckets is not None:
                bucket = query.buckets[bisect_right(query.buckets, bucket) - 1]
            totals[bucket, tuple(getattr(row, name) for name in query.dimensions)] += row.count_total
        if query.fill and query.buckets is not None:
            combinations = {values for _, values in totals}
            if query.named_combinations:
                combinations = set(product(*(getattr(query, name) for name in query.dimensions)))
            check_filled(len(combinations) * len(query.buckets), self.bounds)
            totals.update(dict.fromkeys(product(query.buckets, combinations), 0))
        rows = sorted((Count(bucket, values, total) for (bucket, values), total in totals.items()), key=_place(query))
        if query.after is not None:
            rows = [row for row in rows if _place(query)(row) > _place(query)(query.after)]
        more = len(rows) > query.limit
        return Counts(rows[: query.limit], more, self.watermark, self.grace, self._revised(query), kept)

    def _revised(self, query: MetricsQuery) -> dict[datetime, datetime]:
        """Return the revised buckets. A query without buckets must cover whole days, hours or minutes of UTC."""
        found: dict[datetime, datetime] = {}
        for minute, club_id, revised_at in sorted(self.revised_minutes):
            if query.start <= minute < query.end and (not query.club_id or club_id in query.club_id):
                bucket = floor(minute, query.granularity.length)
                if query.buckets is not None:
                    bucket = query.buckets[bisect_right(query.buckets, minute) - 1]
                found[bucket] = max(revised_at, found.get(bucket, revised_at))
        return dict(list(found.items())[:MAX_REVISED])

    def trends(self, query: MetricsQuery, middle: datetime) -> Trends:
        (dimension,) = query.dimensions
        matching = [row for row in self.stored if _matches(row, query)]
        check_read(len(matching), self.bounds)
        within: Counter[int | str] = Counter()
        before: Counter[int | str] = Counter()
        for row in matching:
            (within if row.bucket >= middle else before)[getattr(row, dimension)] += row.count_total
        rows = [Trend(value, total, before[value]) for value, total in within.items()]
        rows.sort(key=lambda row: (-row.count_total, row.value))
        return Trends(rows[: query.limit], self.watermark, self.grace)

    def latencies(self, query: LatencyQuery) -> Latencies:
        matching = [
            row
            for row in self.stored_latencies
            if row.granularity is query.source
            and query.start <= row.bucket < query.end
            and row.type in (query.type or [row.type])
            and row.channel in (query.channel or [row.channel])
            and row.measure in (query.measure or [row.measure])
        ]
        check_read(len(matching), self.bounds)
        bins: defaultdict[tuple[datetime, tuple[str, ...]], Counter[int]] = defaultdict(Counter)
        for row in matching:
            values = tuple(getattr(row, name) for name in query.dimensions)
            bins[floor(row.bucket, query.granularity.length), values][row.bin] += row.count_total
        check_latencies(len(bins), self.bounds)
        rows = [LatencyRow(bucket, values, dict(counts)) for (bucket, values), counts in sorted(bins.items())]
        return Latencies(rows, self.watermark, self.grace, self.kept_since.get(query.source.latency_table))

    def position(self) -> StreamPosition:
        return StreamPosition(self.batch_id, self.finished_at, self.watermark, self.grace)

    def log(self, query: LogQuery) -> Log | None:
        if self.recipients is None:
            return None
        known: dict[tuple[str, str], LogRow] = {}
        for user_id, row in self.recipients:
            if user_id == query.user_id:
                key = row.key.send_id, row.key.channel
                known[key] = max(known.get(key, row), row, key=_rank)
        rows = [row for row in known.values() if _in_log(row, query)]
        rows.sort(key=lambda row: row.key, reverse=True)
        return Log(rows[: query.limit], len(rows) > query.limit, self.watermark, grace=self.grace)

    def list_recipients(self, query: RecipientQuery) -> Recipients | None:
        if self.recipients is None:
            return None
        known: dict[RecipientKey, LogRow] = {}
        for user_id, row in self.recipients:
            if (row.key.send_id, row.club_id) == (query.send_id, query.club_id):
                key = RecipientKey(user_id, row.key.channel)
                known[key] = max(known.get(key, row), row, key=_rank)
        rows = [
            RecipientRow(key, row.status, row.reason, row.key.at, row.decision)
            for key, row in sorted(known.items())
            if (query.after is None or key > query.after)
            and row.status in (query.status or [row.status])
            and row.reason in (query.reason or [row.reason])
            and key.channel in (query.channel or [key.channel])
        ]
        return Recipients(rows[: query.limit], len(rows) > query.limit, self.watermark)

    def timeline(self, send_id: str, club_id: int, key: RecipientKey) -> Log | None:
        if self.recipients is None:
            return None
        wanted = (key.user_id, send_id, key.channel, club_id)
        rows = [
            row
            for user_id, row in self.recipients
            if (user_id, row.key.send_id, row.key.channel, row.club_id) == wanted
        ]
        rows.sort(key=lambda row: (row.key.at, row.status, row.reason))
        return Log(rows, more=False, watermark=self.watermark)

    def published_since(self, send_id: str, club_id: int, at: datetime) -> int | None:
        if self.recipients is None:
            return None
        found = {
            (user_id, row.key.channel)
            for user_id, row in self.recipients
            if (row.key.send_id, row.club_id, row.status) == (send_id, club_id, Status.SENT) and row.key.at >= at
        }
        return len(found)

    def send(self, send_id: str, *, with_states: bool = False) -> SendTotals | None:
        known = self.sends.get(send_id)
        if known is None:
            return None
        return replace(known, watermark=self.watermark, states=known.states if with_states else {})

    def counted(self, send_ids: Iterable[str]) -> frozenset[str]:
        return frozenset(each for each in send_ids if each in self.sends and self.sends[each].requested_at is not None)

    def list_sends(self, query: SendListQuery) -> SendList:
        rows = [_send_row(send, send.requested_at) for send in self.sends.values() if send.requested_at is not None]
        rows = sorted((row for row in rows if _in_list(row, query)), key=lambda row: row.key, reverse=True)
        kept, small = self.kept_since.get("sends"), self.kept_since.get("small_sends")
        return SendList(rows[: query.limit], len(rows) > query.limit, self.watermark, kept, small)

    def webhook_log(self, query: WebhookLogQuery) -> WebhookLog:
        rows = [
            row
            for row in self.webhook_rows
            if row.endpoint_id == query.endpoint_id
            and (query.start is None or row.key.at >= query.start)
            and (query.end is None or row.key.at < query.end)
            and row.club_id in (query.club_id or [row.club_id])
            and row.type in (query.type or [row.type])
            and row.status in (query.status or [row.status])
            and row.key.message_id in (query.message_id or [row.key.message_id])
            and not (query.is_latest and any(_follows(each, row) for each in self.webhook_rows))
            and (query.after is None or row.key < query.after)
        ]
        rows.sort(key=lambda row: row.key, reverse=True)
        return WebhookLog(rows[: query.limit], len(rows) > query.limit, self.kept_since.get("webhook_log"))

    def webhook_counts(self, query: WebhookCountsQuery) -> WebhookCounts:
        rows = [
            each.count
            for each in self.stored_webhooks
            if (each.granularity, each.endpoint_id) == (query.granularity, query.endpoint_id)
            and query.start <= each.count.key.bucket < query.end
            and each.count.key.club_id in (query.club_id or [each.count.key.club_id])
            and each.count.key.type in (query.type or [each.count.key.type])
            and each.count.key.status in (query.status or [each.count.key.status])
            and (query.after is None or each.count.key > query.after)
        ]
        rows.sort(key=lambda row: row.key)
        kept = self.kept_since.get(query.granularity.webhook_table)
        return WebhookCounts(rows[: query.limit], len(rows) > query.limit, kept)


def _follows(later: WebhookLogRow, row: WebhookLogRow) -> bool:
    """Return whether a row of the log is a later attempt to send the message of another one."""
    is_same = (later.endpoint_id, later.key.message_id) == (row.endpoint_id, row.key.message_id)
    return is_same and (later.key.at, later.key.attempt) > (row.key.at, row.key.attempt)


def _send_row(send: SendTotals, requested_at: datetime) -> SendRow:
    counts = send.counts
    return SendRow(
        key=SendListKey(requested_at, send.send_id),
        club_id=send.club_id,
        type=send.type,
        state=counted_state(counts),
        requested=counts.requested,
        terminal=counts.terminal,
        published=sum(counts.by_status.get(status, 0) for status in PUBLISHED),
        cancelled=counts.by_status.get(Status.CANCELLED, 0),
        suppressed=counts.by_status.get(Status.SUPPRESSED, 0),
        failed=counts.by_status.get(Status.FAILED, 0),
        digested=counts.by_status.get(Status.DIGESTED, 0),
    )


def _in_list(row: SendRow, query: SendListQuery) -> bool:
    return (
        (query.club_id is None or row.club_id in query.club_id)
        and (query.start is None or row.key.requested_at >= query.start)
        and (query.end is None or row.key.requested_at < query.end)
        and (not query.type or row.type in query.type)
        and (not query.state or row.state in query.state)
        and query.digests in (None, row.key.send_id.startswith(DIGEST_SENDS))
        and (query.after is None or row.key < query.after)
    )


def _matches(row: StoredCount, query: MetricsQuery) -> bool:
    if row.granularity is not query.granularity or bool(row.reason) is not query.is_by_reason:
        return False
    if not query.start <= row.bucket < query.end:
        return False
    return all(not getattr(query, name) or getattr(row, name) in getattr(query, name) for name in Dimension)


def _rank(row: LogRow) -> tuple[int, float]:
    """Return the sort key of a notification's log rows: the highest rank comes first, then the earliest row."""
    rank = RANK[Status(row.status)] if row.status in list(Status) else -1
    return rank, -row.key.at.timestamp()


def _in_log(row: LogRow, query: LogQuery) -> bool:
    return (
        (query.start is None or row.key.at >= query.start)
        and (query.end is None or row.key.at < query.end)
        and (query.after is None or row.key < query.after)
        and (not query.club_id or row.club_id in query.club_id)
        and (not query.channel or row.key.channel in query.channel)
    )


def _place(query: MetricsQuery) -> Any:
    match query.order:
        case Order.BUCKET:
            return lambda row: (row.bucket, row.values)
        case Order.LATEST:
            return lambda row: (-row.bucket.timestamp(), row.values)
        case Order.LARGEST:
            return lambda row: (-row.count_total, row.bucket, row.values)
