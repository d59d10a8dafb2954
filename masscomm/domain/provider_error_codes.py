"""The table of all error codes of SNS and SES, each with its class of ProviderError, and the errors of SMS.

Sources: the API references of Amazon SNS (Publish, common errors) and Amazon SES v2 (SendEmail, common errors). Some
AWS protocols append "Exception" to the codes; the table has the codes without it.
"""

from collections.abc import Collection
from dataclasses import dataclass

from masscomm.domain.provider_errors import (
    ApplicationOff,
    CountryNotAllowed,
    InvalidAddress,
    OptedOut,
    ProviderError,
    Rejected,
    SendingPaused,
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
    # The provider throttles; SES also when the daily quota is used up.
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
    _row("AccountSendingPaused SendingPaused AccountSuspended LimitExceeded", Transient),
    # What an operator must correct for one sender of e-mails.
    _row("ConfigurationSetDoesNotExist ConfigurationSetSendingPaused MailFromDomainNotVerified", ApplicationOff),
    # SES also reports a paused account as MessageRejected, with the text "Sending paused for this account. …".
    _row("MessageRejected", Transient, saying="for this account"),  # guard: provider_errors.paused_account
    # "Email address is not verified. The following identities failed the check in region …: …". It names the recipient
    # while the account is in the sandbox of SES, and the sender or its domain at any time.
    _row("MessageRejected", Transient, saying="not verified"),  # guard: provider_errors.sandbox
    _row("KMSAccessDenied KMSDisabled KMSInvalidState KMSNotFound KMSOptInRequired", Transient),
    # Errors that are temporary faults of the provider.
    _row("InternalError InternalFailure ServiceUnavailable RequestTimeout RequestAborted", Transient),
    # Errors that are permanent for the message or its address.
    _row(f"{_INVALID} BadRequest", Rejected, saying="too long", too_large=True),
    _row("RequestEntityTooLarge", Rejected, too_large=True),
    _row(f"{_INVALID} BadRequest MessageRejected", Rejected),
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


def ses_refusal(code: str, text: str, *, sender: str) -> ProviderError:
    """Return the ProviderError for an error of SendEmail of SES.

    Args:
        code: The name of the exception, or the HTTP status.
        text: Its message.
        sender: The address of the sender; may be empty. An error that names it is our fault.
    """
    # What an operator must correct for one sender: its identity, its configuration set, its tenant of SES or their
    # association. No recipient fails because of it, and other senders go on. Of an association that is missing, SES
    # says AccessDenied: "Tenant not associated with resources […]". NotFound names the tenant or the
    # configuration set.
    name, message = code.removesuffix("Exception"), f"{code}: {text}"[:500]
    is_of_set = name == "ConfigurationSetSendingPaused" or "onfiguration set " in text
    is_setting = name == "NotFound" or is_of_set or "enant " in text
    # The documented text of the error is about the account. A tenant or a configuration set is named.
    if is_setting and name in _PAUSED:  # guard: provider_errors.paused_tenant
        return SendingPaused(message, is_of_set=is_of_set)
    if is_setting or (sender and sender in text):  # guard: provider_errors.association
        return ApplicationOff(message)
    return refusal(code, text)


# The errors of version 2 and version 1.
_PAUSED = ("SendingPaused", "ConfigurationSetSendingPaused")

# The reasons of ConflictException and ValidationException of SendTextMessage that concern the recipient's number or
# country. The other reasons of a conflict concern our sender, account or settings.
# Source: AWS End User Messaging SMS API reference, version 2, "ConflictException" and "ValidationException".
_COUNTRY_REASONS = frozenset(
    {
        "COUNTRY_NOT_ENABLED",
        "DESTINATION_COUNTRY_BLOCKED",
        "DESTINATION_COUNTRY_BLOCKED_BY_PROTECT_CONFIGURATION",
        "DESTINATION_PHONE_NUMBER_BLOCKED_BY_PROTECT_NUMBER_OVERRIDE",
    }
)
_SENDER_REASONS = frozenset(
    {
        *("CHANNEL_NOT_ENABLED", "INTERNATIONAL_SENDING_NOT_SUPPORTED", "INVALID_ARN", "RESOURCE_NOT_ACCESSIBLE"),
        *("COUNTRY_CODE_MISMATCH", "INVALID_IDENTITY_FOR_DESTINATION_COUNTRY"),
        *("SENDER_ID_NOT_REGISTERED", "SENDER_ID_NOT_SUPPORTED", "SENDER_ID_REQUIRES_REGISTRATION"),
    }
)


def sms_refusal(code: str, reason: str, fields: Collection[str] = ()) -> ProviderError:
    """Return the ProviderError for an error of SendTextMessage.

    Args:
        code: The name of the exception, or the HTTP status.
        reason: Its reason; empty if it has none.
        fields: The names of the request's fields that it is about.
    """
    code = code.removesuffix("Exception")
    text = f"{code}: {reason}" if reason else code
    if reason in _COUNTRY_REASONS:
        return CountryNotAllowed()
    match code:
        case "Conflict" if reason == "DESTINATION_PHONE_NUMBER_OPTED_OUT":
            return OptedOut(text)
        # The account is in the sandbox.
        case "Conflict" if reason == "DESTINATION_PHONE_NUMBER_NOT_VERIFIED":
            return Transient(text)
        # A sender of one tenant is missing or wrong: an operator must correct it, and no recipient fails because of it.
        case "Conflict" | "ResourceNotFound":
            return ApplicationOff(text)
        case "Validation" if reason in _SENDER_REASONS or "OriginationIdentity" in fields:
            return ApplicationOff(text)
        case "Validation" if "DestinationPhoneNumber" in fields:
            return InvalidAddress()
        case "Validation":
            return Rejected(text, too_large=reason == "MAXIMUM_SIZE_EXCEEDED")
        # The spend or message quota of the account, which holds every recipient until an operator raises it.
        case "ServiceQuotaExceeded":
            return Transient(text)
    return refusal(code, reason)
