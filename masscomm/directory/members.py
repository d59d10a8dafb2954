"""Compares the users of a club with an audience where they are read page by page."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from masscomm.directory.port import MembersCount, MembersPage
from masscomm.domain.audiences import Audience, members
from masscomm.domain.channels import CHANNELS
from masscomm.domain.users import Device, User, UserSettings


class _Directory(Protocol):
    def user_settings(self, user_ids: Sequence[int]) -> dict[int, UserSettings]: ...

    def devices(self, user_ids: Sequence[int]) -> dict[int, list[Device]]: ...


def pages_of_members(
    pages: Iterable[Sequence[User]], audience: Audience, directory: _Directory
) -> Iterator[MembersPage]:
    """Yield a page of members for each page of users."""
    for users in filter(None, pages):
        yield MembersPage([user.user_id for user in members(audience, users, directory)], users[-1].user_id)


def counts_of_members(
    pages: Iterable[Sequence[User]], audience: Audience, channels: Sequence[str], directory: _Directory
) -> Iterator[MembersCount]:
    """Yield a count of members for each page of users."""
    to_devices = any(CHANNELS[name].to_devices for name in channels)
    for users in pages:
        found = members(audience, users, directory)
        devices = directory.devices([user.user_id for user in found]) if found and to_devices else {}
        reached = [reached_on(user, devices.get(user.user_id, ()), channels) for user in found]
        counts = {name: sum(name in each for each in reached) for name in channels}
        yield MembersCount(len(users), len(found), counts)


def reached_on(user: User, devices: Iterable[Device], channels: Iterable[str]) -> frozenset[str]:
    """Return the channels that can reach a user: opt-outs and suppressions are not considered."""
    return frozenset(
        name
        for name in channels
        if (any(device.enabled for device in devices) if CHANNELS[name].to_devices else CHANNELS[name].reaches(user))
    )
