"""Finds the endpoints that subscribe to an event, and the rules that make a notification of it, in memory.

The index has an entry for each combination of a type (or prefix), a club and a unit that a subscription names. A match
looks up the combinations that include the event: the type and its prefixes, the event's club and every club, the unit
and the units above it. Subscriptions that do not match cost nothing. An entry is one text in a dictionary of its club,
because a key of three values takes twice the memory.

`python -m lab.benchmarks.events --match` measures it.
"""

from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any

from masscomm import fast_json
from masscomm.domain.events import is_own_type, patterns_of, units_above, value_at
from masscomm.domain.records import EventOccurred
from masscomm.domain.subscriptions import EVERY_CLUB, Subscription, Value
from masscomm.domain.webhooks import EndpointKey

# The subscriptions of one combination: most have one, and a tuple of one would take more memory.
type _Entry = Subscription | tuple[Subscription, ...]


class SubscriptionIndex:
    """The subscriptions by what they match."""

    def __init__(self, subscriptions: Iterable[Subscription] = ()) -> None:
        self._to_endpoints, self._to_users = _Entries(), _Entries()
        # The endpoints whose requests may have several messages.
        self.batched: set[EndpointKey] = set()
        for subscription in subscriptions:
            self.put(subscription)

    def __len__(self) -> int:
        return len(self._to_endpoints) + len(self._to_users)

    def put(self, subscription: Subscription) -> None:
        """Add a subscription, in the place of an earlier one with its id."""
        if subscription.notification is not None:
            self._to_users.put(subscription)
            return
        self._to_endpoints.put(subscription)
        if subscription.batched:
            self.batched.add(subscription.endpoint)
        else:
            self.batched.discard(subscription.endpoint)

    def remove(self, subscription_id: str) -> None:
        """Remove a subscription, if there is one with this id."""
        self._to_endpoints.remove(subscription_id)
        self._to_users.remove(subscription_id)

    def match(self, event: EventOccurred) -> dict[EndpointKey, tuple[str, ...]]:
        """Return the endpoints that receive an event, in a fixed order, each with the paths in data that it receives:
        those of all its subscriptions that match; without paths, all data.
        """
        found: dict[EndpointKey, tuple[str, ...]] = {}
        for subscription in self._to_endpoints.of_event(event):
            fields, earlier = subscription.fields, found.get(subscription.endpoint)
            if earlier is not None and earlier != fields:
                # guard: events.fields_of_several
                fields = tuple(sorted({*earlier, *fields})) if earlier and fields else ()
            found[subscription.endpoint] = fields
        return {endpoint: found[endpoint] for endpoint in sorted(found)} if len(found) > 1 else found

    def rules(self, event: EventOccurred) -> list[Subscription]:
        """Return the rules that make a notification of an event, each once."""
        # A rule that matched the events of its own sends would never end.
        if not len(self._to_users) or is_own_type(event.type):  # guard: rules.no_loops
            return []
        return list({each.id: each for each in self._to_users.of_event(event)}.values())

    def clubs_of(self, event_types: Iterable[str]) -> set[int] | None:
        """Return the clubs with an endpoint that subscribes to one of these types, of events without a unit; None if an
        endpoint subscribes to those of every club.
        """
        return self._to_endpoints.clubs_of(event_types)

    def has(self, club_id: int, patterns: Set[str]) -> bool:
        """Return whether an endpoint subscribes by one of these patterns to events of a club without a unit."""
        return self._to_endpoints.has(club_id, patterns)


class _Entries:
    """Subscriptions of one kind of destination by what they match."""

    def __init__(self) -> None:
        self._subscriptions: dict[str, Subscription] = {}
        self._by_club: dict[int, dict[str, _Entry]] = {}
        # Equal keys are one object: a subscription of a hundred clubs has the same key in each of them.
        self._keys: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._subscriptions)

    def put(self, subscription: Subscription) -> None:
        self.remove(subscription.id)
        self._subscriptions[subscription.id] = subscription
        for club_id in _clubs(subscription):
            entries = self._by_club.setdefault(club_id, {})
            for key in _keys(subscription):
                key = self._keys.setdefault(key, key)
                match entries.get(key):
                    case None:
                        entries[key] = subscription
                    case tuple() as several:
                        entries[key] = (*several, subscription)
                    case single:
                        entries[key] = (single, subscription)

    def remove(self, subscription_id: str) -> None:
        subscription = self._subscriptions.pop(subscription_id, None)
        if subscription is None:
            return
        for club_id in _clubs(subscription):
            entries = self._by_club[club_id]
            for key in _keys(subscription):
                left = tuple(each for each in _all(entries[key]) if each is not subscription)
                if left:
                    entries[key] = left if len(left) > 1 else left[0]
                else:
                    del entries[key]
            if not entries:
                del self._by_club[club_id]

    def of_event(self, event: EventOccurred) -> Iterator[Subscription]:
        """Yield the subscriptions that match an event: one with several types or units maybe several times."""
        patterns = patterns_of(event.type)
        units = () if event.unit is None else [f" {unit}" for unit in units_above(event.unit)]
        data: Any = None
        for entries in (self._by_club.get(event.club_id), self._by_club.get(EVERY_CLUB)):
            if entries is None:
                continue
            for pattern in patterns:
                for unit in ("", *units):
                    entry = entries.get(pattern + unit if unit else pattern)
                    if entry is None:
                        continue
                    for subscription in _all(entry):
                        if event.occurred_at < subscription.since_ms:  # guard: webhooks.earlier_event
                            continue
                        if subscription.filter:
                            # Data is parsed once, and only if a subscription with a filter is a candidate.
                            data = fast_json.parsed(event.data.encode()) if data is None else data
                            if not _passes(subscription.filter, data):
                                continue
                        yield subscription

    def clubs_of(self, event_types: Iterable[str]) -> set[int] | None:
        patterns = {pattern for each in event_types for pattern in patterns_of(each)}
        found = {club_id for club_id, entries in self._by_club.items() if not entries.keys().isdisjoint(patterns)}
        return None if EVERY_CLUB in found else found

    def has(self, club_id: int, patterns: Set[str]) -> bool:
        found = (self._by_club.get(club_id), self._by_club.get(EVERY_CLUB))
        return any(entries is not None and not entries.keys().isdisjoint(patterns) for entries in found)


def _clubs(subscription: Subscription) -> Iterable[int]:
    return (EVERY_CLUB,) if subscription.club_ids is None else dict.fromkeys(subscription.club_ids)


def _keys(subscription: Subscription) -> Iterable[str]:
    if not subscription.units:
        return dict.fromkeys(subscription.types)
    return dict.fromkeys(f"{pattern} {unit}" for pattern in subscription.types for unit in subscription.units)


def _all(entry: _Entry) -> tuple[Subscription, ...]:
    return entry if isinstance(entry, tuple) else (entry,)


def _passes(conditions: Mapping[str, Iterable[Value]], data: Any) -> bool:
    return all(
        any(_equal(found, value) for value in values)
        for found, values in ((value_at(data, path), values) for path, values in conditions.items())
    )


def _equal(found: Any, value: Value) -> bool:
    """Return whether two JSON values are equal. In Python, true also equals 1."""
    return isinstance(found, bool) == isinstance(value, bool) and bool(found == value)
