"""The interface of the store of access tokens, which the environments of webhook_sender share."""

from dataclasses import dataclass, field
from typing import Protocol

from masscomm.domain.webhooks import EndpointKey


@dataclass(frozen=True, kw_only=True)
class StoredToken:
    """The access token for an endpoint. Times are in milliseconds since the epoch."""

    # Encrypted under the data key of the endpoint's authentication; b"": there is none yet.
    sealed: bytes = field(default=b"", repr=False)
    # The end of its validity.
    expires_at_ms: int = 0
    # The time until which one environment requests another token; 0: none does.
    requested_until_ms: int = 0
    # Identifies this state.
    version: str


class WebhookTokens(Protocol):
    """Methods raise Retry (down, slow) or Stop (no table, no permission)."""

    def find(self, endpoint: EndpointKey) -> StoredToken | None:
        """Return the token for an endpoint; None if there is none."""
        ...

    def replace(self, endpoint: EndpointKey, token: StoredToken, previous: StoredToken | None) -> bool:
        """Store a token in the place of a state. Return False if that is not the stored one."""
        ...
