"""Endpoints of the push provider: one for each device token, found again by its token."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from botocore.exceptions import BotoCoreError, ClientError

from masscomm.aws.client import Sns
from masscomm.aws.request import Limits
from masscomm.errors import Retry, Stop

if TYPE_CHECKING:
    from mypy_boto3_sns import SNSClient

# What SNS says where the token has an endpoint whose attributes differ; the ARN stands nowhere else in its answer.
_EXISTS = re.compile(r"(arn:\S+) already exists with the same Token")
_REFUSED = {
    "AuthorizationError",
    "AuthorizationErrorException",
    "AccessDenied",
    "AccessDeniedException",
    "InvalidClientTokenId",
    "UnrecognizedClientException",
    "PlatformApplicationDisabled",
    "PlatformApplicationDisabledException",
}


class InvalidToken(Exception):
    """The provider will never take this token; the message is its error code."""


class Endpoints(Protocol):
    """What the registrar needs of the provider. Nothing takes an endpoint away: it may be another device's by now.

    A call may be repeated to the same effect. Errors: Retry (busy, down, slow), Stop (it refuses us).
    """

    def register(self, platform: str, token: str) -> str:
        """The ARN of the token's endpoint, made or found, and enabled. Errors: InvalidToken too."""
        ...


class SnsEndpoints:
    """Endpoints of SNS platform applications; thread-safe.

    applications: platform → the ARN of its platform application; connections: calls at once.
    """

    def __init__(self, applications: Mapping[str, str], *, connections: int, client: "SNSClient | None" = None) -> None:
        self._applications = applications
        # Lambda redelivers failed records; one more try here spares a batch for a lost connection.
        self._client: Any = client or Sns(Limits(connections=connections, connect_s=2, read_s=5, attempts=2))

    def register(self, platform: str, token: str) -> str:
        application = self._applications.get(platform)
        if application is None:
            raise InvalidToken(f"no platform {platform}")
        try:
            # Asked for with its attributes: a disabled endpoint of that token then shows as one that differs.
            made = self._client.create_platform_endpoint(
                PlatformApplicationArn=application, Token=token, Attributes={"Enabled": "true"}
            )
        except ClientError as error:
            return self._found(error, token)
        except BotoCoreError as error:
            raise Retry(f"SNS does not answer: {type(error).__name__}") from error
        return str(made["EndpointArn"])

    def _found(self, error: ClientError, token: str) -> str:
        message = error.response.get("Error", {}).get("Message", "")
        exists = _EXISTS.search(message)
        if exists is None:
            if _code(error) in ("InvalidParameter", "InvalidParameterException", "InvalidParameterValue"):
                raise InvalidToken(_code(error)) from error
            raise _as_ours(error) from error
        try:
            self._client.set_endpoint_attributes(
                EndpointArn=exists.group(1), Attributes={"Token": token, "Enabled": "true"}
            )
        except ClientError as second:
            raise _as_ours(second) from second
        except BotoCoreError as second:
            raise Retry(f"SNS does not answer: {type(second).__name__}") from second
        return exists.group(1)


def _code(error: ClientError) -> str:
    return error.response.get("Error", {}).get("Code", "")


def _as_ours(error: ClientError) -> Retry | Stop:
    code = _code(error)
    if code in _REFUSED or (code in ("NotFound", "NotFoundException") and "PlatformApplication" in str(error)):
        return Stop(f"SNS refuses us: {error}")
    # Throttling, a 5xx, an endpoint gone between two calls, and what nobody has thought of: the record may be good.
    return Retry(f"SNS answered {code}: {error}")


class InMemoryEndpoints:
    """Endpoints in dictionaries, for unit tests.

    invalid: tokens that are refused; failing: raised by the next calls until it is None again; calls: (what, argument).
    """

    def __init__(self) -> None:
        self.enabled: dict[str, bool] = {}
        self.invalid: set[str] = set()
        self.failing: Exception | None = None
        self.calls: list[tuple[str, str]] = []

    def register(self, platform: str, token: str) -> str:
        self._called("register", token)
        if token in self.invalid or platform not in ("gcm", "apns"):
            raise InvalidToken("Invalid parameter: Token")
        arn = f"arn:{platform}:{token}"
        self.enabled[arn] = True
        return arn

    def _called(self, what: str, argument: str) -> None:
        self.calls.append((what, argument))
        if self.failing is not None:
            raise self.failing
