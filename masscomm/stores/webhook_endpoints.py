"""The interface of the store of webhook endpoints, and a store in memory."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import NamedTuple, Protocol

from masscomm.domain.time_limits import IDEMPOTENCY_KEPT_S
from masscomm.domain.webhooks import MAX_ENDPOINTS, Endpoint, EndpointKey


class TooManyEndpoints(Exception):
    """The club (tenant) has the maximum number of endpoints."""


@dataclass(frozen=True, kw_only=True)
class CreationRequest:
    """A request with an Idempotency-Key that creates an endpoint."""

    # The digest of the Idempotency-Key, which belongs to the club.
    id: str
    # The digest of the request (masscomm.http.idempotency.digest_of).
    digest: str
    # The time of the request, in seconds since the epoch.
    at_s: int

    @property
    def expires_at(self) -> int:
        """Return the time at which the Idempotency-Key may be used for another request, in seconds since the epoch."""
        return self.at_s + IDEMPOTENCY_KEPT_S


class CreatedBefore(NamedTuple):
    """What an earlier request under the same Idempotency-Key has created."""

    # The digest of that request.
    digest: str
    # Its endpoint, which may be deleted.
    key: EndpointKey


class WebhookEndpoints(Protocol):
    """Methods raise Retry (down, slow) or Stop (no table, no permission)."""

    def create(self, endpoint: Endpoint, request: CreationRequest | None = None) -> CreatedBefore | None:
        """Store a new endpoint, unless a request under the same id is stored and has not expired. Return what that
        request has created; None if this endpoint is stored. Raises TooManyEndpoints.
        """
        ...

    def find(self, key: EndpointKey) -> Endpoint | None:
        """Return an endpoint; None if there is none."""
        ...

    def of_club(self, club_id: int) -> Sequence[Endpoint]:
        """Return the endpoints of a club (tenant), in the order of their creation."""
        ...

    def replace(self, endpoint: Endpoint) -> bool:
        """Store an endpoint in the place of the previous revision. Return False if that is not the stored one.

        A repeated call returns True: the response to the first one may have been lost.
        """
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
        # The clubs that have, or had, an endpoint.
        self.listed: set[int] = set()
        self._requests: dict[tuple[int, str], tuple[CreationRequest, EndpointKey]] = {}
        self._lock = Lock()

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
