"""The interface of the store of subscriptions."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from masscomm.domain.notification_rules import RefusedEvents
from masscomm.domain.subscriptions import Subscription, SubscriptionKey
from masscomm.domain.webhooks import EndpointKey


class TooManySubscriptions(Exception):
    """The endpoint has the maximum number of subscriptions."""


@dataclass(frozen=True, kw_only=True)
class Unpublished:
    """A change of a subscription that the topic `subscription` may not have."""

    key: SubscriptionKey
    # The time of the change, in milliseconds since the epoch.
    at_ms: int
    # Identifies the change.
    version: str


class Subscriptions(Protocol):
    """Methods raise Retry (down, slow) or Stop (no table, no permission)."""

    def put(self, subscription: Subscription, at_ms: int) -> Unpublished:
        """Store a new subscription, or the next revision of one, with the mark that it is not published. Raises
        TooManySubscriptions for a new one. Its refused events are counted from now on.
        """
        ...

    def find(self, key: SubscriptionKey) -> Subscription | None:
        """Return a subscription; None if there is none."""
        ...

    def of_endpoint(self, endpoint: EndpointKey) -> Sequence[Subscription]:
        """Return the subscriptions of an endpoint, in the order of their ids."""
        ...

    def delete(self, key: SubscriptionKey, at_ms: int) -> Unpublished | None:
        """Delete a subscription, and mark that this is not published. Return None if there was none."""
        ...

    def refuse(self, key: SubscriptionKey, refused: Sequence[RefusedEvents]) -> None:
        """Count refused events of a rule, at least one, with distinct reasons. Do nothing if it is deleted."""
        ...

    def mark(self, keys: Iterable[SubscriptionKey], at_ms: int) -> Sequence[Unpublished]:
        """Mark that subscriptions are not published, because their endpoint changes. Return the marks."""
        ...

    def unpublished(self) -> Iterator[Unpublished]:
        """Yield the marks of changes that are not published."""
        ...

    def published(self, change: Unpublished) -> None:
        """Remove a mark, unless the subscription has changed again."""
        ...
