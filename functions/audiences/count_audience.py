"""POST /v1/audiences/count: the number of users in an audience, and by channel those that it can reach."""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, NotRequired, TypedDict

from masscomm.directory.port import Directory
from masscomm.domain.audiences import Audience
from masscomm.domain.channels import CHANNELS, are_channels
from masscomm.domain.limits import LARGEST_ID
from masscomm.domain.time_limits import COUNT_RESERVE_S
from masscomm.http.audiences import audience_errors, audience_of, resolved
from masscomm.http.body import read_object
from masscomm.http.problem import FieldError, Problem, invalid
from masscomm.http.scopes import Scope
from masscomm.http.single_users import check_group, check_named_users
from masscomm.http.tenant import Clubs
from masscomm.stores.saved_audiences.port import SavedAudiences
from masscomm.texts import Text

_FIELDS = ("club_id", "audience", "channels")


class CountRequest(TypedDict):
    """The body of a request to POST /v1/audiences/count."""

    club_id: int
    audience: dict[str, Any]
    """The conditions of docs/audiences.md, or a saved audience."""
    channels: NotRequired[list[str]]
    """The channels to count; by default all."""


class CountBody(TypedDict):
    """The number of users in an audience."""

    users: int
    channels: dict[str, int]
    """By channel: users with an address, or with an active device. Opt-outs and suppressions are not considered."""
    examined: int
    """The users of the club that were compared with the audience; of one with `follows`, the followers."""
    complete: bool
    """Whether all users of the club were examined in the time of a request."""


@dataclass(frozen=True, kw_only=True)
class CountQuery:
    club_id: int
    # The audience as in the request.
    audience: Mapping[str, Any]
    channels: Sequence[str]


def parse_count(body: str | None) -> CountQuery:
    """Return the query in a request's body. Raises Problem with status 400 that names each invalid field."""
    document = read_object(body, bounded=False)
    errors = [
        FieldError(str(name)[:100], Text.MEMBER_UNKNOWN.filled()) for name in list(document.keys() - set(_FIELDS))[:10]
    ]
    club_id, channels = document.get("club_id"), document.get("channels", list(CHANNELS))
    if isinstance(club_id, bool) or not isinstance(club_id, int) or not 1 <= club_id <= LARGEST_ID:
        errors.append(FieldError("club_id", Text.MUST_BE_CLUB_FROM_1.filled()))
    if not are_channels(channels):
        errors.append(FieldError("channels", Text.MUST_BE_LIST_OF_SOME.filled(choices=", ".join(CHANNELS))))
    audience = document.get("audience")
    errors += audience_errors(audience)
    if errors or not (isinstance(club_id, int) and isinstance(channels, list) and isinstance(audience, dict)):
        raise invalid(errors)
    return CountQuery(club_id=club_id, audience=audience, channels=list(dict.fromkeys(channels)))


@dataclass(frozen=True, kw_only=True)
class CountAudience:
    """The use case that counts audiences. Each function environment has one instance."""

    directory: Directory
    saved: SavedAudiences

    def count(
        self, query: CountQuery, clubs: Clubs, scopes: AbstractSet[Scope], remaining_s: Callable[[], float]
    ) -> CountBody:
        """Return the response body. Raises Problem with status 403, or Retry."""
        if query.club_id not in clubs:  # guard: tenancy.counted_audience
            message = Text.CLUB_OF_OTHERS.filled(club_id=str(query.club_id))
            errors = [FieldError("club_id", message)]
            raise Problem(403, Text.COUNT_NOT_PERMITTED.filled(), errors=errors)
        audience, _ = audience_of(resolved(query.audience, query.club_id, self.saved.find))
        if audience.except_users:
            check_named_users(scopes, "audience.except_users")
        counts = self._counted(query, audience, remaining_s)
        check_group(scopes, counts["users"])
        return counts

    def _counted(self, query: CountQuery, audience: Audience, remaining_s: Callable[[], float]) -> CountBody:
        counts: CountBody = {
            "users": 0,
            "channels": dict.fromkeys(query.channels, 0),
            "examined": 0,
            "complete": False,
        }
        for found in self.directory.count_members(query.club_id, audience, query.channels):
            counts["examined"] += found.examined
            counts["users"] += found.users
            for name in query.channels:
                counts["channels"][name] += found.channels[name]
            if remaining_s() < COUNT_RESERVE_S:
                return counts
        counts["complete"] = True
        return counts
