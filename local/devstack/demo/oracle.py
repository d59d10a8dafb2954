"""The oracle: it computes the expected results of a send from the monolith's data alone.

It has its own implementation of the preference rules and of quiet hours, and shares no code with the functions whose
results it checks.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self
from zoneinfo import ZoneInfo

import psycopg
import yaml

from examples.monolith.rows import people
from examples.monolith.seed import User

# The categories that the demo puts: schemas/categories.yaml does not have them. Of the second one, a user gets one.
PUT_CATEGORY, CAPPED_CATEGORY = "season_ticket", "club_shop"
PUT_FIELDS: Mapping[str, Any] = {"channels": ["push", "email"], "mandatory": False}
_CATEGORIES = Path(__file__).resolve().parents[3] / "schemas" / "categories.yaml"

# The fates that are no suppressions.
_NOT_SUPPRESSED = ("sent", "digested", "cancelled")
# The measures of notifications that wait before they end, by their ends.
_WAITED = {"digested": "collected", "cancelled": "scheduled"}


@dataclass(frozen=True)
class Person:
    """The data that determines a user's notifications. The settings are empty if user_settings has no row of the
    user.
    """

    club_id: int
    has_email: bool
    active_devices: int
    has_phone: bool = False
    channels: Mapping[str, Any] = field(default_factory=dict)
    categories: Mapping[str, Any] = field(default_factory=dict)
    quiet_hours: Mapping[str, str] | None = None
    time_zone: str = "UTC"


@dataclass(frozen=True)
class World:
    """All users of the monolith at one moment, by user id."""

    people: Mapping[int, Person]

    @classmethod
    def of_seed(cls, users: Iterable[User]) -> Self:
        """Return the users that the seed generator creates."""
        return cls({user.id: _person(user) for user in users})

    @classmethod
    def of_database(cls, connection: psycopg.Connection[Any]) -> Self:
        """Return the users in the monolith's tables at this moment. Raises psycopg.Error."""
        return cls(
            {
                user_id: Person(
                    club_id, has_email, devices, has_phone, channels or {}, categories or {}, quiet_hours, time_zone
                )
                for user_id, club_id, has_email, has_phone, devices, channels, categories, quiet_hours, time_zone in (
                    people(connection)
                )
            }
        )

    def members(self, club_id: int) -> list[int]:
        """Return the ids of a club's users in ascending order."""
        return sorted(user_id for user_id, person in self.people.items() if person.club_id == club_id)


def _person(user: User) -> Person:
    active = sum(device.active for device in user.devices)
    chosen = {} if user.settings is None else vars(user.settings)
    return Person(
        user.club_id, user.email is not None, active, user.phone is not None, time_zone=user.time_zone, **chosen
    )


@dataclass(frozen=True, kw_only=True)
class Ask:
    """The parameters of a send."""

    club_id: int
    type: str
    to_users: Sequence[int]
    channels: Sequence[str] = ()  # The requested channels; if empty, the channels of the category.
    is_capped: bool = False  # Whether each user has had as many sends of the category as its frequency cap permits.
    is_collected: bool = False  # Whether its notifications are collected in digests.
    falls_back: bool = False  # Whether its second channel is a fallback for the first one.
    is_stopped: bool = False  # Whether each user has answered STOP to an SMS of the club.
    # The number of recipients that its pace releases before it is cancelled; None: it is not cancelled.
    released: int | None = None


@dataclass(frozen=True)
class Expected:
    """The expected results of a send. A notification is identified by a user and a channel."""

    # Maps a notification to "sent", "digested", "cancelled" or to the reason of its suppression.
    fates: Mapping[tuple[int, str], str]
    # The number of provider calls: one for each device, each e-mail and each SMS.
    provider_calls: int
    held: frozenset[tuple[int, str]] = frozenset()  # The notifications that are held until quiet hours end.
    waiting: frozenset[tuple[int, str]] = frozenset()  # The notifications that wait for that of another channel.

    @property
    def requested(self) -> int:
        """Return the number of distinct requested notifications."""
        return len(self.fates)

    @property
    def sent(self) -> int:
        """Return the notifications that the provider must accept."""
        return sum(fate == "sent" for fate in self.fates.values())

    @property
    def suppressed(self) -> dict[str, int]:
        """Return the number of notifications to suppress, by reason."""
        return dict(Counter(fate for fate in self.fates.values() if fate not in _NOT_SUPPRESSED))

    @property
    def cancelled(self) -> int:
        """Return the notifications that end because their send is cancelled."""
        return sum(fate == "cancelled" for fate in self.fates.values())

    def by_channel(self) -> dict[str, Counter[str]]:
        """Return the expected count of each measure of the metrics (requested, scheduled, held, collected, queued,
        suppressed, digested, cancelled, sent), by channel.

        The builder counts "queued". Recipients without an address are suppressed before the builder, and recipients
        without a device, or with a suppressed number, after it.
        """
        counts: dict[str, Counter[str]] = {}
        for notification, fate in self.fates.items():
            count = counts.setdefault(notification[1], Counter())
            count["requested"] += 1
            if notification in self.held:
                count["held"] += 1
            count[fate if fate in _NOT_SUPPRESSED else "suppressed"] += 1
            if notification in self.waiting:
                count["scheduled"] += 1
            if fate in _WAITED:
                count[_WAITED[fate]] += 1
            count["queued"] += fate in ("sent", "no_device", "address_suppressed")
        return counts


def expect(world: World, ask: Ask, at: datetime | None = None) -> Expected:
    """Return the expected results of a send to the users of `world`.

    Args:
        world: All users at the time of the decision.
        ask: The parameters of the send.
        at: The time of the decision; None means now.
    """
    category = _category(ask.type, ask.club_id)
    at = at or datetime.now(UTC)
    fates: dict[tuple[int, str], str] = {}
    held, waiting = set(), set()
    calls = released = 0
    first: str | None = None
    for channel in dict.fromkeys(ask.channels or category["channels"]):
        for user_id in dict.fromkeys(ask.to_users):
            fate = _fate(world.people.get(user_id), ask, channel, mandatory=category["mandatory"])
            if ask.is_capped and fate == "sent":
                fate = "frequency_cap"
            if ask.is_collected and fate in ("sent", "no_device", "no_address"):
                fate = "digested"
            if ask.released is not None and fate == "sent":
                fate = "sent" if released < ask.released else "cancelled"
                released += 1
            # Whether a user has a device is known when the message is written, and the opt-out before.
            earlier = fates[user_id, first] if ask.falls_back and first is not None else None
            if earlier in ("sent", "no_device"):
                waiting.add((user_id, channel))
            if earlier == "sent":
                fate = "not_needed"
            fates[user_id, channel] = fate
            if fate in ("sent", "no_device", "no_address") and not category["mandatory"]:
                held |= {(user_id, channel)} if quiet(world.people[user_id], at) else set()
            if fate == "sent":
                calls += world.people[user_id].active_devices if channel == "push" else 1
        first = channel
    return Expected(fates, calls, frozenset(held), frozenset(waiting))


def _fate(person: Person | None, ask: Ask, channel: str, *, mandatory: bool) -> str:
    if person is None or person.club_id != ask.club_id:
        return "unknown_user"
    stopped = ask.is_stopped and channel == "sms"
    if not mandatory and (stopped or not wants(person, ask.type, channel)):
        return "opted_out"
    if channel == "push":
        return "sent" if person.active_devices else "no_device"
    if channel == "sms":
        # STOP applies to a mandatory category, too: the number itself is suppressed.
        return ("address_suppressed" if stopped else "sent") if person.has_phone else "no_address"
    return "sent" if person.has_email else "no_address"


def wants(person: Person, category: str, channel: str) -> bool:
    """Return whether a user's settings permit a category on a channel: the most specific setting determines it."""
    chosen = person.categories.get(category)
    if isinstance(chosen, dict) and channel in chosen:
        return bool(chosen[channel])
    if isinstance(chosen, bool):
        return chosen
    return bool(person.channels.get(channel, True))


def quiet(person: Person, at: datetime) -> bool:
    """Return whether the time `at` is within a user's quiet hours, which may cross midnight."""
    if person.quiet_hours is None:
        return False
    start, end = person.quiet_hours["start"], person.quiet_hours["end"]
    now = f"{at.astimezone(ZoneInfo(person.time_zone)):%H:%M}"
    return start <= now < end if start < end else not end <= now < start


def _category(name: str, club_id: int) -> Mapping[str, Any]:
    if name in (PUT_CATEGORY, CAPPED_CATEGORY):
        return PUT_FIELDS
    document = yaml.safe_load(_CATEGORIES.read_text())
    own = document["tenants"].get(club_id, {})
    known = document["categories"].get(name) or own.get("default", {})
    category: dict[str, Any] = document["default"] | known | own.get(name, {})
    return category
