"""The table of all error codes of SNS and SES, each with its class of ProviderError.

Sources: the API references of Amazon SNS (Publish, common errors) and Amazon SES v1 (SendRawEmail, common errors). Some
AWS protocols append "Exception" to the codes; the table has the codes without it.
"""

from dataclasses import dataclass

from masscomm.domain.provider_errors import (
    ApplicationOff,
    ProviderError,
    Rejected,
    TargetGone,
    TargetUnknown,
    Transient,
)


@dataclass(frozen=True, kw_only=True)
class Row:
    """Error codes with the same meaning. The first row of the table that matches an error applies."""

    codes: frozenset[str]
    error: type[ProviderError]
    # A text that the error message must contain for this row to match.
    saying: str = ""
    throttled: bool = False
    too_large: bool = False

    def fits(self, code: str, message: str) -> bool:
        """Return whether the row matches the provider's error."""
        return code in self.codes and self.saying in message


def _row(codes: str, error: type[ProviderError], *, saying: str = "", **flags: bool) -> Row:
    return Row(codes=frozenset(codes.split()), error=error, saying=saying, **flags)


_INVALID = "InvalidParameter InvalidParameterValue ParameterValueInvalid Validation ValidationError"

TABLE: tuple[Row, ...] = (
    # Errors that are permanent for a platform application: its credentials are invalid or it was deleted. No recipient
    # fails because of them.
    _row("PlatformApplicationDisabled", ApplicationOff),
    _row("NotFound", ApplicationOff, saying="PlatformApplication"),
    # Errors that are permanent for a device: the push service revoked its token, or the endpoint was deleted. A call of
    # the wrong region gets the answers about deleted endpoints, too (masscomm.channels.circuit_breaker).
    _row("EndpointDisabled", TargetGone),
    _row("NotFound", TargetUnknown),
    _row(_INVALID, TargetUnknown, saying="TargetArn"),
    _row(_INVALID, TargetGone, saying="Token"),
    # The provider throttles.
    _row(  # guard: provider_errors.throttling
        "Throttling Throttled ThrottledException TooManyRequests RequestLimitExceeded KMSThrottling SlowDown",
        Transient,
        throttled=True,
    ),
    # Errors that are temporary and our own fault: expired or changing credentials, clock skew, or a sender or account
    # that an operator must correct. No recipient fails because of them.
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
    # SES also reports a paused account as MessageRejected, with the text "Sending paused for this account. …".
    _row("MessageRejected", Transient, saying="for this account"),  # guard: provider_errors.paused_account
    # "Email address is not verified. The following identities failed the check in region …: …". It names the recipient
    # while the account is in the sandbox of SES, and the sender or its domain at any time.
    _row("MessageRejected", Transient, saying="not verified"),  # guard: provider_errors.sandbox
    _row("KMSAccessDenied KMSDisabled KMSInvalidState KMSNotFound KMSOptInRequired", Transient),
    # Errors that are temporary faults of the provider.
    _row("InternalError InternalFailure ServiceUnavailable RequestTimeout RequestAborted", Transient),
    # Errors that are permanent for the message or its address.
    _row(_INVALID, Rejected, saying="too long", too_large=True),
    _row("RequestEntityTooLarge", Rejected, too_large=True),
    _row(f"{_INVALID} MessageRejected", Rejected),
)

OTHER = "other"
# All provider error codes that outcomes and device statuses may contain.
CODES = frozenset(code for row in TABLE for code in row.codes) | {OTHER}


def code_of(error: ProviderError) -> str:
    """Return the provider's error code if it is in CODES, else `other`. The provider's message text appears only in
    log lines.
    """
    code = str(error).partition(":")[0].removesuffix("Exception")
    return code if code in CODES else OTHER


def refusal(code: str, text: str) -> ProviderError:
    """Return the ProviderError for a provider's error code and text. The call is retried for a code that is not in
    the table.
    """
    message = f"{code}: {text}"[:500]
    row = next((row for row in TABLE if row.fits(code.removesuffix("Exception"), message)), None)
    if row is None or row.error is Transient:
        return Transient(message, throttled=row is not None and row.throttled)
    if row.error is Rejected:
        return Rejected(message, too_large=row.too_large)
    return row.error(message)
