"""GET /v1/audit: the audit log of one club (tenant), the latest entries first.

club_id      the club; a caller who may see several clubs must name one. A caller who may see every club and names none
             gets the entries that concern every club
start, end   RFC 3339 with an offset: entries in [start, end); either may be missing
limit        the maximum number of rows, by default 50
cursor       next_cursor of the previous page
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, TypedDict

from masscomm.clock import Clock
from masscomm.domain.audit import AuditEntry
from masscomm.http import parameters as parse
from masscomm.http.cursor import encode_cursor, position_in
from masscomm.http.parameters import Reader, time_of_ms
from masscomm.http.requested_clubs import seen
from masscomm.http.tenant import Clubs, parse_club_id
from masscomm.stores.audit_log.port import AuditLog, AuditQuery
from masscomm.texts import Text

DEFAULT_LIMIT, MAX_LIMIT = 50, 200

PARAMETERS = ("club_id", "start", "end", "limit", "cursor")

# Times after every entry and before every entry.
_EARLIEST, _LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)


class AuditRow(TypedDict):
    """An action of a principal."""

    at: str
    club_id: int | None
    """null: every club."""
    principal: str
    """The id of an API key, or `operator:` and a name."""
    action: str
    subject: str
    """The id of the send, key or user, the position of the dead letter, or the digest of the address."""
    result: str
    """ok, or failed: the action may have had a part of its effect."""
    detail: str


class AuditBody(TypedDict):
    """Entries of the audit log, the latest first."""

    rows: list[AuditRow]
    truncated: bool
    """Whether there are more entries."""
    next_cursor: str | None
    generated_at: str


@dataclass(frozen=True)
class AuditRoute:
    audit_log: AuditLog
    clock: Clock

    def answer(self, parameters: Mapping[str, list[str]], clubs: Clubs) -> AuditBody:
        """Return the response body. Raises Problem with status 400 (with each wrong parameter) or 403, Retry."""
        query = _parsed(parameters, clubs)
        page = self.audit_log.page(query)
        return {
            "rows": [_row(entry) for entry in page.entries],
            "truncated": page.more,
            "next_cursor": _cursor_after(query, page.entries[-1]) if page.more else None,
            "generated_at": time_of_ms(self.clock.now_ms()),
        }


_limit = parse.whole_number(1, MAX_LIMIT)


def _parsed(parameters: Mapping[str, list[str]], clubs: Clubs) -> AuditQuery:
    read = Reader(parameters, PARAMETERS)
    club_id = read.single("club_id", parse_club_id)
    start = read.single("start", parse.time) or _EARLIEST
    end = read.single("end", parse.time) or _LATEST
    limit = read.single("limit", _limit)
    cursor = read.single("cursor", parse.cursor)
    if start >= end:
        read.refuse("end", Text.END_NOT_LATER.filled())
    if len(clubs.ids) > 1 and not read.given("club_id"):
        read.refuse("club_id", Text.CLUB_MISSING_OF_SEVERAL.filled())
    read.check()
    chosen = seen(() if club_id is None else (club_id,), clubs)  # guard: tenancy.audit_log
    query = AuditQuery(
        club_id=chosen[0] if chosen else None,
        start_ms=round(start.timestamp() * 1000),
        end_ms=round(end.timestamp() * 1000),
        limit=limit or DEFAULT_LIMIT,
    )
    if cursor is None:
        return query

    def position(key: list[Any]) -> tuple[int, str]:
        match key:
            case [int() as at_ms, str() as id_] if 0 <= at_ms < query.end_ms and id_.isascii() and len(id_) <= 64:
                return at_ms, id_
        raise ValueError("not an entry")

    return replace(query, before=position_in(cursor, _without_position(query), read, position))


def _cursor_after(query: AuditQuery, entry: AuditEntry) -> str:
    return encode_cursor(_without_position(query), entry.at_ms, entry.id)


def _without_position(query: AuditQuery) -> AuditQuery:
    return replace(query, before=None, limit=0)


def _row(entry: AuditEntry) -> AuditRow:
    return {
        "at": time_of_ms(entry.at_ms),
        "club_id": entry.club_id,
        "principal": entry.principal,
        "action": entry.action,
        "subject": entry.subject,
        "result": entry.result,
        "detail": entry.detail,
    }
