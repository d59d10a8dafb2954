"""Computes the result of a recipient from the results of its provider calls. The rules are pure functions."""

from collections.abc import Container, Sequence

from masscomm.decisions.delivery import DEVICE_INACTIVE, INVALID_ADDRESS, Recipient
from masscomm.domain.call_results import Call, CallAnswer, CallResult, RecipientResult, accepted_before_delay
from masscomm.domain.outcomes import EXPIRED, SENT
from masscomm.domain.preferences import Decision
from masscomm.domain.provider_error_codes import code_of
from masscomm.domain.provider_errors import (
    CountryNotAllowed,
    Expired,
    InvalidAddress,
    NotTried,
    OptedOut,
    ProviderError,
    Rejected,
    SpendLimit,
    TargetGone,
    Transient,
)
from masscomm.domain.records import DeliveryRequested
from masscomm.domain.statuses import Reason, Status

_COUNTRY_NOT_ALLOWED = Decision(Status.FAILED, Reason.COUNTRY_NOT_ALLOWED, "sms")
_SPEND_LIMIT = Decision(Status.FAILED, Reason.SPEND_LIMIT, "sms")
_OPTED_OUT = Decision(Status.SUPPRESSED, Reason.OPTED_OUT, "provider")
_DELAYED = Decision(Status.SENDING, None, "provider")
# The decision about a recipient whom a pause holds. It has no outcome record.
_HELD_BY_PAUSE = Decision(Status.QUEUED, None, "send")


def final_result(recipient: Recipient, answers: Sequence[tuple[Call, CallAnswer]]) -> RecipientResult | None:
    """Return the final result of a recipient; None if a device must be tried again. A recipient with the status HELD
    is deferred until quiet hours end.
    """
    decision = recipient.decision or _decision(recipient, [answer for _, answer in answers])
    if decision is None:
        return None
    until_ms = decision.until_ms
    if until_ms is None and recipient.accepted and decision.status is not Status.SENT:
        decision = SENT
    elif until_ms is not None:
        decision = decision._replace(until_ms=None)
    return RecipientResult(
        position=recipient.position,
        user_id=recipient.user_id,
        decision=decision,
        call_results=call_results(recipient, answers),
        retry_at_ms=until_ms,
    )


def delayed_result(
    recipient: Recipient, answers: Sequence[tuple[Call, CallAnswer]], retry_at_ms: int | None
) -> RecipientResult:
    """Return the result of a recipient whose remaining devices are tried again at `retry_at_ms`, which is None if the
    deadline has passed.

    A recipient that has the message on one device is recorded with the group: otherwise, while the record is in
    progress, a crash could send the message to that device twice.
    """
    calls = call_results(recipient, answers)
    decision = _DELAYED
    if retry_at_ms is None:
        is_sent = any(call.message_id is not None for call in calls)
        decision = _sent([answer for _, answer in answers]) if is_sent else EXPIRED
    return RecipientResult(
        position=recipient.position,
        user_id=recipient.user_id,
        decision=decision,
        call_results=calls,
        retry_at_ms=retry_at_ms,
    )


def paused_results(delivery: DeliveryRequested, done: Container[int], held_until_ms: int) -> list[RecipientResult]:
    """Return the results of the recipients of a paused send whose positions are not in `done`: they are held until that
    time, or until the send is resumed.
    """
    accepted = accepted_before_delay(delivery)
    return [
        RecipientResult(
            position=position,
            user_id=user_id,
            decision=_HELD_BY_PAUSE,
            call_results=accepted.get(position, ()),
            retry_at_ms=held_until_ms,
        )
        for position, user_id in zip(delivery.positions, delivery.user_ids, strict=True)
        if position not in done
    ]


def is_held_by_pause(result: RecipientResult) -> bool:
    return result.retry_at_ms is not None and result.decision.status is Status.QUEUED


def call_results(recipient: Recipient, answers: Sequence[tuple[Call, CallAnswer]]) -> tuple[CallResult, ...]:
    """Return the results of all calls, including those before the record was delayed."""
    return (
        *recipient.accepted,
        *(
            CallResult(
                target=call.target,
                message_id=answer.message_id,
                error=None if answer.error is None else type(answer.error).__name__,
            )
            for call, answer in answers
        ),
    )


def is_refusal(error: ProviderError | None) -> bool:
    """Return whether the provider refused the call. A call for which no time remained was not refused."""
    return error is not None and not isinstance(error, NotTried)


def _sent(answers: Sequence[CallAnswer]) -> Decision:
    """Return the decision "sent", with the platforms for which the body was shortened."""
    platforms = sorted({answer.shortened_for for answer in answers if answer.shortened_for is not None})
    return SENT._replace(layer="content", rule=f"shortened for {' and '.join(platforms)}") if platforms else SENT


def _decision(recipient: Recipient, answers: Sequence[CallAnswer]) -> Decision | None:
    """Return the decision "sent" if any device accepted the message; None if a device must be tried (again)."""
    errors = [answer.error for answer in answers if answer.error is not None]
    expired = any(isinstance(error, Expired) for error in errors)
    # guard: endpoints.each_device
    if not expired and (recipient.unregistered or any(isinstance(error, Transient) for error in errors)):
        return None
    if recipient.accepted or len(errors) < len(answers):
        return _sent(answers)
    if expired:
        return EXPIRED
    if all(isinstance(error, TargetGone) for error in errors):
        return DEVICE_INACTIVE
    if any(isinstance(error, InvalidAddress) for error in errors):  # guard: addresses.fault_is_named
        return INVALID_ADDRESS
    if any(isinstance(error, CountryNotAllowed) for error in errors):
        return _COUNTRY_NOT_ALLOWED
    if any(isinstance(error, SpendLimit) for error in errors):
        return _SPEND_LIMIT
    if any(isinstance(error, OptedOut) for error in errors):
        return _OPTED_OUT
    rejected = next(error for error in errors if isinstance(error, Rejected))
    reason = Reason.TOO_LARGE if rejected.too_large else Reason.PROVIDER_REJECTED
    return Decision(Status.FAILED, reason, "provider", code_of(rejected))  # guard: masking.provider_errors
