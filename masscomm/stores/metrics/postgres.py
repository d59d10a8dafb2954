"""The metrics store in Postgres (schemas/tables)."""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from math import prod
from typing import Any, Self

from psycopg.sql import SQL, Composed, Identifier

from masscomm import environment
from masscomm.aws.authentication import database_url
from masscomm.domain.ids import DIGEST_SENDS
from masscomm.domain.send_states import BY_COUNTS, SendState
from masscomm.domain.statuses import PUBLISHED, RANK, TERMINAL, Status
from masscomm.domain.time_limits import METRICS_CONNECT_S
from masscomm.stores.metrics import statements
from masscomm.stores.metrics.port import (
    Bounds,
    ChannelTotals,
    Count,
    Counts,
    Latencies,
    LatencyQuery,
    LatencyRow,
    Log,
    LogKey,
    LogQuery,
    LogRow,
    MetricsQuery,
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
    WebhookCountKey,
    WebhookCounts,
    WebhookCountsQuery,
    WebhookLog,
    WebhookLogKey,
    WebhookLogQuery,
    WebhookLogRow,
    check_filled,
    check_latencies,
    check_read,
)
from masscomm.stores.metrics_database import Connection, Pool, connected, connection_pool


class PostgresMetricsStore:
    """Implements MetricsStore over a connection pool. `bounds` is the maximum cost of one query."""

    def __init__(self, pool: Pool, bounds: Bounds | None = None) -> None:
        self._pool = pool
        self._bounds = bounds or Bounds()

    @classmethod
    def from_environment(cls, function: str, *, wait_s: float = METRICS_CONNECT_S) -> Self:
        """Return the store of METRICS_DATABASE_URL for a function, whose requests wait `wait_s` for a connection.
        Raises Stop if the variable is missing.
        """
        return cls(connection_pool(database_url(environment.required("METRICS_DATABASE_URL")), function, wait_s=wait_s))

    def close(self) -> None:
        self._pool.close()

    def counts(self, query: MetricsQuery) -> Counts:
        values = statements.values_of(query, self._bounds)
        with self._connection() as connection:
            watermark, grace = _watermark(connection)
            kept = (_view_since if query.is_by_reason else _kept_since)(connection, query.table)
            if query.buckets == ():
                return Counts([], more=False, watermark=watermark, grace=grace, kept_since=kept)
            check_read(_number(connection, statements.rows_read(query), values), self._bounds)
            if query.fill:
                check_filled(self._combinations(connection, query, values) * len(query.buckets or ()), self._bounds)
            rows = connection.execute(statements.rows(query), values).fetchall()
            revised: dict[datetime, datetime] = dict(connection.execute(statements.revised(query), values).fetchall())
        counts = [Count(bucket, tuple(dimensions), int(total)) for bucket, *dimensions, total in rows]
        return Counts(counts[: query.limit], len(counts) > query.limit, watermark, grace, revised, kept)

    def trends(self, query: MetricsQuery, middle: datetime) -> Trends:
        values = statements.values_of(query, self._bounds) | {"middle": middle, "top": query.limit}
        with self._connection() as connection:
            watermark, grace = _watermark(connection)
            check_read(_number(connection, statements.rows_read(query), values), self._bounds)
            rows = connection.execute(statements.trends(query), values).fetchall()
        return Trends([Trend(value, int(within), int(before)) for value, within, before in rows], watermark, grace)

    def latencies(self, query: LatencyQuery) -> Latencies:
        values = statements.latency_values(query, self._bounds)
        with self._connection() as connection:
            watermark, grace = _watermark(connection)
            check_read(_number(connection, statements.latency_rows_read(query), values), self._bounds)
            found = connection.execute(statements.latencies(query), values).fetchall()
            kept = _view_since(connection, query.source.latency_table)
        check_latencies(len(found), self._bounds)
        rows = [
            LatencyRow(bucket, tuple(dimensions), dict(zip(bins, map(int, counts), strict=True)))
            for bucket, *dimensions, bins, counts in found
        ]
        return Latencies(rows, watermark, grace, kept)

    def position(self) -> StreamPosition:
        with self._connection() as connection:
            row = connection.execute(_POSITION).fetchone()
        if row is None:
            return StreamPosition(None, None, None)
        batch_id, finished_at, watermark, grace_ms = row
        return StreamPosition(batch_id, finished_at, watermark, timedelta(milliseconds=grace_ms))

    def states(self, start: datetime, limit: int) -> dict[SendState, int]:
        """Return the number of sends by state, of the latest `limit` sends since a time, without their controls."""
        values = {**_STATUSES, "start": start, "limit": limit}
        with self._connection() as connection:
            found: dict[str, int] = dict(connection.execute(_STATES, values).fetchall())
        return {state: int(found.get(state, 0)) for state in BY_COUNTS}

    def log(self, query: LogQuery) -> Log | None:
        key = query.after
        values = {
            "user_id": query.user_id,
            "start": query.start,
            "end": query.end,
            "club_id": list(query.club_id) or None,
            "channel": list(query.channel) or None,
            "at": key and key.at,
            "send_id": key and key.send_id,
            "after_channel": key and key.channel,
            "limit": query.limit + 1,
            "by_rank": sorted(RANK, key=lambda status: RANK[status]),
        }
        with self._connection() as connection:
            switched_on = connection.execute(_LOG_SINCE).fetchone()
            if switched_on is None:
                return None
            found = connection.execute(_LOG, values).fetchall()
            watermark, grace = _watermark(connection)
        rows = [LogRow(LogKey(at, send_id, channel), *rest) for at, send_id, channel, *rest in found]
        return Log(rows[: query.limit], len(rows) > query.limit, watermark, switched_on[0], grace)

    def list_recipients(self, query: RecipientQuery) -> Recipients | None:
        key = query.after
        values = {
            "send_id": query.send_id,
            "club_id": query.club_id,
            "status": list(query.status) or None,
            "reason": list(query.reason) or None,
            "channel": list(query.channel) or None,
            "user_id": key and key.user_id,
            "after_channel": key and key.channel,
            "limit": query.limit + 1,
            "by_rank": sorted(RANK, key=lambda status: RANK[status]),
        }
        with self._connection() as connection:
            switched_on = connection.execute(_LOG_SINCE).fetchone()
            if switched_on is None:
                return None
            found = connection.execute(_RECIPIENTS, values).fetchall()
            watermark, _ = _watermark(connection)
        rows = [RecipientRow(RecipientKey(user_id, channel), *rest) for user_id, channel, *rest in found]
        return Recipients(rows[: query.limit], len(rows) > query.limit, watermark, switched_on[0])

    def timeline(self, send_id: str, club_id: int, key: RecipientKey) -> Log | None:
        values = {"send_id": send_id, "club_id": club_id, "user_id": key.user_id, "channel": key.channel}
        with self._connection() as connection:
            switched_on = connection.execute(_LOG_SINCE).fetchone()
            if switched_on is None:
                return None
            found = connection.execute(_TIMELINE, values).fetchall() if _is_text(key.channel) else []
            watermark, grace = _watermark(connection)
        rows = [LogRow(LogKey(at, send_id, channel), *rest) for at, send_id, channel, *rest in found]
        return Log(rows, more=False, watermark=watermark, since=switched_on[0], grace=grace)

    def published_since(self, send_id: str, club_id: int, at: datetime) -> int | None:
        values = {"send_id": send_id, "club_id": club_id, "sent": Status.SENT, "at": at}
        with self._connection() as connection:
            switched_on = connection.execute(_LOG_SINCE).fetchone()
            if switched_on is None or (switched_on[0] is not None and switched_on[0] > at):
                return None
            row = connection.execute(_PUBLISHED_SINCE, values).fetchone()
        return int(row[0]) if row else 0

    def send(self, send_id: str, *, with_states: bool = False) -> SendTotals | None:
        if not _is_text(send_id):
            return None  # Postgres cannot store the text, so no send has this id.
        with self._connection() as connection:
            send = connection.execute(
                "select club_id, type, requested_at, chunk_count, chunks from sends where send_id = %s", [send_id]
            ).fetchone()
            if send is None:
                return None
            channels: dict[str, ChannelTotals] = {}
            for channel, requested, duplicates, queued in connection.execute(
                "select channel, requested, duplicates, queued from send_channels where send_id = %s order by channel",
                [send_id],
            ):
                channels[channel] = ChannelTotals(requested, duplicates, queued)
            for channel, status, reason, count in connection.execute(
                "select channel, status, reason, count_total from send_totals where send_id = %s order by 1, 2, 3",
                [send_id],
            ):
                channels.setdefault(channel, ChannelTotals()).by_status.setdefault(status, {})[reason] = count
            states: dict[tuple[str, int], bytes] = {}
            if with_states:
                for channel, block, codes in connection.execute(
                    "select channel, block, codes from send_states where send_id = %s and chunk_index = 0", [send_id]
                ):
                    states[channel, block] = codes
            watermark, _ = _watermark(connection)
        club_id, category, requested_at, chunk_count, chunks = send
        return SendTotals(
            send_id=send_id,
            club_id=club_id,
            type=category,
            requested_at=requested_at,
            chunk_count=chunk_count,
            chunks=chunks,
            channels=channels,
            watermark=watermark,
            states=states,
        )

    def counted(self, send_ids: Iterable[str]) -> frozenset[str]:
        with self._connection() as connection:
            return frozenset(send_id for (send_id,) in connection.execute(_COUNTED, {"send_ids": list(send_ids)}))

    def list_sends(self, query: SendListQuery) -> SendList:
        key = query.after
        values = {
            "club_id": list(dict.fromkeys(query.club_id or ())),
            "start": query.start,
            "end": query.end,
            "type": list(query.type) or None,
            "state": list(query.state) or None,
            "digests": query.digests,
            "digest": DIGEST_SENDS,
            "at": key and key.requested_at,
            "send_id": key and key.send_id,
            "limit": query.limit + 1,
            **_STATUSES,
        }
        with self._connection() as connection:
            found = connection.execute(_ALL_SENDS if query.club_id is None else _SENDS, values).fetchall()
            watermark, _ = _watermark(connection)
            kept, small = _kept_since(connection, "sends"), _kept_since(connection, "small_sends")
        rows = [_send_row(row) for row in found]
        return SendList(rows[: query.limit], len(rows) > query.limit, watermark, kept, small)

    def webhook_log(self, query: WebhookLogQuery) -> WebhookLog:
        key = query.after
        values = {
            "endpoint_id": query.endpoint_id,
            # Without conditions on null, a page reads no earlier row of the index.
            "start": query.start or "-infinity",
            "end": query.end or "infinity",
            **_filters(query),
            "at": key.at if key else "infinity",
            "message_id": key.message_id if key else "",
            "attempt": key.attempt if key else 0,
            "messages": list(query.message_id) or None,
            "is_latest": query.is_latest,
        }
        with self._connection() as connection:
            found = connection.execute(_WEBHOOK_LOG, values).fetchall()
            kept = _kept_since(connection, "webhook_log")
        rows = [
            WebhookLogRow(
                key=WebhookLogKey(at, message_id, attempt),
                endpoint_id=query.endpoint_id,
                club_id=club_id,
                type=event_type,
                status=status,
                duration_ms=duration_ms,
                event_id=event_id,
                http_status=http_status,
                error=error,
            )
            for at, message_id, attempt, club_id, event_type, status, duration_ms, event_id, http_status, error in found
        ]
        return WebhookLog(rows[: query.limit], len(rows) > query.limit, kept)

    def webhook_counts(self, query: WebhookCountsQuery) -> WebhookCounts:
        key = query.after
        values = {
            "endpoint_id": query.endpoint_id,
            "start": query.start,
            "end": query.end,
            **_filters(query),
            "bucket": key.bucket if key else "-infinity",
            "after_club": key.club_id if key else 0,
            "after_type": key.type if key else "",
            "after_status": key.status if key else "",
        }
        table = Identifier(query.granularity.webhook_table)
        with self._connection() as connection:
            found = connection.execute(SQL(_WEBHOOK_COUNTS).format(table=table), values).fetchall()
            kept = _kept_since(connection, query.granularity.webhook_table)
        rows = [WebhookCount(WebhookCountKey(*row[:4]), int(row[4]), int(row[5])) for row in found]
        return WebhookCounts(rows[: query.limit], len(rows) > query.limit, kept)

    def _combinations(self, connection: Connection, query: MetricsQuery, values: dict[str, Any]) -> int:
        if query.named_combinations:
            return prod(len(getattr(query, dimension)) for dimension in query.dimensions)
        return _number(connection, statements.combinations(query), values)

    def _connection(self) -> AbstractContextManager[Connection]:
        return connected(self._pool)


def _send_row(row: Sequence[Any]) -> SendRow:
    """Return a row of _SENDS."""
    requested_at, send_id, club_id, category, state, *numbers = row
    requested, terminal, published, cancelled, suppressed, failed, digested = map(int, numbers)
    return SendRow(
        key=SendListKey(requested_at, send_id),
        club_id=club_id,
        type=category,
        state=SendState(state),
        requested=requested,
        terminal=terminal,
        published=published,
        cancelled=cancelled,
        suppressed=suppressed,
        failed=failed,
        digested=digested,
    )


def _filters(query: WebhookLogQuery | WebhookCountsQuery) -> dict[str, Any]:
    """Return the parameters of the filters of both queries, and the number of rows to read."""
    return {
        "club_id": list(query.club_id) or None,
        "type": list(query.type) or None,
        "status": list(query.status) or None,
        "limit": query.limit + 1,
    }


def _number(connection: Connection, statement: Composed, values: dict[str, Any]) -> int:
    row = connection.execute(statement, values).fetchone()
    return int(row[0]) if row else 0


def _is_text(text: str) -> bool:
    """Return whether Postgres can store the text: it has no NUL and no half of a surrogate pair."""
    return "\0" not in text and not any("\ud800" <= letter <= "\udfff" for letter in text)


_VIEW_SINCE = """
select nullif(greatest(since, kept_since), '-infinity') from stream_views where view = %s
"""
_LOG_SINCE = _VIEW_SINCE.replace("%s", "'recipient_log'")

# One statement serves every combination of filters: a user has few rows, and the index of each day finds them. The
# status with the highest rank is the notification's status (masscomm.domain.statuses.merge).
_LOG = """
with notifications as (
    select distinct on (send_id, channel) at, send_id, channel, club_id, type, status, reason, decision
    from recipient_log
    where user_id = %(user_id)s
        and (%(club_id)s::bigint[] is null or club_id = any(%(club_id)s))
        and (%(channel)s::text[] is null or channel = any(%(channel)s))
    order by send_id, channel, array_position(%(by_rank)s::text[], status) desc nulls last, at, reason
)
select at, send_id, channel, club_id, type, status, reason, decision
from notifications
where (%(start)s::timestamptz is null or at >= %(start)s)
    and (%(end)s::timestamptz is null or at < %(end)s)
    and (
        %(at)s::timestamptz is null
        or (at, send_id collate "C", channel collate "C") < (%(at)s, %(send_id)s::text, %(after_channel)s::text)
    )
order by at desc, send_id collate "C" desc, channel collate "C" desc
limit %(limit)s
"""

# The index of a send's rows returns them by user, so that a page reads no earlier user.
_RECIPIENTS = """
with notifications as (
    select distinct on (user_id, channel collate "C")
        user_id, channel, status, reason, at, decision
    from recipient_log
    where send_id = %(send_id)s
        and club_id = %(club_id)s
        and (%(channel)s::text[] is null or channel = any(%(channel)s))
        and (%(user_id)s::bigint is null or user_id >= %(user_id)s)
    order by user_id, channel collate "C", array_position(%(by_rank)s::text[], status) desc nulls last, at, reason
)
select user_id, channel, status, reason, at, decision
from notifications
where (%(status)s::text[] is null or status = any(%(status)s))
    and (%(reason)s::text[] is null or reason = any(%(reason)s))
    and (
        %(user_id)s::bigint is null
        or (user_id, channel collate "C") > (%(user_id)s, %(after_channel)s::text)
    )
order by user_id, channel collate "C"
limit %(limit)s
"""

_PUBLISHED_SINCE = """
select count(*)
from (
    select distinct user_id, channel
    from recipient_log
    where send_id = %(send_id)s and club_id = %(club_id)s and status = %(sent)s and at >= %(at)s
) as late
"""

_TIMELINE = """
select at, send_id, channel, club_id, type, status, reason, decision
from recipient_log
where send_id = %(send_id)s and user_id = %(user_id)s and club_id = %(club_id)s and channel = %(channel)s
order by at, status, reason
"""

_OF_WEBHOOKS = """endpoint_id = %(endpoint_id)s
    and (%(club_id)s::bigint[] is null or club_id = any(%(club_id)s))
    and (%(type)s::text[] is null or type = any(%(type)s))
    and (%(status)s::text[] is null or status = any(%(status)s))"""

# In the order of the key, backwards.
_WEBHOOK_LOG = """
select at, message_id, attempt, club_id, type, status, duration_ms, event_id, http_status, error
from webhook_log as l
where {filters}
    and (%(messages)s::text[] is null or message_id = any(%(messages)s))
    and not (%(is_latest)s and exists (
        select from webhook_log as later
        where (later.endpoint_id, later.message_id) = (l.endpoint_id, l.message_id)
            and (later.at, later.attempt) > (l.at, l.attempt)
    ))
    and at >= %(start)s::timestamptz and at < %(end)s::timestamptz
    and (at, message_id, attempt) < (%(at)s::timestamptz, %(message_id)s::text, %(attempt)s::int)
order by at desc, message_id desc, attempt desc
limit %(limit)s
""".replace("{filters}", _OF_WEBHOOKS)

_WEBHOOK_COUNTS = """
select bucket, club_id, type, status, sum(count_total), sum(duration_ms_total)
from {table}
where {filters}
    and bucket >= %(start)s and bucket < %(end)s and bucket >= %(bucket)s::timestamptz
    and (bucket, club_id, type collate "C", status collate "C")
        > (%(bucket)s::timestamptz, %(after_club)s::bigint, %(after_type)s::text, %(after_status)s::text)
group by bucket, club_id, type, status
order by bucket, club_id, type collate "C", status collate "C"
limit %(limit)s
""".replace("{filters}", _OF_WEBHOOKS)

# The parameters of the statements below.
_STATUSES = {
    "terminal": sorted(TERMINAL),
    "published": sorted(PUBLISHED),
    "cancelled": Status.CANCELLED,
    "digested": Status.DIGESTED,
    "suppressed": Status.SUPPRESSED,
    "failed": Status.FAILED,
    "scheduled": Status.SCHEDULED,
}
# The counts of a send `s` and its state by them: the rule of masscomm.domain.send_states.counted_state.
_STATE = """cross join lateral (
        select coalesce(sum(c.requested), 0) as requested, coalesce(sum(c.queued), 0) as queued
        from send_channels c where c.send_id = s.send_id
    ) as channels
    cross join lateral (
        select coalesce(sum(t.count_total) filter (where t.status = any(%(terminal)s)), 0) as terminal,
            coalesce(sum(t.count_total) filter (where t.status = any(%(published)s)), 0) as published,
            coalesce(sum(t.count_total) filter (where t.status = %(cancelled)s), 0) as cancelled,
            coalesce(sum(t.count_total) filter (where t.status = %(digested)s), 0) as digested,
            coalesce(sum(t.count_total) filter (where t.status = %(suppressed)s), 0) as suppressed,
            coalesce(sum(t.count_total) filter (where t.status = %(failed)s), 0) as failed,
            coalesce(sum(t.count_total) filter (where t.status = %(scheduled)s), 0) as scheduled,
            coalesce(sum(t.count_total), 0) as decided
        from send_totals t where t.send_id = s.send_id
    ) as totals
    cross join lateral (
        select case
            when s.chunks >= s.chunk_count and terminal = requested
            then case when cancelled > 0 then 'cancelled' else 'ended' end
            when queued = 0 and decided = 0 then 'accepted'
            when queued = 0 and scheduled > 0 and decided - terminal = scheduled then 'scheduled'
            else 'in_progress'
        end as name
    ) as state"""

_COUNTED = "select send_id from sends where send_id = any(%(send_ids)s::text[]) and requested_at is not null"

# The latest sends; `{club}` stands for a condition on their club.
_PAGE = """
    select s.requested_at, s.send_id, s.club_id, s.type, state.name,
        requested, terminal, published, cancelled, suppressed, failed, digested
    from sends s
    {state}
    where {club}
        and s.requested_at is not null
        and (%(start)s::timestamptz is null or s.requested_at >= %(start)s)
        and (%(end)s::timestamptz is null or s.requested_at < %(end)s)
        and (%(type)s::text[] is null or s.type = any(%(type)s))
        and (%(state)s::text[] is null or state.name = any(%(state)s))
        and (%(digests)s::boolean is null or starts_with(s.send_id, %(digest)s) = %(digests)s)
        and (
            %(at)s::timestamptz is null
            or (s.requested_at, s.send_id collate "C") < (%(at)s, %(send_id)s::text)
        )
    order by s.requested_at desc, s.send_id collate "C" desc
    limit %(limit)s
""".replace("{state}", _STATE)

# In the order of the index sends_by_time.
_ALL_SENDS = _PAGE.replace("{club}", "true")

# For each club, the query reads the first rows in the order of the index sends_of_club, so that a page reads no other
# club's sends.
_SENDS = """
select page.*
from unnest(%(club_id)s::bigint[]) as club
cross join lateral ({sends}) as page
order by page.requested_at desc, page.send_id collate "C" desc
limit %(limit)s
""".replace("{sends}", _PAGE.replace("{club}", "s.club_id = club"))

# The latest sends since a time, by state.
_STATES = """
select state.name, count(*)
from (
    select * from sends where requested_at >= %(start)s order by requested_at desc limit %(limit)s
) as s
    {state}
group by state.name
""".replace("{state}", _STATE)

_POSITION = """
select s.batch_id, s.finished_at, w.watermark, coalesce(w.grace_ms, 0)
from (values ('metrics')) as of (stream)
left join stream_status s using (stream)
left join stream_watermark w using (stream)
"""


def _watermark(connection: Connection) -> tuple[datetime | None, timedelta]:
    """Return the watermark (the time up to which records are counted), and the grace after the end of a time bucket."""
    row = connection.execute("select watermark, grace_ms from stream_watermark where stream = 'metrics'").fetchone()
    return (row[0], timedelta(milliseconds=row[1])) if row else (None, timedelta(0))


def _view_since(connection: Connection, name: str) -> datetime | None:
    """Return the time since which a view has all counts; None: it has those of all times."""
    row = connection.execute(_VIEW_SINCE, [name]).fetchone()
    return row[0] if row else None


def _kept_since(connection: Connection, name: str) -> datetime | None:
    """Return the time since which rows are kept of a table from which some were deleted."""
    row = connection.execute("select kept_since from stream_retention where name = %s", [name]).fetchone()
    return row[0] if row else None
