"""GET /v1/suppressions: the addresses to which a club (tenant) sends no e-mail, the latest first.
DELETE /v1/suppressions/{suppression}: remove one.

club_id      suppressions of these clubs only; may be repeated
address_id   suppressions of the address with this SHA-256 only (masscomm.domain.ids.address_id)
limit        the maximum number of rows, by default 50
cursor       next_cursor of the previous page
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

from masscomm.directory.suppression_list import Position, StoredSuppression, SuppressionList
from masscomm.domain.audit import Action
from masscomm.http import parameters as parse
from masscomm.http.cursor import encode_cursor, position_in
from masscomm.http.parameters import Reader, time_of_ms
from masscomm.http.problem import Problem
from masscomm.http.requested_clubs import seen
from masscomm.http.tenant import Clubs, parse_club_id
from masscomm.integers import integer_or
from masscomm.stores.audit_log.port import Audit
from masscomm.texts import Text

DEFAULT_LIMIT, MAX_LIMIT = 50, 200
PARAMETERS = ("club_id", "address_id", "limit", "cursor")

_ID = re.compile(r"(?P<club>[0-9]{1,19})-(?P<hash>[0-9a-f]{64})", re.ASCII)
# The largest values of a position that OpenSearch accepts.
_MAX = 2**63 - 1


class SuppressionRow(TypedDict):
    """An address to which a club sends no e-mail."""

    id: str
    club_id: int
    address_id: str
    """The SHA-256 of the address in small letters, in hex. The address itself is not stored."""
    reason: str
    at: str
    expires_at: str


class SuppressionsBody(TypedDict):
    """Suppressions, the latest first."""

    rows: list[SuppressionRow]
    truncated: bool
    """Whether there are more suppressions."""
    next_cursor: str | None


class RemovedSuppressionBody(TypedDict):
    """The removal of a suppression."""

    id: str
    status: Literal["removed"]


@dataclass(frozen=True)
class SuppressionsRoute:
    suppressions: SuppressionList

    def answer(self, parameters: Mapping[str, list[str]], clubs: Clubs) -> SuppressionsBody:
        """Return the page of a query. Raises Problem (400 with each wrong parameter, 403) or Retry."""
        read = Reader(parameters, PARAMETERS)
        asked = read.several("club_id", parse_club_id)
        address_id = read.single("address_id", sha256)
        limit = read.single("limit", _limit)
        cursor = read.single("cursor", parse.cursor)
        read.check()
        chosen = seen(asked, clubs)  # guard: tenancy.suppressions
        query = (chosen, address_id)
        page = self.suppressions.page(
            clubs=chosen,
            address_id=address_id,
            limit=limit or DEFAULT_LIMIT,
            after=None if cursor is None else position_in(cursor, query, read, _position),
        )
        return {
            "rows": [_row(row) for row in page.rows],
            "truncated": page.next is not None,
            "next_cursor": None if page.next is None else encode_cursor(query, *page.next),
        }

    def remove(self, id_: str, clubs: Clubs, audit: Audit) -> RemovedSuppressionBody:
        """Remove a suppression of the caller's clubs. Raises Problem with status 404, or Retry."""
        found = _ID.fullmatch(id_)
        club_id = 0 if found is None else integer_or(found["club"], 0)
        # guard: tenancy.removed_suppression
        if found is None or club_id not in clubs:
            raise _not_found()
        if not self.suppressions.remove(id_):
            raise _not_found()
        audit(Action.SUPPRESSION_REMOVED, subject=found["hash"], clubs=[club_id], detail="1 removed")
        return {"id": id_, "status": "removed"}


@parse.of_form(Text.FORM_SHA256.filled())
def sha256(text: str) -> str:
    if not re.fullmatch(r"[0-9a-f]{64}", text, re.ASCII):
        raise ValueError(text)
    return text


_limit = parse.whole_number(1, MAX_LIMIT)


def _position(key: list[Any]) -> Position:
    match key:
        case [int() as at_ms, int() as number] if 0 <= at_ms <= _MAX and 0 <= number <= _MAX:
            return at_ms, number
    raise ValueError("not a suppression")


def _row(found: StoredSuppression) -> SuppressionRow:
    return {
        "id": found.id,
        "club_id": found.club_id,
        "address_id": found.address_id,
        "reason": found.reason,
        "at": time_of_ms(found.at_ms),
        "expires_at": time_of_ms(found.expires_at_ms),
    }


def _not_found() -> Problem:
    return Problem(404, Text.SUPPRESSION_UNKNOWN.filled())
