"""GET /v1/users: the users of a club (tenant), by id.

club_id   the club; a caller with several clubs must name one
limit     the maximum number of rows, by default 50
cursor    next_cursor of the previous page
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypedDict

from functions.preferences_handler.user_body import UserColumns, user_columns
from masscomm.domain.users import User
from masscomm.http import parameters as parse
from masscomm.http.cursor import encode_cursor, position_in
from masscomm.http.parameters import Reader
from masscomm.http.requested_clubs import seen
from masscomm.http.rest import Links
from masscomm.http.tenant import Clubs, parse_club_id
from masscomm.texts import Text

DEFAULT_LIMIT, MAX_LIMIT = 50, 200
PARAMETERS = ("club_id", "limit", "cursor")


class ListedUser(UserColumns):
    """A user, as the directory has it. Addresses are not shown."""

    links: Links


class UsersBody(TypedDict):
    """Users by id."""

    rows: list[ListedUser]
    truncated: bool
    """Whether there are more users."""
    next_cursor: str | None


@dataclass(frozen=True, kw_only=True)
class UsersQuery:
    """A page of the users of one club."""

    club_id: int
    # Only users with a higher id.
    after: int = 0
    limit: int


_limit = parse.whole_number(1, MAX_LIMIT)


def parse_query(parameters: Mapping[str, list[str]], clubs: Clubs) -> UsersQuery:
    """Return the query. Raises Problem with status 400 (with each wrong parameter) or 403."""
    read = Reader(parameters, PARAMETERS)
    club_id = read.single("club_id", parse_club_id)
    limit = read.single("limit", _limit)
    cursor = read.single("cursor", parse.cursor)
    if (clubs.every or len(clubs.ids) > 1) and not read.given("club_id"):
        read.refuse("club_id", Text.CLUB_MISSING_OF_SEVERAL.filled())
    read.check()
    (chosen,) = seen(() if club_id is None else (club_id,), clubs)
    query = UsersQuery(club_id=chosen, limit=limit or DEFAULT_LIMIT)
    return query if cursor is None else replace(query, after=position_in(cursor, _of_club(query), read, _position))


def users_body(query: UsersQuery, found: Sequence[User]) -> UsersBody:
    """Return the response body for the users of a page, and the first one of the next page if there is one."""
    rows, more = found[: query.limit], len(found) > query.limit
    return {
        "rows": [_row(user) for user in rows],
        "truncated": more,
        "next_cursor": encode_cursor(_of_club(query), rows[-1].user_id) if more else None,
    }


def _of_club(query: UsersQuery) -> UsersQuery:
    return replace(query, after=0, limit=0)


def _position(key: list[Any]) -> int:
    match key:
        case [int() as user_id] if -(2**63) <= user_id < 2**63:
            return user_id
    raise ValueError("not a user")


def _row(user: User) -> ListedUser:
    return {**user_columns(user), "links": {"self": f"/v1/users/{user.user_id}"}}
