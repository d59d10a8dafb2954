"""Every answer of SNS and SES that is no message id, by what to do about it: one table.

Sources: the API references of Amazon SNS (Publish, common errors) and Amazon SES v1 (SendRawEmail, common errors).
Codes come with and without "Exception", depending on the protocol's age; the table has them without.
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
    """Codes that mean the same. saying: only where the message has this in it; the first row that fits counts."""

    codes: frozenset[str]
    error: type[ProviderError]
    saying: str = ""
    throttled: bool = False
    too_large: bool = False

    def fits(self, code: str, message: str) -> bool:
        """Whether the provider's answer is this row's."""
        return code in self.codes and self.saying in message


def _row(codes: str, error: type[ProviderError], *, saying: str = "", **flags: bool) -> Row:
    return Row(codes=frozenset(codes.split()), error=error, saying=saying, **flags)


_INVALID = "InvalidParameter InvalidParameterValue ParameterValueInvalid Validation ValidationError"

TABLE: tuple[Row, ...] = (
    # permanent, of the platform application: its credentials are wrong or it is gone, which is no recipient's fault
    _row("PlatformApplicationDisabled", ApplicationOff),
    _row("NotFound", ApplicationOff, saying="PlatformApplication"),
    # permanent, of the device: the push service took its token back, or the endpoint was deleted
    _row("EndpointDisabled NotFound", TargetGone),
    _row(_INVALID, TargetGone, saying="TargetArn"),
    _row(_INVALID, TargetGone, saying="Token"),
    # the provider asks to go slower
    _row(  # guard: provider_errors.throttling
        "Throttling Throttled ThrottledException TooManyRequests RequestLimitExceeded KMSThrottling SlowDown",
        Transient,
        throttled=True,
    ),
    # transient, and ours: credentials that have run out or are being changed, clocks that differ, a sender or an
    # account that must be put right. No recipient fails for it.
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
    # transient: the provider's own trouble
    _row("InternalError InternalFailure ServiceUnavailable RequestTimeout RequestAborted", Transient),
    # permanent, of the message or its address
    _row(_INVALID, Rejected, saying="too long", too_large=True),
    _row("RequestEntityTooLarge", Rejected, too_large=True),
    _row(f"{_INVALID} MessageRejected", Rejected),
)

OTHER = "other"
# The closed vocabulary of a provider's refusals, in outcomes and device statuses.
CODES = frozenset(code for row in TABLE for code in row.codes) | {OTHER}

# The request went out and no answer came: the message may have been taken.
_ANSWER_LOST = (ReadTimeoutError, ConnectionClosedError, ResponseStreamingError, ProxyConnectionError)


def code_of(error: ProviderError) -> str:
    """The provider's code where it is one of CODES, else `other`. Its free text is for log lines only."""
    code = str(error).partition(":")[0].removesuffix("Exception")
    return code if code in CODES else OTHER


def as_provider_error(error: ClientError | BotoCoreError) -> ProviderError:
    """What the SDK raised, by what to do about it."""
    if not isinstance(error, ClientError):
        return Transient(f"{type(error).__name__}: {error}", answer_lost=isinstance(error, _ANSWER_LOST))
    details = error.response.get("Error", {})
    return refusal(details.get("Code", ""), details.get("Message", ""))


def refusal(code: str, text: str) -> ProviderError:
    """What a provider answered, by what to do about it; a code nobody listed is worth another try."""
    message = f"{code}: {text}"[:500]
    row = next((row for row in TABLE if row.fits(code.removesuffix("Exception"), message)), None)
    if row is None or row.error is Transient:
        return Transient(message, throttled=row is not None and row.throttled)
    if row.error is Rejected:
        return Rejected(message, too_large=row.too_large)
    return row.error(message)
