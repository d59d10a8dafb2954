"""Lists sends by their counts and by the register, for the routes that show several of them.

The metrics database selects sends by their counts. Their controls and names are in the register, so that a page by
state or by words may have fewer rows than its limit, or none.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import batched, islice
from typing import TypedDict

from masscomm.domain.ids import DIGEST_SENDS
from masscomm.domain.send_states import BY_COUNTS, SendState, send_state, state_by_register
from masscomm.domain.sends import Origin, Send, SendKey, origin_of
from masscomm.domain.time_limits import LISTED_SENDS_S
from masscomm.errors import Retry
from masscomm.http.parameters import rfc3339
from masscomm.http.rest import Links
from masscomm.stores.metrics.port import MetricsStore, SendList, SendListKey, SendListQuery, SendRow
from masscomm.stores.sends.port import Sends

MAX_LIMIT = 200


class ListedSend(TypedDict):
    """A send in the list, with numbers of notifications on all channels."""

    send_id: str
    club_id: int
    type: str
    origin: Origin
    """What made the send: a request, or a digest, whose message it is."""
    reference: str | None
    """The requester's own id of the send, while the send is registered."""
    requested_at: str
    status: SendState
    requested: int | None
    """Null while the users of an audience are sought, and if only counts know it and do not answer."""
    published: int | None
    """Notifications that a provider has accepted."""
    digested: int | None
    """Notifications that are part of digests."""
    suppressed: int | None
    failed: int | None
    cancelled: int | None
    in_flight: int | None
    """Requested notifications without a final status."""
    links: Links


@dataclass(frozen=True, kw_only=True)
class SendPage:
    """A page of sends, the latest first."""

    rows: Sequence[ListedSend]
    # The key of the last send that was read, after which the next page begins; None if there are no more sends.
    last: SendListKey | None
    # Whether the metrics database answers.
    counts_known: bool
    watermark: datetime | None
    kept_since: datetime | None
    small_kept_since: datetime | None


@dataclass(frozen=True)
class SendLists:
    store: MetricsStore
    sends: Sends

    def page(
        self, query: SendListQuery, now_ms: int, *, status: Iterable[SendState] = (), search: str | None = None
    ) -> SendPage:
        """Return a page of sends. Raises Retry if the register does not answer.

        Args:
            query: The query, with the states by counts.
            now_ms: The present time.
            status: The states of the rows; () for all.
            search: A part of the rows' name, category or id, in any case.
        """
        wanted = frozenset(status) or frozenset(SendState)
        try:
            found, counts_known = self._counted(query), True
        except Retry:
            found, counts_known = SendList(rows=[], more=False, watermark=None), False
        keys = [SendKey(row.club_id, row.key.send_id) for row in found.rows]
        registered = self.sends.read(keys)
        page = [(row, registered.get(key, Send(key=key))) for key, row in zip(keys, found.rows, strict=True)]
        uncounted = list(self._uncounted(query, found, now_ms, counts_known=counts_known))
        page = sorted([*page, *uncounted], key=lambda each: each[0].key, reverse=True)
        more, page = found.more or len(page) > query.limit, page[: query.limit]
        rows = [
            _row(row, state, send, counts_known=counts_known)
            for row, send in page
            if (state := _state(row, send, now_ms)) in wanted and _has(row, send, search)
        ]
        return SendPage(
            rows=rows,
            last=page[-1][0].key if more else None,
            counts_known=counts_known,
            watermark=found.watermark,
            kept_since=found.kept_since,
            small_kept_since=found.small_kept_since,
        )

    def _counted(self, query: SendListQuery) -> SendList:
        """Return the counted sends of a page."""
        counted = tuple(sorted(BY_COUNTS.intersection(query.state)))
        if query.state and not counted:
            return SendList(rows=[], more=False, watermark=self.store.position().watermark)
        return self.store.list_sends(replace(query, state=counted))

    def _uncounted(
        self, query: SendListQuery, found: SendList, now_ms: int, *, counts_known: bool
    ) -> Iterator[tuple[SendRow, Send]]:
        """Yield the registered sends of a page that are not counted, up to one more than the page may have of each
        club; if the counts are unknown, all that are listed. The register lists sends by club: of every club, there are
        none.
        """
        # Below the page's last row, they are on a later page.
        floor = found.rows[-1].key.requested_at if found.more else query.start
        start_ms = max(0 if floor is None else _ms(floor), now_ms - LISTED_SENDS_S * 1000)
        # The register has whole milliseconds.
        limits = [query.end, None if query.after is None else query.after.requested_at]
        before_ms = min([_ms(moment) + 1 for moment in limits if moment is not None], default=now_ms + 1)
        for club_id in query.club_id or ():
            listed = self.sends.listed(club_id, start_ms=start_ms, before_ms=before_ms)
            rows = ((_row_of(send, now_ms), send) for send in listed)
            matching = ((row, send) for row, send in rows if _matches(row, query))
            yield from islice(self._without_counted(matching) if counts_known else matching, query.limit + 1)

    def _without_counted(self, found: Iterator[tuple[SendRow, Send]]) -> Iterator[tuple[SendRow, Send]]:
        for some in batched(found, MAX_LIMIT, strict=False):
            counted = self.store.counted(row.key.send_id for row, _ in some)
            yield from (each for each in some if each[0].key.send_id not in counted)


def _ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def _row_of(send: Send, now_ms: int) -> SendRow:
    """Return the row of a send without counts, with its state as if it were neither paused nor cancelled; one without
    notifications has ended by its cancellation.
    """
    control = replace(send.control, fault=None)
    if send.expansion is None or send.expansion.requested > 0:
        control = replace(control, cancelled_at_ms=None, paused_at_ms=None)
    return SendRow(
        key=SendListKey(datetime.fromtimestamp(send.requested_at_ms / 1000, UTC), send.key.send_id),
        club_id=send.key.club_id,
        type=send.type or "",
        state=send_state(replace(send, control=control), None, now_ms),
        requested=(send.expansion.requested if send.expansion else (send.users or 0) * len(send.channels)),
        terminal=0,
        published=0,
        digested=0,
        cancelled=0,
        suppressed=0,
        failed=0,
    )


def _state(row: SendRow, send: Send, now_ms: int) -> SendState:
    """Return the state of a send; that by its counts alone if its control cannot be read."""
    control = send.control
    if control.fault is not None and not control.cancelled:  # guard: sends.unreadable_control_in_a_list
        return row.state
    return state_by_register(send, row.state, now_ms)


def _matches(row: SendRow, query: SendListQuery) -> bool:
    return (
        (query.end is None or row.key.requested_at < query.end)
        and (query.after is None or row.key < query.after)
        and (not query.type or row.type in query.type)
        and (not query.state or row.state in query.state)
        and query.digests in (None, row.key.send_id.startswith(DIGEST_SENDS))
    )


def _has(row: SendRow, send: Send, search: str | None) -> bool:
    texts = (send.reference or "", row.type, row.key.send_id)
    return search is None or any(search.casefold() in each.casefold() for each in texts)


def _row(row: SendRow, state: SendState, send: Send, *, counts_known: bool) -> ListedSend:
    # While the metrics job catches up, it can count the end of a notification before its beginning.
    is_unknown = send.users is None and send.expansion is None and (send.is_to_audience or not counts_known)
    requested = None if is_unknown or row.state is SendState.EXPANDING else max(row.requested, row.terminal)
    return {
        "send_id": row.key.send_id,
        "club_id": row.club_id,
        "type": row.type,
        "origin": origin_of(row.key.send_id),
        "reference": send.reference,
        "requested_at": rfc3339(row.key.requested_at),
        "status": state,
        "requested": requested,
        "published": row.published if counts_known else None,
        "digested": row.digested if counts_known else None,
        "suppressed": row.suppressed if counts_known else None,
        "failed": row.failed if counts_known else None,
        "cancelled": row.cancelled if counts_known else None,
        "in_flight": max(0, row.requested - row.terminal) if counts_known else None,
        "links": {"self": f"/v1/sends/{row.key.send_id}"},
    }
