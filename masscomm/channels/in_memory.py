"""In-memory providers for unit tests. They pass the same contract tests as those of AWS.

The function `fail` is called before each call; if it returns an error, the call raises it.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from masscomm.channels.provider import Sms
from masscomm.domain.email_settings import EmailOrigin
from masscomm.domain.provider_errors import (
    ApplicationOff,
    InvalidAddress,
    OptedOut,
    ProviderError,
    Rejected,
    TargetGone,
    TargetUnknown,
)


@dataclass(frozen=True, kw_only=True)
class Push:
    endpoint_arn: str
    message: str
    attributes: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Email:
    recipient: str
    message: bytes
    origin: EmailOrigin


class InMemoryPush:
    """A push provider that appends each message to a list."""

    def __init__(self) -> None:
        self.published: list[Push] = []
        self.calls: list[str] = []
        self.fail: Callable[[str], ProviderError | None] = lambda _endpoint_arn: None
        self._enabled: dict[str, bool] = {}

    def put(self, endpoint_arn: str, *, enabled: bool = True) -> str:
        self._enabled[endpoint_arn] = enabled
        return endpoint_arn

    async def publish(self, *, endpoint_arn: str, message: str, attributes: Mapping[str, str]) -> str:
        self.calls.append(endpoint_arn)
        error = self.fail(endpoint_arn)
        if error is not None:
            raise error
        if endpoint_arn not in self._enabled:
            raise TargetUnknown("NotFound: Endpoint does not exist")
        if not self._enabled[endpoint_arn]:
            raise TargetGone("EndpointDisabled: Endpoint is disabled")
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
    """An e-mail provider that appends each message to a list."""

    def __init__(self) -> None:
        self.sent: list[Email] = []
        self.calls: list[str] = []
        self.fail: Callable[[str], ProviderError | None] = lambda _recipient: None

    async def send(self, *, recipient: str, message: bytes, origin: EmailOrigin) -> str:
        self.calls.append(recipient)
        error = self.fail(recipient)
        if error is not None:
            raise error
        self.sent.append(Email(recipient=recipient, message=message, origin=origin))
        return f"email-{len(self.sent)}"


# The number of an SMS, as the API takes it.
_NUMBER = re.compile(r"\+[1-9][0-9]{1,18}")


class InMemorySms:
    """A provider of SMS that appends each one to a list."""

    def __init__(self) -> None:
        self.sent: list[Sms] = []
        self.calls: list[str] = []
        self.fail: Callable[[str], ProviderError | None] = lambda _number: None
        # Numbers that have opted out, and identities that do not exist.
        self.opted_out: set[str] = set()
        self.unknown: set[str] = set()

    async def send(self, sms: Sms) -> str:
        self.calls.append(sms.number)
        error = self.fail(sms.number)
        if error is not None:
            raise error
        if not _NUMBER.fullmatch(sms.number):
            raise InvalidAddress
        if sms.identity in self.unknown:
            raise ApplicationOff("ResourceNotFound")
        if sms.number in self.opted_out:
            raise OptedOut("Conflict: DESTINATION_PHONE_NUMBER_OPTED_OUT")
        if not sms.text.strip():
            raise Rejected("Validation: MessageBody")
        self.sent.append(sms)
        return f"sms-{len(self.sent)}"
