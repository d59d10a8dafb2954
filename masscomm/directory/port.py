"""The interface of the directory: users, user settings, devices and templates, copied from the monolith's tables to
OpenSearch.

A look-up has four different results. A caller must not mistake one for another: a failed look-up is not consent.

- the row
- a confirmed absence: the directory is complete up to the send's timestamp (`confirm`)
- not ready: the snapshot that the index was built from is not complete → Retry
- a failure of the look-up, for all or some of the ids → Retry
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self

from masscomm.directory.person import Person
from masscomm.domain.memberships import Membership
from masscomm.domain.users import Device, DirectoryPosition, Template, User, UserSettings

if TYPE_CHECKING:
    from masscomm.domain.audiences import Audience


# The users with the same last digits of the phone that are returned at most.
MOST_COMPARED = 2_000


@dataclass(frozen=True, kw_only=True)
class TemplateQuery:
    """Selects templates: those of some clubs, and those for every club."""

    # The clubs; None: all of them.
    club_ids: tuple[int, ...] | None
    # Only these types (categories) and channels; empty: all.
    types: tuple[str, ...] = ()
    channels: tuple[str, ...] = ()
    # The id after which the page begins, and its length.
    after: int = -(2**63)
    limit: int


class MembersPage(NamedTuple):
    """The users of an audience among those of a club that were compared with it for this page."""

    user_ids: Sequence[int]
    # The last user that was compared.
    up_to: int


class MembersCount(NamedTuple):
    """The number of users of an audience among those of a club that were compared with it."""

    examined: int
    users: int
    # Channel → the users that it can reach: those with an address, or with an enabled device.
    channels: Mapping[str, int]


# User → (table, id) of further documents about the user as a recipient (masscomm.directory.layers).
type Related = Mapping[int, Collection[tuple[str, str]]]


class Layers(NamedTuple):
    """Settings of users, and rules of clubs, which precede each other as masscomm.domain.preferences says."""

    users: dict[int, User]
    settings: dict[int, UserSettings]
    # Club → its rules.
    tenants: dict[int, UserSettings]
    # (User, club) → the user's settings for the club.
    tenant_users: dict[tuple[int, int], UserSettings]
    # Id (masscomm.domain.memberships) → the row about an object that a user follows.
    memberships: dict[str, Membership]

    @classmethod
    def merged(cls, parts: "Iterable[Layers]") -> Self:
        """Return the rows of several look-ups together."""
        found = cls({}, {}, {}, {}, {})
        for part in parts:
            found.users.update(part.users)
            found.settings.update(part.settings)
            found.tenants.update(part.tenants)
            found.tenant_users.update(part.tenant_users)
            found.memberships.update(part.memberships)
        return found


class Directory(Protocol):
    """Look-ups for a whole batch. Every method raises Retry unless it has the result for all ids."""

    def users(self, user_ids: Sequence[int]) -> dict[int, User]:
        """Return the users by id. An id that is not in the result has no user in the directory at this time."""
        ...

    def user_settings(self, user_ids: Sequence[int]) -> dict[int, UserSettings]:
        """Return the user settings by user id, without the ids that have none. Those of deleted rows are absent."""
        ...

    def users_and_settings(self, user_ids: Sequence[int]) -> tuple[dict[int, User], dict[int, UserSettings]]:
        """Return users and user settings, with half the round trips of two calls."""
        ...

    def users_and_layers(
        self, user_ids: Sequence[int], club_ids: Collection[int], related: Related = MappingProxyType({})
    ) -> Layers:
        """Return users and user settings with the rules of clubs (tenants), in the round trips of users_and_settings.
        The rules for every club are under tenant_preferences.EVERY_CLUB. They are read in real time.

        Args:
            related: Further documents to read about these users.
        """
        ...

    def layers(
        self, user_ids: Sequence[int], club_ids: Collection[int], related: Related = MappingProxyType({})
    ) -> Layers:
        """Return as users_and_layers, without users."""
        ...

    def members_of_club(self, club_id: int, audience: "Audience", *, after: int = 0) -> Iterator[MembersPage]:
        """Yield pages of the users of a club (tenant) that belong to an audience and whose ids are above `after`, in
        ascending order of the ids. A page without users shows how far the club has been read.

        All pages show the users as they were at one moment, which is at or after the call; settings may be newer. Of
        an audience of followers, that is true of the follows: the followers alone are read, and their rows may be
        newer.
        Raises Retry if that moment can no longer be read.
        """
        ...

    def count_members(self, club_id: int, audience: "Audience", channels: Sequence[str]) -> Iterator[MembersCount]:
        """Yield the counts of an audience, whose sum is that of all users of the club (tenant) at one moment, except
        those whose ids are not positive.
        """
        ...

    def list_users(self, club_id: int, *, after: int = 0, limit: int) -> list[User]:
        """Return one page of the users of a club (tenant) whose ids are above `after`, in ascending order of the ids.
        It has fewer than `limit` users only if no user follows.
        """
        ...

    def users_by_phone_ends(self, ends: Collection[str]) -> list[User]:
        """Return the users whose phone has one of these ends (masscomm.domain.phone_ends), in ascending order of the
        ids: at most MOST_COMPARED. OpenSearch finds a user that version 0.1.0 has captured once the row has changed, or
        belongs to a new snapshot.
        """
        ...

    def person(self, user_id: int, now_ms: int) -> Person | None:
        """Return a user with all that is known of the user, and the row that each part comes from; None for an unknown
        user.
        """
        ...

    def devices(self, user_ids: Sequence[int]) -> dict[int, list[Device]]:
        """Return the monolith's active devices by user id, each user's devices in the order of their ids."""
        ...

    def suppressed(self, club_id: int, addresses: Sequence[str], now_ms: int) -> set[str]:
        """Return the given e-mail addresses to which the club must not send now (masscomm.domain.suppressions)."""
        ...

    def templates(self, keys: Sequence[tuple[int, str, str]]) -> dict[tuple[int, str, str], list[Template]]:
        """Return, for each (club_id, type, channel), the club's own templates and those for every club, in all
        locales.
        """
        ...

    def list_templates(self, query: TemplateQuery) -> list[Template]:
        """Return one page of templates, in the order of their ids."""
        ...

    def await_changes(self, user_id: int, version: int) -> None:
        """Return once look-ups see a user's changes through masscomm, of this version or a later one
        (masscomm.domain.preference_changes). Raises Retry if they do not see them in time.
        """
        ...

    def confirm(self, ts_ms: int) -> DirectoryPosition:
        """Return once every row that the monolith's database committed up to ts_ms can be looked up.

        A later look-up that does not find a row confirms its absence. The confirmed position is cached: only the first
        call for a given time sends requests.

        Raises:
            Retry: The directory is behind.
        """
        ...

    def is_confirmed(self, ts_ms: int) -> bool:
        """Return whether confirm(ts_ms) would return without a request. If so, a row that a look-up does not find
        now is confirmed as absent.
        """
        ...

    def position(self) -> DirectoryPosition | None:
        """Return the newest position in the write-ahead log that is confirmed, without a request; None before the
        first successful confirm.
        """
        ...
