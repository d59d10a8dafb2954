"""The provider calls for recipients, and their results."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple, Self

from masscomm.domain.preferences import Decision
from masscomm.domain.provider_errors import ProviderError
from masscomm.domain.records import DeliveryRequested
from masscomm.domain.users import Device

if TYPE_CHECKING:
    from masscomm.domain.sms_settings import SmsOrigin


class Shortened(NamedTuple):
    """The answer of the provider to a message whose body was shortened."""

    message_id: str
    # The platform for which it was, as people name it: ios or android.
    platform: str


class WrittenSms(NamedTuple):
    """An SMS to one country."""

    country: str
    origin: "SmsOrigin"
    text: str
    segments: int
    is_transactional: bool
    # The cost in micro-dollars.
    micro_dollars: int


class CallRate(NamedTuple):
    """What a call takes of the rate of its provider account, or of its sender."""

    # The messages, or the segments of an SMS.
    units: int = 1
    # The sender, if each has a rate of its own, and the units that it sends in a second.
    sender: str = ""
    sender_per_s: float | None = None
    # The SMS of the call, if it can be sent.
    sms: WrittenSms | None = None


ONE_MESSAGE = CallRate()


class Call(NamedTuple):
    """One provider call.

    Attributes:
        target: The target's name in the delivery ledger (see CallResult).
        make: Makes the call and returns the message id.
        device: The device of a push.
        rate: What the call takes of the provider's rate.
    """

    target: str
    make: Callable[[], Awaitable[str | Shortened]]
    device: Device | None = None
    rate: CallRate = ONE_MESSAGE


class CallAnswer(NamedTuple):
    """The result of one call: a message id, or an error."""

    message_id: str | None = None
    error: ProviderError | None = None
    # Whether another attempt may succeed within this invocation.
    retryable: bool = False
    # Whether the provider was called at all.
    tried: bool = True
    # The platform for which the body was shortened; None: it was not.
    shortened_for: str | None = None
    # Whether the provider may have accepted the message in spite of the error, at this attempt or an earlier one.
    may_be_accepted: bool = False

    @classmethod
    def accepted(cls, found: str | Shortened) -> Self:
        """Return the answer of a call that a provider accepted."""
        if isinstance(found, Shortened):
            return cls(message_id=found.message_id, shortened_for=found.platform)
        return cls(message_id=found)


class CallResult(NamedTuple):
    """The result of one provider call.

    Attributes:
        target: The device's id, or the name of a channel without devices.
        error: The class of the error, if the provider returned no message id.
    """

    target: str
    message_id: str | None = None
    error: str | None = None


class RecipientResult(NamedTuple):
    """The result of one recipient: the decision, and the provider calls it is based on. The first recorded result
    counts.

    Attributes:
        retry_at_ms: For a delayed recipient, the time (ms since the epoch) at which the retry record is released; that
            record has slices of its own.
    """

    position: int
    user_id: int
    decision: Decision
    call_results: tuple[CallResult, ...] = ()
    retry_at_ms: int | None = None

    @property
    def message_ids(self) -> tuple[str, ...]:
        """Return the provider's message ids, one for each accepted call."""
        return tuple(call.message_id for call in self.call_results if call.message_id is not None)


def accepted_before_delay(delivery: DeliveryRequested) -> dict[int, tuple[CallResult, ...]]:
    """Return, by the recipient's position, the calls that the provider accepted before the record was delayed for
    other devices.
    """
    found: dict[int, tuple[CallResult, ...]] = {}
    for entry in delivery.taken:
        call = CallResult(target=entry.target, message_id=entry.message_id)
        found[entry.position] = (*found.get(entry.position, ()), call)
    return found
