"""The interface of the providers for delivery."""

from collections.abc import Mapping
from typing import Protocol

from masscomm.domain.time_limits import PROVIDER_CALL_S, PROVIDER_CONNECT_S, PROVIDER_READ_S

# The time limits of one call in seconds. Adapters use them as their time-outs; together they are shorter than a lease
# of the delivery ledger.
CONNECT_S, READ_S, CALL_S = PROVIDER_CONNECT_S, PROVIDER_READ_S, PROVIDER_CALL_S


class PushProvider(Protocol):
    """The interface of a push provider: it publishes to one device."""

    async def publish(self, *, endpoint_arn: str, message: str, attributes: Mapping[str, str]) -> str:
        """Publish a message and return the provider's message id. `message` is JSON with one text per platform.
        Raises ProviderError.
        """
        ...


class EmailProvider(Protocol):
    """The interface of an e-mail provider: it sends one e-mail."""

    async def send(self, *, recipient: str, message: bytes) -> str:
        """Send a message and return the provider's message id. `message` is a complete e-mail by RFC 5322. Raises
        ProviderError.
        """
        ...
