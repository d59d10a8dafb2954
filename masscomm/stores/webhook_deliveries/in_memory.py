"""Deliveries of webhooks in memory, for unit tests."""

from collections.abc import Iterator, Sequence
from uuid import uuid4

from masscomm.domain.webhooks import Delivery, EndpointKey, Event
from masscomm.stores.in_memory import InMemoryStore
from masscomm.stores.webhook_deliveries.port import DeliveryPage, Due, Queue


class InMemoryWebhookDeliveries(InMemoryStore):
    """A store of deliveries in dictionaries, for unit tests."""

    def __init__(self) -> None:
        super().__init__()
        self.events: dict[str, Event] = {}
        self.stored: dict[tuple[EndpointKey, str], Delivery] = {}
        self.entries: set[tuple[EndpointKey, Due]] = set()
        self._versions: dict[EndpointKey, str] = {}
        self._claims: dict[EndpointKey, int] = {}

    def record(self, event: Event) -> Event:
        with self._lock:
            return self.events.setdefault(event.id, event)

    def event(self, event_id: str) -> Event | None:
        return self.events.get(event_id)

    def add(self, delivery: Delivery) -> Delivery:
        with self._lock:
            stored = self.stored.setdefault((delivery.endpoint, delivery.id), delivery)
            self._enter(stored)
            return stored

    def find(self, endpoint: EndpointKey, delivery_id: str) -> Delivery | None:
        return self.stored.get((endpoint, delivery_id))

    def page(self, endpoint: EndpointKey, *, limit: int, before: str | None = None) -> DeliveryPage:
        found = [each for (key, id_), each in self.stored.items() if key == endpoint and (not before or id_ < before)]
        latest = sorted(found, key=lambda each: each.id, reverse=True)
        return DeliveryPage(latest[:limit], more=len(latest) > limit)

    def replace(self, delivery: Delivery, previous: Delivery) -> bool:
        with self._lock:
            key = (delivery.endpoint, delivery.id)
            if key not in self.stored or self.stored[key].revision != previous.revision:
                return False
            self._enter(delivery)
            self.stored[key] = delivery
            if previous.due_ms is not None and previous.due_ms != delivery.due_ms:
                self.entries.discard((delivery.endpoint, Due(previous.due_ms, delivery.id)))
            return True

    def queues(self) -> Iterator[Queue]:
        yield from [Queue(endpoint=key, version=version) for key, version in sorted(self._versions.items())]

    def claim(self, endpoint: EndpointKey, *, now_ms: int, until_ms: int) -> bool:
        with self._lock:
            if endpoint not in self._versions or self._claims.get(endpoint, 0) > now_ms:
                return False
            self._claims[endpoint] = until_ms
            return True

    def release(self, endpoint: EndpointKey, *, until_ms: int) -> None:
        with self._lock:
            if self._claims.get(endpoint) == until_ms:
                del self._claims[endpoint]

    def due(self, endpoint: EndpointKey, *, limit: int) -> Sequence[Due]:
        with self._lock:
            return sorted(due for key, due in self.entries if key == endpoint)[:limit]

    def forget(self, endpoint: EndpointKey, due: Due) -> None:
        with self._lock:
            self.entries.discard((endpoint, due))

    def drop(self, queue: Queue) -> None:
        with self._lock:
            if self._versions.get(queue.endpoint) == queue.version:
                del self._versions[queue.endpoint]

    def _enter(self, delivery: Delivery) -> None:
        if delivery.due_ms is not None:
            self.entries.add((delivery.endpoint, Due(delivery.due_ms, delivery.id)))
            self._versions[delivery.endpoint] = str(uuid4())
