"""The interface of the store of webhook endpoints, and a store in memory."""

from collections.abc import Iterator, Sequence
from threading import Lock
from typing import Protocol

from masscomm.domain.webhooks import Endpoint, EndpointKey


class WebhookEndpoints(Protocol):
    """Methods raise Retry (down, slow) or Stop (no table, no permission)."""

    def create(self, endpoint: Endpoint) -> Endpoint:
        """Store a new endpoint unless one with its key exists. Return the stored one."""
        ...

    def find(self, key: EndpointKey) -> Endpoint | None:
        """Return an endpoint; None if there is none."""
        ...

    def of_club(self, club_id: int) -> Sequence[Endpoint]:
        """Return the endpoints of a club (tenant), in the order of their creation."""
        ...

    def replace(self, endpoint: Endpoint) -> bool:
        """Store an endpoint in the place of the previous revision. Return False if that is not the stored one."""
        ...

    def delete(self, key: EndpointKey) -> bool:
        """Delete an endpoint. Return False if there was none."""
        ...

    def clubs(self) -> Iterator[int]:
        """Yield the clubs that have, or had, an endpoint."""
        ...


class InMemoryWebhookEndpoints:
    """A store of endpoints in dictionaries, for unit tests."""

    def __init__(self) -> None:
        self.stored: dict[EndpointKey, Endpoint] = {}
        self._clubs: set[int] = set()
        self._lock = Lock()

    def create(self, endpoint: Endpoint) -> Endpoint:
        with self._lock:
            self._clubs.add(endpoint.key.club_id)
            return self.stored.setdefault(endpoint.key, endpoint)

    def find(self, key: EndpointKey) -> Endpoint | None:
        return self.stored.get(key)

    def of_club(self, club_id: int) -> Sequence[Endpoint]:
        found = [each for each in self.stored.values() if each.key.club_id == club_id]
        return sorted(found, key=lambda each: (each.created_at_ms, each.key.id))

    def replace(self, endpoint: Endpoint) -> bool:
        with self._lock:
            stored = self.stored.get(endpoint.key)
            if stored is None or stored.revision != endpoint.revision - 1:
                return False
            self.stored[endpoint.key] = endpoint
            return True

    def delete(self, key: EndpointKey) -> bool:
        with self._lock:
            return self.stored.pop(key, None) is not None

    def clubs(self) -> Iterator[int]:
        yield from sorted(self._clubs)
