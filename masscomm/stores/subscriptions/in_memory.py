"""Subscriptions in memory, for unit tests."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from uuid import uuid4

from masscomm.domain.notification_rules import RefusedEvents
from masscomm.domain.subscriptions import MAX_SUBSCRIPTIONS, Subscription, SubscriptionKey
from masscomm.domain.webhooks import EndpointKey
from masscomm.stores.in_memory import InMemoryStore
from masscomm.stores.subscriptions.port import TooManySubscriptions, Unpublished


class InMemorySubscriptions(InMemoryStore):
    """A store of subscriptions in dictionaries, for unit tests."""

    def __init__(self) -> None:
        super().__init__()
        self.stored: dict[SubscriptionKey, Subscription] = {}
        self.marks: dict[SubscriptionKey, Unpublished] = {}

    def put(self, subscription: Subscription, at_ms: int) -> Unpublished:
        key = SubscriptionKey(subscription.endpoint, subscription.id)
        with self._lock:
            if key not in self.stored and len(self.of_endpoint(key.endpoint)) >= MAX_SUBSCRIPTIONS:
                raise TooManySubscriptions
            self.stored[key] = subscription
            return self._marked(key, at_ms)

    def find(self, key: SubscriptionKey) -> Subscription | None:
        return self.stored.get(key)

    def of_endpoint(self, endpoint: EndpointKey) -> Sequence[Subscription]:
        return [self.stored[key] for key in sorted(self.stored) if key.endpoint == endpoint]

    def delete(self, key: SubscriptionKey, at_ms: int) -> Unpublished | None:
        with self._lock:
            return None if self.stored.pop(key, None) is None else self._marked(key, at_ms)

    def refuse(self, key: SubscriptionKey, refused: Sequence[RefusedEvents]) -> None:
        with self._lock:
            if (found := self.stored.get(key)) is None:
                return
            counts = {each.reason: each for each in found.refused}
            for each in refused:
                earlier = counts.get(each.reason)
                counts[each.reason] = each if earlier is None else each._replace(events=earlier.events + each.events)
            latest = sorted(counts.values(), key=lambda each: each.last_at_ms, reverse=True)
            self.stored[key] = replace(found, refused=tuple(latest))

    def mark(self, keys: Iterable[SubscriptionKey], at_ms: int) -> Sequence[Unpublished]:
        with self._lock:
            return [self._marked(key, at_ms) for key in keys]

    def unpublished(self) -> Iterator[Unpublished]:
        yield from list(self.marks.values())

    def published(self, change: Unpublished) -> None:
        with self._lock:
            if self.marks.get(change.key) == change:
                del self.marks[change.key]

    def _marked(self, key: SubscriptionKey, at_ms: int) -> Unpublished:
        self.marks[key] = Unpublished(key=key, at_ms=at_ms, version=str(uuid4()))
        return self.marks[key]
