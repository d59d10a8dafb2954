"""What delivery needs of a provider, and what a provider's refusal means.

ProviderError
  Transient        nobody knows yet: try again (throttled, 5xx, a connection cut, credentials that have run out)
    ApplicationOff   a whole platform application takes nothing until an operator acts: later, and nobody else waits
  TargetGone       this device or address takes nothing any more
  Rejected         this message will never be taken
"""

from collections.abc import Mapping
from typing import Protocol

# The longest that one call takes. Adapters set their time-outs by it; it fits into a lease of the delivery ledger.
CONNECT_S, READ_S = 2, 6
CALL_S = float(CONNECT_S + READ_S)


class ProviderError(Exception):
    """The root of the tree above; the message is the provider's own word."""


class Transient(ProviderError):
    """Try again. throttled: the provider asked to go slower; answer_lost: it may have taken the message."""

    def __init__(self, message: str, *, throttled: bool = False, answer_lost: bool = False) -> None:
        super().__init__(message)
        self.throttled = throttled
        self.answer_lost = answer_lost


class ApplicationOff(Transient):
    """The endpoint's platform application is disabled or gone; other applications are not concerned."""


class TargetGone(ProviderError):
    """The device's endpoint is disabled, gone or was never right."""


class Rejected(ProviderError):
    """The message or its address is refused for good; too_large: for its size alone."""

    def __init__(self, message: str, *, too_large: bool = False) -> None:
        super().__init__(message)
        self.too_large = too_large


class PushProvider(Protocol):
    """Publishes to one device."""

    def publish(self, *, endpoint_arn: str, message: str, attributes: Mapping[str, str]) -> str:
        """The provider's message id. message: JSON by platform. Errors: ProviderError."""
        ...


class EmailProvider(Protocol):
    """Sends one e-mail."""

    def send(self, *, recipient: str, message: bytes) -> str:
        """The provider's message id. message: a whole RFC 5322 message. Errors: ProviderError."""
        ...
