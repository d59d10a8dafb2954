"""The interface of the providers for delivery."""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from masscomm.domain.email_settings import EmailOrigin
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


class Sms(NamedTuple):
    """An SMS as it is sent."""

    # The recipient's number in the form of E.164.
    number: str
    # The sender: a phone number, a sender id or a pool, or its ARN.
    identity: str
    text: str
    # Whether the message is not marketing.
    is_transactional: bool
    notification_id: str
    # Seconds until the notification expires; None if it does not expire.
    ttl_s: int | None = None


class SmsProvider(Protocol):
    """The interface of a provider of SMS: it sends one SMS."""

    async def send(self, sms: Sms) -> str:
        """Send an SMS and return the provider's message id. Raises ProviderError, whose text has neither the text of
        the SMS nor the number.
        """
        ...


class EmailProvider(Protocol):
    """The interface of an e-mail provider: it sends one e-mail."""

    async def send(self, *, recipient: str, message: bytes, origin: EmailOrigin) -> str:
        """Send a message and return the provider's message id. `message` is a complete e-mail by RFC 5322, with the
        sender of `origin`. Raises ProviderError.
        """
        ...
