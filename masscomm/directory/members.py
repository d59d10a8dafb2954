"""Compares the users of a club with an audience where they are read page by page."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from masscomm.directory.port import MembersCount, MembersPage
from masscomm.domain.channels import CHANNELS
from masscomm.domain.users import Device, User, UserSettings

if TYPE_CHECKING:
    # Most functions read no audiences: their packages have no names of locales and zones.
    from masscomm.domain.audiences import Audience


class _Directory(Protocol):
    def user_settings(self, user_ids: Sequence[int]) -> dict[int, UserSettings]: ...

    def devices(self, user_ids: Sequence[int]) -> dict[int, list[Device]]: ...


def members(audience: "Audience", users: Sequence[User], directory: _Directory) -> list[User]:
    """Return the users that belong to the audience. Raises the errors of the look-up."""
    settings = directory.user_settings([user.user_id for user in users]) if audience.reads_settings and users else {}
    return [user for user in users if audience.has(user, settings.get(user.user_id))]


class UsersPage(NamedTuple):
    """The users of a club that may belong to an audience, in the order of their ids."""

    users: Sequence[User]
    # The last user that was read. A follower may be of another club.
    up_to: int


def pages_of_users(pages: Iterable[Sequence[User]]) -> Iterator[UsersPage]:
    """Yield the pages of all users of a club."""
    for users in filter(None, pages):
        yield UsersPage(users, users[-1].user_id)


def pages_of_followers(
    pages: Iterable[Sequence[int]], club_id: int, look_up: Callable[[Sequence[int]], Mapping[int, User]]
) -> Iterator[UsersPage]:
    """Yield the users of a club among pages of followers.

    Args:
        look_up: Returns users by id.
    """
    for user_ids in filter(None, pages):
        found = look_up(user_ids)
        users = [found[user_id] for user_id in user_ids if user_id in found]
        # guard: tenancy.followers
        yield UsersPage([user for user in users if user.club_id == club_id], user_ids[-1])


def pages_of_members(pages: Iterable[UsersPage], audience: "Audience", directory: _Directory) -> Iterator[MembersPage]:
    """Yield a page of members for each page of users."""
    for users, up_to in pages:
        yield MembersPage([user.user_id for user in members(audience, users, directory)], up_to)


def counts_of_members(
    pages: Iterable[UsersPage], audience: "Audience", channels: Sequence[str], directory: _Directory
) -> Iterator[MembersCount]:
    """Yield a count of members for each page of users."""
    to_devices = any(CHANNELS[name].to_devices for name in channels)
    for users, _ in pages:
        found = members(audience, users, directory)
        devices = directory.devices([user.user_id for user in found]) if found and to_devices else {}
        with_devices = {user_id for user_id, own in devices.items() if any(device.enabled for device in own)}
        reached = [reached_on(channels, user, has_device=user.user_id in with_devices) for user in found]
        counts = {name: sum(name in each for each in reached) for name in channels}
        yield MembersCount(len(users), len(found), counts)


def reached_on(channels: Iterable[str], user: User, *, has_device: bool) -> tuple[str, ...]:
    """Return the channels that can reach a user with an enabled device or without: opt-outs and suppressions are not
    considered.
    """
    return tuple(
        name for name in channels if (has_device if CHANNELS[name].to_devices else CHANNELS[name].reaches(user))
    )
