"""The interface of the store of webhook endpoints."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from masscomm.domain.time_limits import IDEMPOTENCY_KEPT_S
from masscomm.domain.webhooks import Endpoint, EndpointKey


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

    def find_all(self, keys: Iterable[EndpointKey]) -> Mapping[EndpointKey, Endpoint]:
        """Return the endpoints that exist, by their keys."""
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
