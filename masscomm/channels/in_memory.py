"""The providers' contracts without a provider, for unit tests; they pass the same test as SNS and SES.

`fail` is called before each call; if it returns an error, the call raises it.
"""

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from masscomm.channels.provider import ProviderError, Rejected, TargetGone


@dataclass(frozen=True, kw_only=True)
class Push:
    """One message that a device accepted."""

    endpoint_arn: str
    message: str
    attributes: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Email:
    """One message that an address accepted."""

    recipient: str
    message: bytes


class InMemoryPush:
    """Publishes into a list."""

    def __init__(self) -> None:
        self.published: list[Push] = []
        self.calls: list[str] = []
        self.fail: Callable[[str], ProviderError | None] = lambda _endpoint_arn: None
        self._enabled: dict[str, bool] = {}
        self._lock = threading.Lock()

    def put(self, endpoint_arn: str, *, enabled: bool = True) -> str:
        """Create an endpoint and return its ARN."""
        self._enabled[endpoint_arn] = enabled
        return endpoint_arn

    def publish(self, *, endpoint_arn: str, message: str, attributes: Mapping[str, str]) -> str:
        with self._lock:
            self.calls.append(endpoint_arn)
            error = self.fail(endpoint_arn)
            if error is not None:
                raise error
            if not self._enabled.get(endpoint_arn, False):
                raise TargetGone(f"{endpoint_arn}: disabled or not there")
            if "default" not in _object(message):
                raise Rejected("the message has no default")
            self.published.append(Push(endpoint_arn=endpoint_arn, message=message, attributes=dict(attributes)))
            return f"push-{len(self.published)}"


def _object(message: str) -> Mapping[str, object]:
    try:
        document = json.loads(message)
    except ValueError as error:
        raise Rejected("the message is not JSON") from error
    return document if isinstance(document, dict) else {}


class InMemoryEmail:
    """Sends into a list."""

    def __init__(self) -> None:
        self.sent: list[Email] = []
        self.calls: list[str] = []
        self.fail: Callable[[str], ProviderError | None] = lambda _recipient: None
        self._lock = threading.Lock()

    def send(self, *, recipient: str, message: bytes) -> str:
        with self._lock:
            self.calls.append(recipient)
            error = self.fail(recipient)
            if error is not None:
                raise error
            self.sent.append(Email(recipient=recipient, message=message))
            return f"email-{len(self.sent)}"
