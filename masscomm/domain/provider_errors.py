"""The errors of provider calls.

ProviderError
  Transient        the call is retried (throttled, 5xx, a cut connection, expired credentials)
    ApplicationOff   a platform application or a sender accepts no message until an operator acts: retried later,
                     without a delay for the recipients of others
      SendingPaused    SES has paused a tenant of SES, or a configuration set
    NotTried         no time remained for the call
  TargetGone       this device or address accepts no message any more
    TargetUnknown    the provider does not know the device's endpoint
  Rejected         the provider will never accept this message
    Refused          our own rules refuse the message; no provider is called
      InvalidAddress      the recipient's address is not valid
      CountryNotAllowed   no SMS are sent to the country of the number
      SpendLimit          the SMS of the day have cost what the club may spend
  OptedOut         the provider knows that the recipient has opted out
  Expired          the notification expired before the call
"""


class ProviderError(Exception):
    """The base class of the errors in this module; the message is the provider's own text."""


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
        # Whether the provider may have accepted the message in spite of the error, such as an HTTP status 500.
        self.may_be_accepted = answer_lost


class ApplicationOff(Transient):
    """The endpoint's platform application is disabled or gone, or the settings of a sender are wrong. Others are not
    affected.
    """


class SendingPaused(ApplicationOff):
    """SES has paused the sending for one of its tenants, or with a configuration set: `is_of_set`."""

    def __init__(self, message: str, *, is_of_set: bool) -> None:
        super().__init__(message)
        self.is_of_set = is_of_set


class TargetGone(ProviderError):
    """The device's endpoint is disabled, deleted or invalid."""


class TargetUnknown(TargetGone):
    """The provider does not know the device's endpoint: it was deleted, or it belongs to another region or account than
    the one that is called.
    """


class Rejected(ProviderError):
    """The provider refuses the message or its address permanently. `too_large` is true if the size is the reason."""

    # The bytes of a payload above the limit; 0: they are not known.
    excess_bytes: int = 0

    def __init__(self, message: str, *, too_large: bool = False) -> None:
        super().__init__(message)
        self.too_large = too_large


class Refused(Rejected):
    """Our own rules refuse the message, so no provider is called."""


class InvalidAddress(Refused):
    """The recipient's address is not valid. The text does not contain the address."""

    def __init__(self) -> None:
        super().__init__("the recipient's address is not valid")


class CountryNotAllowed(Refused):
    """No SMS are sent to the country of the number, for this club or from this account. `country` is its code (ISO
    3166); "": it is not known.
    """

    def __init__(self, country: str = "") -> None:
        super().__init__("no SMS are sent to the country of the number")
        self.country = country


class SpendLimit(Refused):
    """The SMS of the day have cost what the club may spend."""

    def __init__(self) -> None:
        super().__init__("the SMS of the day have cost what the club may spend")


class OptedOut(ProviderError):
    """The provider does not send to the recipient, who has opted out there."""


class NotTried(Transient):
    """The provider was not called because no time remained for the call."""


class Expired(ProviderError):
    """The notification expired before the call: no message is published after expires_at."""
