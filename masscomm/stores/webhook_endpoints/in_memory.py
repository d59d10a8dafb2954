"""Endpoints of webhooks in memory, for unit tests."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from masscomm.domain.webhooks import MAX_ENDPOINTS, Endpoint, EndpointKey
from masscomm.stores.in_memory import InMemoryStore
from masscomm.stores.webhook_endpoints.port import CreatedBefore, CreationRequest, TooManyEndpoints


class InMemoryWebhookEndpoints(InMemoryStore):
    """A store of endpoints in dictionaries, for unit tests."""

    def __init__(self) -> None:
        super().__init__()
        self.stored: dict[EndpointKey, Endpoint] = {}
        # The clubs that have, or had, an endpoint.
        self.listed: set[int] = set()
        self._requests: dict[tuple[int, str], tuple[CreationRequest, EndpointKey]] = {}

    def create(self, endpoint: Endpoint, request: CreationRequest | None = None) -> CreatedBefore | None:
        club_id = endpoint.key.club_id
        with self._lock:
            if request is not None:
                before, key = self._requests.get((club_id, request.id), (None, endpoint.key))
                if before is not None and before.expires_at > request.at_s:
                    return CreatedBefore(before.digest, key)
            if len(self.of_club(club_id)) >= MAX_ENDPOINTS:
                raise TooManyEndpoints
            if request is not None:
                self._requests[club_id, request.id] = request, endpoint.key
            self.listed.add(club_id)
            self.stored[endpoint.key] = endpoint
        return None

    def find(self, key: EndpointKey) -> Endpoint | None:
        return self.stored.get(key)

    def find_all(self, keys: Iterable[EndpointKey]) -> Mapping[EndpointKey, Endpoint]:
        return {key: self.stored[key] for key in keys if key in self.stored}

    def of_club(self, club_id: int) -> Sequence[Endpoint]:
        found = [each for each in self.stored.values() if each.key.club_id == club_id]
        return sorted(found, key=lambda each: (each.created_at_ms, each.key.id))

    def replace(self, endpoint: Endpoint) -> bool:
        with self._lock:
            stored = self.stored.get(endpoint.key)
            if stored is None or stored.revision != endpoint.revision - 1:
                return stored == endpoint
            self.stored[endpoint.key] = endpoint
            return True

    def delete(self, key: EndpointKey) -> bool:
        with self._lock:
            return self.stored.pop(key, None) is not None

    def clubs(self) -> Iterator[int]:
        yield from sorted(self.listed)
