"""The interface of the providers for delivery, and their errors.

ProviderError
  Transient        the call is retried (throttled, 5xx, a cut connection, expired credentials)
    ApplicationOff   a platform application accepts no message until an operator acts: retried later, without a delay
                     for the recipients of other applications
  TargetGone       this device or address accepts no message any more
  Rejected         the provider will never accept this message
"""

from collections.abc import Mapping
from typing import Protocol

# The longest duration of one call. Adapters use it as their time-outs; it is shorter than a lease of the delivery
# ledger.
CONNECT_S, READ_S = 2, 6
CALL_S = float(CONNECT_S + READ_S)


class ProviderError(Exception):
    """The base class of the errors above; the message is the provider's own text."""


class Transient(ProviderError):
    """A temporary error.

    Args:
        message: The provider's own text.
        throttled: The provider refused the call because of its rate.
        answer_lost: The provider may have accepted the message.
    """

    def __init__(self, message: str, *, throttled: bool = False, answer_lost: bool = False) -> None:
        super().__init__(message)
        self.throttled = throttled
        self.answer_lost = answer_lost


class ApplicationOff(Transient):
    """The endpoint's platform application is disabled or gone; other applications are not affected."""


class TargetGone(ProviderError):
    """The device's endpoint is disabled, deleted or invalid."""


class Rejected(ProviderError):
    """The provider refuses the message or its address for good; too_large: because of its size."""

    def __init__(self, message: str, *, too_large: bool = False) -> None:
        super().__init__(message)
        self.too_large = too_large


class PushProvider(Protocol):
    """Publishes to one device."""

    def publish(self, *, endpoint_arn: str, message: str, attributes: Mapping[str, str]) -> str:
        """Publish a message and return the provider's message id. message: JSON by platform. Errors: ProviderError."""
        ...


class EmailProvider(Protocol):
    """Sends one e-mail."""

    def send(self, *, recipient: str, message: bytes) -> str:
        """Send a message and return the provider's message id. message: complete RFC 5322. Errors: ProviderError."""
        ...
