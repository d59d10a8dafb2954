"""Manages the endpoints of the push provider (SNS): each device token has one."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from botocore.exceptions import ClientError

from masscomm.aws.sdk_errors import answering
from masscomm.domain.platforms import platform_of_arn
from masscomm.domain.provider_error_codes import TABLE
from masscomm.domain.provider_errors import Transient
from masscomm.errors import Retry, Stop, Unlisted

if TYPE_CHECKING:
    from mypy_boto3_sns import SNSClient

    from masscomm.aws.client import SnsEndpointCalls

# SNS' error message for a token whose endpoint exists with other attributes. No other response contains the ARN of that
# endpoint.
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
_INVALID = ("InvalidParameter", "InvalidParameterException", "InvalidParameterValue")
_TEMPORARY = {"NotFound"} | {code for row in TABLE if row.error is Transient for code in row.codes}
_SERVER_ERROR = 500
_OF_A_PARAMETER = (*_INVALID, "NotFound", "NotFoundException")


class InvalidToken(Exception):
    """The provider refuses this token permanently. The message is the provider's error code."""


class Endpoints(Protocol):
    """The interface with which the device registrar manages endpoints at the push provider.

    No method deletes an endpoint, because another device may have the same token. Calls are idempotent.
    """

    def register(self, platform: str, token: str) -> str:
        """Create or enable the token's endpoint and return its ARN.

        Raises:
            InvalidToken: The provider refuses the token.
            Retry: The provider is throttling, down or slow.
            Unlisted: The provider refuses this token with an unknown error.
            Stop: The provider refuses our credentials or the platform application.
        """
        ...


class SnsEndpoints:
    """Endpoints of SNS platform applications. Thread-safe.

    Args:
        applications: The ARN of the SNS platform application of each platform.
        client: The SNS client, ours or boto3's.

    Raises:
        Stop: An application is one of another platform.
    """

    def __init__(self, applications: Mapping[str, str], client: "SnsEndpointCalls | SNSClient") -> None:
        for platform, arn in applications.items():
            if platform_of_arn(arn) != platform:  # guard: endpoints.application_of_platform
                raise Stop(f"{arn} is no platform application of {platform}")
        self._applications = applications
        self._client = client

    def register(self, platform: str, token: str) -> str:
        application = self._applications.get(platform)
        if application is None:
            raise InvalidToken(f"no platform {platform}")
        with answering("SNS"):
            try:
                # The request does not contain Enabled: with it, SNS would return an error if the token's endpoint is
                # disabled.
                made = self._client.create_platform_endpoint(
                    PlatformApplicationArn=application, Token=token, Attributes={"Enabled": "true"}
                )
            except ClientError as error:
                return self._found(error, token)
        if not made.get("EndpointArn"):
            raise Retry("SNS answered without the ARN of an endpoint")
        return made["EndpointArn"]

    def _found(self, error: ClientError, token: str) -> str:
        message = error.response.get("Error", {}).get("Message", "")
        exists = _EXISTS.search(message)
        if exists is None:
            ours = _as_ours(error)
            if isinstance(ours, Retry) and _code(error) in _INVALID:
                raise InvalidToken(_code(error)) from error
            raise ours from error
        try:
            self._client.set_endpoint_attributes(
                EndpointArn=exists.group(1), Attributes={"Token": token, "Enabled": "true"}
            )
        except ClientError as second:
            raise _as_ours(second) from second
        return exists.group(1)


def _code(error: ClientError) -> str:
    return error.response.get("Error", {}).get("Code", "")


def _as_ours(error: ClientError) -> Retry | Stop:
    code = _code(error)
    is_of_application = "PlatformApplication" in error.response.get("Error", {}).get("Message", "")
    # With a wrong ARN of the application, SNS refuses each token.
    if code in _REFUSED or (code in _OF_A_PARAMETER and is_of_application):  # guard: endpoints.wrong_application
        return Stop(f"SNS refuses us: {error}")
    # The record itself may be valid: SNS throttled, returned a 5xx status or an unknown error, or the endpoint was
    # deleted between two calls.
    # guard: endpoints.unlisted_refusal
    is_temporary = code.removesuffix("Exception") in _TEMPORARY or _status(error) >= _SERVER_ERROR
    return (Retry if is_temporary else Unlisted)(f"SNS answered {code}: {error}")


def _status(error: ClientError) -> int:
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def endpoint_arn(platform: str, token: str) -> str:
    """Return the ARN of a token's endpoint in InMemoryEndpoints."""
    return f"arn:aws:sns:eu-central-1:000000000000:endpoint/{platform.upper()}/app/{token}"


class InMemoryEndpoints:
    def __init__(self) -> None:
        # Whether each endpoint is enabled, by its ARN.
        self.enabled: dict[str, bool] = {}
        # The tokens that are refused.
        self.invalid: set[str] = set()
        self.failing: Exception | None = None
        # The calls as (method, argument).
        self.calls: list[tuple[str, str]] = []

    def register(self, platform: str, token: str) -> str:
        self._called("register", token)
        if token in self.invalid or platform not in ("gcm", "apns"):
            raise InvalidToken("Invalid parameter: Token")
        arn = endpoint_arn(platform, token)
        self.enabled[arn] = True
        return arn

    def _called(self, what: str, argument: str) -> None:
        self.calls.append((what, argument))
        if self.failing is not None:
            raise self.failing
