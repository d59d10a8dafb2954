"""Subscriptions: which endpoint receives which occurred events."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, NamedTuple

from masscomm.domain.events import is_path, is_pattern, is_unit
from masscomm.domain.notification_rules import NotificationRule, RefusedEvents
from masscomm.domain.records import SubscriptionChanged
from masscomm.domain.webhooks import Endpoint, EndpointKey, EventType
from masscomm.integers import integer_or
from masscomm.json_reader import read_json

MAX_PATTERNS, MAX_CLUBS, MAX_UNITS = 100, 1_000, 100
# The combinations of a type, a club and a unit of one subscription. The index has an entry for each.
MAX_COMBINATIONS = 2_000
MAX_FILTER_PATHS, MAX_FILTER_VALUES = 5, 50
MAX_FIELDS = 50
# The subscriptions of one endpoint.
MAX_SUBSCRIPTIONS = 100

# This id stands for every club (tenant); no club has it.
EVERY_CLUB = 0
# The place of the rules of a club among its endpoints.
_RULES = "rules"
_ID = re.compile(rf"sub_(?P<club>[0-9]{{1,19}})_(?P<endpoint>[0-9a-z]{{20}}|{_RULES})_[0-9a-z]{{12}}", re.ASCII)
_RULES_OF = re.compile(rf"ep_(?P<club>[0-9]{{1,19}})_{_RULES}", re.ASCII)
# The types of an endpoint that names none: every change of the state of a send.
_STATES_OF_SENDS = ("send.*",)
# The end of the id of an endpoint's implicit subscription; those of the others are digests.
_IMPLICIT = "0000implicit"
_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"

type Value = str | int | float | bool | None


def rules_of(club_id: int) -> EndpointKey:
    """Return the key under which the rules of a club (tenant) are stored, in the place of an endpoint's."""
    return EndpointKey(club_id, f"ep_{club_id}_{_RULES}")


def subscriber_of(id_: str) -> EndpointKey | None:
    """Return the key of an endpoint, or of the rules of a club; None for any other id."""
    found = _RULES_OF.fullmatch(id_)
    club_id = None if found is None else integer_or(found["club"], None)
    return EndpointKey.of_id(id_) if club_id is None else rules_of(club_id)


class SubscriptionKey(NamedTuple):
    """Identifies a subscription."""

    endpoint: EndpointKey
    id: str

    @classmethod
    def of_id(cls, id_: str) -> "SubscriptionKey | None":
        """Return the key of a subscription's id, which contains its endpoint; None if no subscription has this id."""
        found = _ID.fullmatch(id_)
        endpoint = None if found is None else subscriber_of(f"ep_{found['club']}_{found['endpoint']}")
        return None if endpoint is None else cls(endpoint, id_)

    @classmethod
    def implicit(cls, endpoint: EndpointKey) -> "SubscriptionKey":
        """Return the key of the subscription that follows from the event types of an endpoint."""
        return cls(endpoint, f"sub_{endpoint.id.removeprefix('ep_')}_{_IMPLICIT}")

    @staticmethod
    def new_id(endpoint: EndpointKey, conditions: Mapping[str, Any]) -> str:
        """Return the id of a new subscription, derived from its conditions: a repeated request has the same id."""
        seed = sha256(json.dumps(conditions, sort_keys=True).encode()).digest()
        letters = "".join(_LETTERS[each % len(_LETTERS)] for each in seed[:12])
        return f"sub_{endpoint.id.removeprefix('ep_')}_{letters}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Subscription:
    """The events that an endpoint receives: those that match each of its conditions."""

    id: str
    endpoint: EndpointKey
    # Event types, prefixes of whole parts such as `match.*`, or `*`.
    types: tuple[str, ...]
    # The tenants whose events match; None: every tenant.
    club_ids: tuple[int, ...] | None
    # The units whose events match, each with the units below it; empty: every unit, and events without one.
    units: tuple[str, ...] = ()
    # A path in data → the values that match; empty: every event matches.
    filter: Mapping[str, Sequence[Value]] = field(default_factory=dict)
    # The paths in data that are sent; empty: all data.
    fields: tuple[str, ...] = ()
    # The number of changes.
    revision: int = 1
    # Whether requests to the endpoint may have several messages: as its item says when the subscription is published.
    batched: bool = False
    # Of a rule whose events become notifications; its endpoint is that of `rules_of`.
    notification: NotificationRule | None = None
    # The time before which no event matches, in milliseconds since the epoch.
    since_ms: int = 0
    # Of a rule, as the store has it: the events that became no send, the latest first. Its records have none.
    refused: tuple[RefusedEvents, ...] = ()

    @property
    def combinations(self) -> int:
        return len(self.types) * max(1, len(self.club_ids or ())) * max(1, len(self.units))

    def to_record(self) -> SubscriptionChanged:
        return SubscriptionChanged(
            subscription_id=self.id,
            endpoint_id=self.endpoint.id,
            types=list(self.types),
            club_ids=None if self.club_ids is None else list(self.club_ids),
            units=list(self.units),
            filter=json.dumps(self.filter) if self.filter else None,
            fields=list(self.fields),
            revision=self.revision,
            batched=self.batched,
            notification=None if self.notification is None else self.notification.to_json(),
            since=self.since_ms,
        )

    @classmethod
    def of_record(cls, record: SubscriptionChanged) -> "Subscription":
        """Return the subscription in a record. Raises ValueError if it is malformed."""
        endpoint = subscriber_of(record.endpoint_id)
        if endpoint is None or not record.types or not all(map(is_pattern, record.types)):
            raise ValueError(f"subscription {record.subscription_id} has no endpoint, or a type that is none")
        if (record.notification is None) != (EndpointKey.of_id(record.endpoint_id) is not None):
            raise ValueError(f"subscription {record.subscription_id} has an endpoint and a rule, or neither")
        if not all(map(is_unit, record.units)):
            raise ValueError(f"subscription {record.subscription_id} has a unit that is no path")
        if not all(map(is_path, record.fields)):
            raise ValueError(f"subscription {record.subscription_id} has a field that is no path")
        found = read_json(record.filter or "{}")
        if not isinstance(found, dict) or not all(isinstance(each, list) for each in found.values()):
            raise ValueError(f"subscription {record.subscription_id} has a filter that is no object of lists")
        return cls(
            id=record.subscription_id,
            endpoint=endpoint,
            types=tuple(record.types),
            club_ids=None if record.club_ids is None else tuple(record.club_ids),
            units=tuple(record.units),
            filter=found,
            fields=tuple(record.fields),
            revision=record.revision,
            batched=record.batched,
            notification=None if record.notification is None else NotificationRule.of_json(record.notification),
            since_ms=record.since,
        )


def implicit_subscription(endpoint: Endpoint) -> Subscription | None:
    """Return the subscription that follows from the event types of an endpoint: events of its club since its creation,
    or since it was last enabled. None if no event has these types.
    """
    types = tuple(each for each in endpoint.event_types or _STATES_OF_SENDS if each != EventType.TEST)
    if not types:
        return None
    return Subscription(
        id=SubscriptionKey.implicit(endpoint.key).id,
        endpoint=endpoint.key,
        types=types,
        club_ids=(endpoint.key.club_id,),
        revision=endpoint.revision,
        batched=endpoint.is_batched,
        since_ms=max(endpoint.created_at_ms, endpoint.enabled_at_ms or 0),
    )
