"""The counts of sends for the events of webhooks: the interface, and an adapter of the metrics database.

The merge of a batch stores its transaction with each send that it counts in `send_changes`. A transaction that began
earlier can commit later, so that only changes before the earliest running transaction are read: none is added there.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from masscomm.domain.send_states import SendCounts
from masscomm.domain.sends import SendKey
from masscomm.stores.metrics_database import Pool, connected
from masscomm.stores.sends.port import Position


@dataclass(frozen=True, kw_only=True)
class CountedSend:
    send: SendKey
    type: str
    requested_at: datetime | None
    duplicates: int
    counts: SendCounts
    # The transaction of the change that was read; 0 if the send was found without one.
    changed: int


@dataclass(frozen=True, kw_only=True)
class Changes:
    sends: Sequence[CountedSend]
    # The position after these sends.
    position: Position
    # Whether there are more changes.
    more: bool


class ChangedCounts(Protocol):
    """Methods raise Retry if the database is down."""

    def end(self) -> Position:
        """Return the position before which no change is added any more."""
        ...

    def since(self, position: Position | None, end: Position, clubs: Collection[int] | None, *, limit: int) -> Changes:
        """Return the sends of at most `limit` changes after a position and before an end, each once, of clubs (None: of
        every club). Without a position, return none, and the end as the position.
        """
        ...

    def find(self, send: SendKey) -> CountedSend | None:
        """Return a send of a club; None if no record of it is counted."""
        ...


class PostgresChangedCounts:
    """Reads the counts of the metrics database."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def end(self) -> Position:
        with connected(self._pool) as connection:
            row = connection.execute(_OLDEST).fetchone()
        return Position(int(row[0]) if row else 0, "")

    def since(self, position: Position | None, end: Position, clubs: Collection[int] | None, *, limit: int) -> Changes:
        if position is None or position > end:
            # The first look, or another database.
            return Changes(sends=[], position=end, more=False)
        values = {
            "clubs": None if clubs is None else list(clubs),
            "transaction": str(position.transaction),
            "send_id": position.send_id,
            "oldest": str(end.transaction),
            "limit": limit + 1,
        }
        with connected(self._pool) as connection:
            found = [_counted(each) for each in connection.execute(_CHANGED, values)]
        changed = list({each.send: each for each in found[:limit]}.values())
        if len(found) <= limit:
            return Changes(sends=changed, position=end, more=False)
        last = found[limit - 1]
        return Changes(sends=changed, position=Position(last.changed, last.send.send_id), more=True)

    def find(self, send: SendKey) -> CountedSend | None:
        with connected(self._pool) as connection:
            row = connection.execute(_ONE, {"send_id": send.send_id, "club_id": send.club_id}).fetchone()
        return None if row is None else _counted(row)


def _counted(row: Sequence[object]) -> CountedSend:
    send_id, club_id, type_, requested_at, chunk_count, chunks, requested, duplicates, queued, by_status, xid = row
    totals: Mapping[str, int] = by_status or {}  # type: ignore[assignment]  # jsonb
    return CountedSend(
        send=SendKey(int(str(club_id)), str(send_id)),
        type=str(type_),
        requested_at=requested_at,  # type: ignore[arg-type]  # timestamptz
        duplicates=int(str(duplicates)),
        counts=SendCounts(
            chunk_count=None if chunk_count is None else int(str(chunk_count)),
            chunks=int(str(chunks)),
            requested=int(str(requested)),
            queued=int(str(queued)),
            by_status={str(status): int(count) for status, count in totals.items()},
        ),
        changed=int(str(xid)),
    )


_OLDEST = "select pg_snapshot_xmin(pg_current_snapshot())::text"
_COLUMNS = """
select s.send_id, s.club_id, s.type, s.requested_at, s.chunk_count, s.chunks,
    coalesce(c.requested, 0), coalesce(c.duplicates, 0), coalesce(c.queued, 0), t.by_status, {changed}
from {sends}
left join lateral (
    select sum(requested) as requested, sum(duplicates) as duplicates, sum(queued) as queued
    from send_channels where send_id = s.send_id
) c on true
left join lateral (
    select jsonb_object_agg(status, n) as by_status
    from (select status, sum(count_total) as n from send_totals where send_id = s.send_id group by status) as of_status
) t on true
"""
_CHANGED = (
    _COLUMNS.format(changed="h.changed_xid::text", sends="send_changes h join sends s on s.send_id = h.send_id")
    + """
where (h.changed_xid, h.send_id collate "C") > (%(transaction)s::text::xid8, %(send_id)s::text)
    and h.changed_xid < %(oldest)s::text::xid8
    and (%(clubs)s::bigint[] is null or s.club_id = any(%(clubs)s::bigint[]))
order by h.changed_xid, h.send_id collate "C"
limit %(limit)s
"""
)
_ONE = _COLUMNS.format(changed="'0'", sends="sends s") + " where s.send_id = %(send_id)s and s.club_id = %(club_id)s"
