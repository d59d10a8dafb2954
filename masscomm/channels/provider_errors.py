"""The table of all error codes of SNS and SES, each with its class of ProviderError.

Sources: the API references of Amazon SNS (Publish, common errors) and Amazon SES v1 (SendRawEmail, common errors).
Depending on the protocol's age, codes end with "Exception" or not; the table has them without it.
"""

from dataclasses import dataclass

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionClosedError,
    ProxyConnectionError,
    ReadTimeoutError,
    ResponseStreamingError,
)

from masscomm.channels.provider import ApplicationOff, ProviderError, Rejected, TargetGone, Transient


@dataclass(frozen=True, kw_only=True)
class Row:
    """Codes with the same meaning. The first row that fits counts."""

    codes: frozenset[str]
    error: type[ProviderError]
    # The row fits only messages that contain this text.
    saying: str = ""
    throttled: bool = False
    too_large: bool = False

    def fits(self, code: str, message: str) -> bool:
        """Whether the row fits the provider's answer."""
        return code in self.codes and self.saying in message


def _row(codes: str, error: type[ProviderError], *, saying: str = "", **flags: bool) -> Row:
    return Row(codes=frozenset(codes.split()), error=error, saying=saying, **flags)


_INVALID = "InvalidParameter InvalidParameterValue ParameterValueInvalid Validation ValidationError"

TABLE: tuple[Row, ...] = (
    # permanent, of the platform application: its credentials are invalid or it was deleted; no recipient fails for it
    _row("PlatformApplicationDisabled", ApplicationOff),
    _row("NotFound", ApplicationOff, saying="PlatformApplication"),
    # permanent, of the device: the push service revoked its token, or the endpoint was deleted
    _row("EndpointDisabled NotFound", TargetGone),
    _row(_INVALID, TargetGone, saying="TargetArn"),
    _row(_INVALID, TargetGone, saying="Token"),
    # throttles
    _row(  # guard: provider_errors.throttling
        "Throttling Throttled ThrottledException TooManyRequests RequestLimitExceeded KMSThrottling SlowDown",
        Transient,
        throttled=True,
    ),
    # transient, and our fault: expired or changing credentials, a clock skew, a sender or an account that an operator
    # must correct. No recipient fails for it.
    _row(  # guard: provider_errors.expired_credentials
        "ExpiredToken RequestExpired RequestTimeTooSkewed SignatureDoesNotMatch InvalidSignature IncompleteSignature",
        Transient,
    ),
    _row(
        "InvalidClientTokenId UnrecognizedClient MissingAuthenticationToken AccessDenied AuthorizationError"
        " NotAuthorized OptInRequired InvalidSecurity",
        Transient,
    ),
    _row(
        "AccountSendingPaused ConfigurationSetSendingPaused ConfigurationSetDoesNotExist MailFromDomainNotVerified",
        Transient,
    ),
    _row("KMSAccessDenied KMSDisabled KMSInvalidState KMSNotFound KMSOptInRequired", Transient),
    # transient: a fault of the provider
    _row("InternalError InternalFailure ServiceUnavailable RequestTimeout RequestAborted", Transient),
    # permanent, of the message or its address
    _row(_INVALID, Rejected, saying="too long", too_large=True),
    _row("RequestEntityTooLarge", Rejected, too_large=True),
    _row(f"{_INVALID} MessageRejected", Rejected),
)

OTHER = "other"
# The closed vocabulary of a provider's refusals, in outcomes and device statuses.
CODES = frozenset(code for row in TABLE for code in row.codes) | {OTHER}

# The request was sent and no answer arrived: the provider may have accepted the message.
_ANSWER_LOST = (ReadTimeoutError, ConnectionClosedError, ResponseStreamingError, ProxyConnectionError)


def code_of(error: ProviderError) -> str:
    """Return the provider's code if it is one of CODES, else `other`. The free text is for log lines only."""
    code = str(error).partition(":")[0].removesuffix("Exception")
    return code if code in CODES else OTHER


def as_provider_error(error: ClientError | BotoCoreError) -> ProviderError:
    """Return the ProviderError for an error of the SDK."""
    if not isinstance(error, ClientError):
        return Transient(f"{type(error).__name__}: {error}", answer_lost=isinstance(error, _ANSWER_LOST))
    details = error.response.get("Error", {})
    return refusal(details.get("Code", ""), details.get("Message", ""))


def refusal(code: str, text: str) -> ProviderError:
    """Return the ProviderError for a provider's error code and text; a code outside the table is retried."""
    message = f"{code}: {text}"[:500]
    row = next((row for row in TABLE if row.fits(code.removesuffix("Exception"), message)), None)
    if row is None or row.error is Transient:
        return Transient(message, throttled=row is not None and row.throttled)
    if row.error is Rejected:
        return Rejected(message, too_large=row.too_large)
    return row.error(message)
