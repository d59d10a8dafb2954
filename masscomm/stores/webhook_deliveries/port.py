"""The interface of the store of webhook events and deliveries.

A pending delivery also has an entry in the list of its endpoint, in the order of the times at which attempts are due,
and the endpoint has an entry in the list of queues, so that a sweep finds it. Entries are written before the delivery
changes and removed afterwards: after a crash in between, an entry whose time is not that of its delivery is removed,
and no delivery is without an entry.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from masscomm.domain.webhooks import Delivery, EndpointKey, Event


class Due(NamedTuple):
    """The entry of a pending delivery in the list of its endpoint."""

    due_ms: int
    delivery_id: str


@dataclass(frozen=True, kw_only=True)
class Queue:
    """An endpoint that may have pending deliveries. The version changes whenever a delivery becomes pending."""

    endpoint: EndpointKey
    version: str


class DeliveryPage(NamedTuple):
    """A part of the deliveries of an endpoint, the latest first."""

    deliveries: Sequence[Delivery]
    # Whether earlier deliveries may follow.
    more: bool


class WebhookDeliveries(Protocol):
    """Methods raise Retry (down, slow), Stop (no table, no permission) or ItemRefused."""

    def record(self, event: Event) -> Event:
        """Record an event unless its id is recorded. Return the recorded one."""
        ...

    def event(self, event_id: str) -> Event | None:
        """Return a recorded event; None if there is none."""
        ...

    def add(self, delivery: Delivery) -> Delivery:
        """Store a pending delivery unless the endpoint has one of this event. Return the stored one."""
        ...

    def find(self, endpoint: EndpointKey, delivery_id: str) -> Delivery | None:
        """Return a delivery; None if there is none."""
        ...

    def page(self, endpoint: EndpointKey, *, limit: int, before: str | None = None) -> DeliveryPage:
        """Return deliveries of an endpoint, the latest first, whose ids are below `before`: at most `limit`, and fewer
        if they are large.
        """
        ...

    def replace(self, delivery: Delivery, previous: Delivery) -> bool:
        """Store a delivery in the place of its previous revision. Return False if that is not the stored one."""
        ...

    def queues(self) -> Iterator[Queue]:
        """Yield the endpoints that may have pending deliveries."""
        ...

    def claim(self, endpoint: EndpointKey, *, now_ms: int, until_ms: int) -> bool:
        """Claim the queue of an endpoint until a time. Return False if it is claimed, or gone."""
        ...

    def release(self, endpoint: EndpointKey, *, until_ms: int) -> None:
        """End the claim of a queue, which was claimed until that time."""
        ...

    def due(self, endpoint: EndpointKey, *, limit: int) -> Sequence[Due]:
        """Return the first entries of an endpoint's pending deliveries, the earliest first."""
        ...

    def forget(self, endpoint: EndpointKey, due: Due) -> None:
        """Remove an entry whose delivery is not due then."""
        ...

    def drop(self, queue: Queue) -> None:
        """Remove an empty queue, unless a delivery became pending since it was read."""
        ...
