"""GET /v1/sends: the sends of the caller's clubs, the latest first.

club_id      only these clubs
start, end   RFC 3339 with an offset: sends requested in [start, end); either may be missing
type         only these categories
status       states of sends (masscomm/domain/send_states.py)
origin       request, digest: what made the sends; by default messages of digests are left out
search       a part of the name (reference), the category or the id, in any case; a page then reads 200 sends
limit        the maximum number of rows, by default 50
cursor       next_cursor of the previous page

club_id, type, status and origin may be repeated. A send appears once a record of it is counted; one that is large,
scheduled, to an audience or controlled when it is registered. A caller of every club who names none sees counted sends
only, because the register lists sends by club.

A page by status or search may have fewer rows than `limit`, or none; next_cursor continues.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypedDict

from functions.sends_api.cursor import continued, cursor_after
from masscomm.clock import Clock
from masscomm.domain.send_states import SendState, states_by_counts
from masscomm.domain.sends import Origin
from masscomm.http import parameters as parse
from masscomm.http.parameters import Reader, rfc3339, time_of_ms
from masscomm.http.requested_clubs import seen
from masscomm.http.tenant import Clubs, parse_club_id
from masscomm.operations.send_lists import MAX_LIMIT, ListedSend, SendLists
from masscomm.stores.metrics.port import MetricsStore, SendListKey, SendListQuery
from masscomm.stores.sends.port import Sends
from masscomm.texts import Text

DEFAULT_LIMIT = 50

PARAMETERS = ("start", "end", "type", "status", "origin", "search", "limit", "cursor", "club_id")


class SendListBody(TypedDict):
    """Sends, the latest first."""

    rows: list[ListedSend]
    truncated: bool
    """Whether there are more sends."""
    next_cursor: str | None
    counts_known: bool
    """False: the metrics database does not answer. Only sends are listed that are large, scheduled, to an audience or
    controlled, and their counts are null."""
    registered_listed: bool
    """Whether sends without a counted record are listed. False for a caller of every club who names none: scheduled
    sends to audiences are then missing, and without the metrics database all sends."""
    watermark: str | None
    """The counts include all records that were in the topics at this time."""
    kept_since: str | None
    """Sends whose first record was counted earlier are deleted; null: none is."""
    small_kept_since: str | None
    """Sends to at most 100 users that had ended, and did not change since, are deleted; null: none is."""
    generated_at: str


@dataclass(frozen=True)
class SendsRoute:
    store: MetricsStore
    sends: Sends
    clock: Clock

    def answer(self, parameters: Mapping[str, list[str]], clubs: Clubs) -> SendListBody:
        """Return the response body. Raises Problem with status 400 (with each wrong parameter) or 403, or Retry."""
        query, status, search = _parsed(parameters, clubs)
        now_ms = self.clock.now_ms()
        page = SendLists(self.store, self.sends).page(query, now_ms, status=status, search=search)
        return {
            "rows": list(page.rows),
            "truncated": page.last is not None,
            "next_cursor": None if page.last is None else cursor_after(query, page.last),
            "counts_known": page.counts_known,
            "registered_listed": query.club_id is not None,
            "watermark": rfc3339(page.watermark),
            "kept_since": rfc3339(page.kept_since),
            "small_kept_since": rfc3339(page.small_kept_since),
            "generated_at": time_of_ms(now_ms),
        }


send_status = parse.choice(SendState)
send_origin = parse.choice(Origin)
_limit = parse.whole_number(1, MAX_LIMIT)


def _parsed(
    parameters: Mapping[str, list[str]], clubs: Clubs
) -> tuple[SendListQuery, tuple[SendState, ...], str | None]:
    """Return the query, the states that the caller wants, () for all, and the searched words."""
    read = Reader(parameters, PARAMETERS)
    start = read.single("start", parse.time)
    end = read.single("end", parse.time)
    limit = read.single("limit", _limit)
    cursor = read.single("cursor", parse.cursor)
    club_id = read.several("club_id", parse_club_id)
    category = read.several("type", parse.words)
    status = read.several("status", send_status)
    origin = read.several("origin", send_origin) or (Origin.REQUEST,)
    search = read.single("search", parse.words)
    if start is not None and end is not None and start >= end:
        read.refuse("end", Text.END_NOT_LATER.filled())
    read.check()
    asked = seen(club_id, clubs)  # guard: tenancy.listed_sends
    query = SendListQuery(
        club_id=None if clubs.every and not asked else asked,
        start=start,
        end=end,
        type=category,
        state=states_by_counts(status),
        digests=None if len(set(origin)) > 1 else Origin.DIGEST in origin,
        limit=(limit or DEFAULT_LIMIT) if search is None else MAX_LIMIT,
    )
    return continued(query, cursor, SendListKey, read), status, search
