"""GET /v1/sends: the sends of the caller's clubs, the latest first.

club_id      only these clubs; a caller who may see every club must name at least one
start, end   RFC 3339 with an offset: sends requested in [start, end); either may be missing
type         only these categories
status       in_progress, cancelled, ended
limit        the maximum number of rows, by default 50
cursor       next_cursor of the previous page

club_id, type and status may be repeated. A send appears seconds after it was requested, once a chunk of it is counted.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypedDict

from functions.metrics_handler.http.cursor import continued, cursor_after
from functions.metrics_handler.store.port import MetricsStore, SendListKey, SendListQuery, SendRow, SendStatus
from masscomm.clock import Clock
from masscomm.http import parameters as parse
from masscomm.http.parameters import Reader, rfc3339, time_of_ms
from masscomm.http.requested_clubs import seen
from masscomm.http.rest import Links
from masscomm.http.tenant import Clubs, parse_club_id

DEFAULT_LIMIT, MAX_LIMIT = 50, 200

PARAMETERS = ("start", "end", "type", "status", "limit", "cursor", "club_id")


class ListedSend(TypedDict):
    """A send in the list, with numbers of notifications on all channels."""

    send_id: str
    club_id: int
    type: str
    requested_at: str
    status: SendStatus
    requested: int
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
    generated_at: str


@dataclass(frozen=True)
class SendsRoute:
    store: MetricsStore
    clock: Clock

    def answer(self, parameters: Mapping[str, list[str]], clubs: Clubs) -> SendListBody:
        """Return the response body. Raises Problem with status 400 (with each wrong parameter) or 403, or Retry."""
        query = _parsed(parameters, clubs)
        found = self.store.list_sends(query)
        return {
            "rows": [_row(row) for row in found.rows],
            "truncated": found.more,
            "next_cursor": cursor_after(query, found.rows[-1].key) if found.more else None,
            "watermark": rfc3339(found.watermark),
            "generated_at": time_of_ms(self.clock.now_ms()),
        }


def send_status(text: str) -> SendStatus:
    return SendStatus(text)


send_status.__doc__ = f"one of {', '.join(SendStatus)}"

_limit = parse.whole_number(1, MAX_LIMIT)


def _row(row: SendRow) -> ListedSend:
    return {
        "send_id": row.key.send_id,
        "club_id": row.club_id,
        "type": row.type,
        "requested_at": rfc3339(row.key.requested_at),
        "status": row.status,
        "requested": row.requested,
        "published": row.published,
        "cancelled": row.cancelled,
        "in_flight": max(0, row.requested - row.terminal),
        "links": {"self": f"/v1/sends/{row.key.send_id}"},
    }


def _parsed(parameters: Mapping[str, list[str]], clubs: Clubs) -> SendListQuery:
    read = Reader(parameters, PARAMETERS)
    start = read.single("start", parse.time)
    end = read.single("end", parse.time)
    limit = read.single("limit", _limit)
    cursor = read.single("cursor", str)
    club_id = read.several("club_id", parse_club_id)
    category = read.several("type", parse.words)
    status = read.several("status", send_status)
    if start is not None and end is not None and start >= end:
        read.refuse("end", "must be later than start")
    if clubs.every and not read.given("club_id"):
        read.refuse("club_id", "is missing: these credentials may see every club")
    if read.errors:
        raise read.problem()
    query = SendListQuery(
        club_id=seen(club_id, clubs),  # guard: tenancy.listed_sends
        start=start,
        end=end,
        type=category,
        status=status,
        limit=limit or DEFAULT_LIMIT,
    )
    return continued(query, cursor, SendListKey, read)
