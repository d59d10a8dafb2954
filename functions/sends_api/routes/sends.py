"""GET /v1/sends: the sends of the caller's clubs, the latest first.

club_id      only these clubs; a caller who may see every club must name at least one
start, end   RFC 3339 with an offset: sends requested in [start, end); either may be missing
type         only these categories
status       states of sends (masscomm/domain/send_states.py)
limit        the maximum number of rows, by default 50
cursor       next_cursor of the previous page

club_id, type and status may be repeated. A send appears seconds after it was requested: once a chunk of it is counted,
or the expansion of its audience begins.

The store selects sends by their counts. Their controls are in another store, so that a page by status may have fewer
rows than `limit`, or none; next_cursor continues.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice, takewhile
from typing import TypedDict

from functions.sends_api.cursor import continued, cursor_after
from masscomm.clock import Clock
from masscomm.domain.limits import END_OF_TIME_MS
from masscomm.domain.send_controls import SendControl, SendKey
from masscomm.domain.send_states import BY_COUNTS, FINAL, SendState, controlled_state, states_by_counts
from masscomm.http import parameters as parse
from masscomm.http.parameters import Reader, rfc3339, time_of_ms
from masscomm.http.requested_clubs import seen
from masscomm.http.rest import Links
from masscomm.http.tenant import Clubs, parse_club_id
from masscomm.stores.expansions import Expansions, ListedExpansion
from masscomm.stores.metrics.port import MetricsStore, SendList, SendListKey, SendListQuery, SendRow
from masscomm.stores.send_controls import AcceptedSend, SendControls, of_send
from masscomm.texts import Text

DEFAULT_LIMIT, MAX_LIMIT = 50, 200

PARAMETERS = ("start", "end", "type", "status", "limit", "cursor", "club_id")


class ListedSend(TypedDict):
    """A send in the list, with numbers of notifications on all channels."""

    send_id: str
    club_id: int
    type: str
    reference: str | None
    """The caller's own id of a send over REST, for eight days after its request or its `send_at`."""
    requested_at: str
    status: SendState
    requested: int | None
    """Null while the users of an audience are sought."""
    published: int
    """Notifications that a provider has accepted."""
    cancelled: int
    in_flight: int
    """Requested notifications without a final status."""
    links: Links


class SendListBody(TypedDict):
    """Sends, the latest first."""

    rows: list[ListedSend]
    truncated: bool
    """Whether there are more sends."""
    next_cursor: str | None
    watermark: str | None
    """The counts include all records that were in the topics at this time."""
    kept_since: str | None
    """Sends whose first record was counted earlier are deleted; null: none is."""
    generated_at: str


@dataclass(frozen=True)
class SendsRoute:
    store: MetricsStore
    controls: SendControls
    clock: Clock
    # None: no send has an audience.
    expansions: Expansions | None = None

    def answer(self, parameters: Mapping[str, list[str]], clubs: Clubs) -> SendListBody:
        """Return the response body. Raises Problem with status 400 (with each wrong parameter) or 403, or Retry."""
        query, wanted = _parsed(parameters, clubs)
        found = self._found(query)
        keys = [SendKey(row.club_id, row.key.send_id) for row in found.rows]
        moving = [key for key, row in zip(keys, found.rows, strict=True) if row.state not in FINAL]
        controls, accepted = self.controls.read_with_registered(moving, [key.send_id for key in keys])
        now_ms = self.clock.now_ms()
        rows = []
        for key, row in zip(keys, found.rows, strict=True):
            state = _state(row, controls.get(key, SendControl(send=key)), now_ms)
            if not wanted or state in wanted:
                rows.append(_row(row, state, of_send(accepted.get(key.send_id), key)))
        return {
            "rows": rows,
            "truncated": found.more,
            "next_cursor": cursor_after(query, found.rows[-1].key) if found.more else None,
            "watermark": rfc3339(found.watermark),
            "kept_since": rfc3339(found.kept_since),
            "generated_at": time_of_ms(now_ms),
        }

    def _found(self, query: SendListQuery) -> SendList:
        """Return the counted sends and the expansions of a page together."""
        counted = tuple(sorted(BY_COUNTS.intersection(query.state)))
        if query.state and not counted:
            found = SendList(rows=[], more=False, watermark=self.store.position().watermark)
        else:
            found = self.store.list_sends(replace(query, state=counted))
        known = {row.key for row in found.rows}
        expansions = [
            row for club_id in query.club_id for row in self._expansions(club_id, query) if row.key not in known
        ]
        rows = sorted([*found.rows, *expansions], key=lambda row: row.key, reverse=True)
        return replace(found, rows=rows[: query.limit], more=found.more or len(rows) > query.limit)

    def _expansions(self, club_id: int, query: SendListQuery) -> Iterator[SendRow]:
        """Yield the first expansions of a club that match a query, up to one more than the page may have."""
        # The list has whole milliseconds.
        limits = [query.end, None if query.after is None else query.after.requested_at]
        ends_ms = [round(moment.timestamp() * 1000) + 1 for moment in limits if moment is not None]
        before_ms = min(ends_ms, default=END_OF_TIME_MS)
        if self.expansions is None:
            return
        rows = (_row_of(listed) for listed in self.expansions.listed(club_id, before_ms=before_ms))
        recent = takewhile(lambda row: query.start is None or row.key.requested_at >= query.start, rows)
        yield from islice((row for row in recent if _matches(row, query)), query.limit + 1)


send_status = parse.choice(SendState)
_limit = parse.whole_number(1, MAX_LIMIT)


def _row_of(listed: ListedExpansion) -> SendRow:
    at = datetime.fromtimestamp(listed.requested_at_ms / 1000, UTC)
    return SendRow(
        key=SendListKey(at, listed.send.send_id),
        club_id=listed.send.club_id,
        type=listed.type,
        state=listed.state,
        requested=0,
        terminal=0,
        published=0,
        cancelled=0,
    )


def _state(row: SendRow, control: SendControl, now_ms: int) -> SendState:
    """Return the state of a send; that by its counts alone if its control cannot be read."""
    if control.fault is not None and not control.cancelled:  # guard: sends.unreadable_control_in_a_list
        return row.state
    cancelled, paused = control.is_cancelled(now_ms), control.is_paused(now_ms)
    return controlled_state(row.state, cancelled=cancelled, paused=paused)


def _matches(row: SendRow, query: SendListQuery) -> bool:
    return (
        (query.end is None or row.key.requested_at < query.end)
        and (query.after is None or row.key < query.after)
        and (not query.type or row.type in query.type)
        and (not query.state or row.state in query.state)
    )


def _row(row: SendRow, state: SendState, accepted: AcceptedSend | None) -> ListedSend:
    return {
        "send_id": row.key.send_id,
        "club_id": row.club_id,
        "type": row.type,
        "reference": None if accepted is None else accepted.reference,
        "requested_at": rfc3339(row.key.requested_at),
        "status": state,
        # While the metrics job catches up, it can count the end of a notification before its beginning.
        "requested": None if row.state is SendState.EXPANDING else max(row.requested, row.terminal),
        "published": row.published,
        "cancelled": row.cancelled,
        "in_flight": max(0, row.requested - row.terminal),
        "links": {"self": f"/v1/sends/{row.key.send_id}"},
    }


def _parsed(parameters: Mapping[str, list[str]], clubs: Clubs) -> tuple[SendListQuery, tuple[SendState, ...]]:
    """Return the query, and the states that the caller wants; () for all."""
    read = Reader(parameters, PARAMETERS)
    start = read.single("start", parse.time)
    end = read.single("end", parse.time)
    limit = read.single("limit", _limit)
    cursor = read.single("cursor", parse.cursor)
    club_id = read.several("club_id", parse_club_id)
    category = read.several("type", parse.words)
    status = read.several("status", send_status)
    if start is not None and end is not None and start >= end:
        read.refuse("end", Text.END_NOT_LATER.filled())
    if clubs.every and not read.given("club_id"):
        read.refuse("club_id", Text.CLUB_MISSING.filled())
    if read.errors:
        raise read.problem()
    query = SendListQuery(
        club_id=seen(club_id, clubs),  # guard: tenancy.listed_sends
        start=start,
        end=end,
        type=category,
        state=states_by_counts(status),
        limit=limit or DEFAULT_LIMIT,
    )
    return continued(query, cursor, SendListKey, read), status
