"""Publishes to recipients in groups, and records the results of each group before the next group begins.

DELIVERY_UNRECORDED limits the number of recipients, over all records of a batch, that are published to before their
results are recorded. A crash repeats at most that many. A group has recipients of one large record, or of several small
ones.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from functions.delivery.record_delivery import RecordDelivery
from functions.delivery.retry_scheduler import RetryScheduler
from functions.delivery.upcoming import Addressed, Upcoming
from masscomm.chain.sms_spending import Reserved, SmsSpending
from masscomm.channels.circuit_breaker import application_of
from masscomm.channels.gateway import ProviderCall, ProviderGateway
from masscomm.channels.provider_calls import Caller
from masscomm.clock import Clock
from masscomm.decisions.delivery import Recipient
from masscomm.decisions.results import delayed_result, final_result, is_refusal
from masscomm.domain.call_results import Call, CallAnswer, RecipientResult
from masscomm.domain.lanes import Lane
from masscomm.domain.provider_errors import (
    ApplicationOff,
    ProviderError,
    SendingPaused,
    TargetGone,
    TargetUnknown,
    Transient,
)
from masscomm.domain.time_limits import CALL_RETRY_BUDGET_S, LEDGER_FIRST_PAUSE_S, LEDGER_LAST_PAUSE_S, LEDGER_WRITE_S
from masscomm.domain.users import Device
from masscomm.errors import Retry, Stop
from masscomm.observability import logs, metrics
from masscomm.observability.metric_names import LEASE_LOSSES
from masscomm.stores.delivery_ledger.port import DeliveryLedger, SliceConflict

logger = logs.logger("delivery")

# The default number of recipients that are published to before their results are recorded. A smaller number needs more
# writes to the delivery ledger.
UNRECORDED = 40

type Gone = tuple[RecordDelivery, Device, TargetGone]


@dataclass(frozen=True, kw_only=True)
class Publishing:
    """Publishes to the recipients of one batch, and records the results."""

    ledger: DeliveryLedger
    gateway: ProviderGateway
    caller: Caller
    spending: SmsSpending
    retry_scheduler: RetryScheduler
    clock: Clock
    invocation_s: Callable[[], float]
    # A function that is called for each device whose endpoint accepts no message any more.
    report_gone: Callable[[RecordDelivery, Device, TargetGone], None]
    # A function that is called for each record of which SES has refused an e-mail because it has paused the sending.
    report_paused: Callable[[RecordDelivery, SendingPaused], None]
    # The reserved cost of an SMS by its record and the position of its recipient; None: the SMS may have been sent, and
    # its cost is not given back.
    paid: dict[tuple[str, int], Reserved | None] = field(default_factory=dict)

    def publish(self, upcoming: Upcoming) -> list[Addressed]:
        """Publish to these recipients and record their results; return the recipients that the provider refused
        temporarily.

        A recipient that is refused repeatedly must not delay the following groups: if there are several groups, each
        one has a limited retry budget at first.

        Raises Stop.
        """
        if upcoming.exceeds_a_group():
            for record, recipient in self._publish_in_groups(upcoming, CALL_RETRY_BUDGET_S):
                upcoming.add(record, [recipient.row])
        return self._publish_in_groups(upcoming, math.inf)

    def delay(self, recipients: Sequence[Addressed]) -> None:
        """Record that these recipients are delayed. If the provider refused none of a record's recipients, the
        record is retried immediately instead.

        An invocation that has taken over the record begins with the first of these recipients. Both invocations then
        write the same slice of results, and the second one gets a conflict.

        Raises Stop.
        """
        slices: dict[RecordDelivery, list[RecipientResult]] = {}
        for record, recipient in sorted(recipients, key=lambda each: each[1].position):
            if record.is_stopped:
                continue
            if not record.errors:
                record.item.error = Retry("the invocation's time is used up")
                continue
            retry_at_ms = self.retry_scheduler.retry_at_ms(record.delivery)
            slices.setdefault(record, []).append(delayed_result(recipient, (), retry_at_ms))
        self._record(slices)
        for record, results in slices.items():
            if not record.has_failed:
                with logs.about(record.log_keys):
                    logger.info(
                        "waits for its next try",
                        recipients=len(results),
                        waits=record.delivery.waits,
                        error=min(record.errors),
                    )

    def _publish_in_groups(self, upcoming: Upcoming, retry_budget_s: float) -> list[Addressed]:
        refused: list[Addressed] = []
        for group in upcoming.groups():
            refused += self._publish_group(group, retry_budget_s)
        return [(record, recipient) for record, recipient in refused if not record.is_stopped]

    def _publish_group(self, group: Sequence[Addressed], retry_budget_s: float) -> list[Addressed]:
        """Publish to a group and record its results; return the recipients that the provider refused temporarily."""
        calls = [
            (record, recipient, call)
            for record, recipient in group
            if recipient.decision is None
            for call in self.caller.calls(record.delivery, recipient)
        ]
        unpaid = self._unpaid(calls)  # guard: sms.spending_before_calls
        made = self.gateway.publish_all(
            [
                ProviderCall(record, call.make, call.rate)
                for place, (record, _, call) in enumerate(calls)
                if place not in unpaid
            ],
            retry_budget_s=retry_budget_s,
        )
        of_made = iter(made)
        answers = _credible(
            [call.device for _, _, call in calls],
            [
                CallAnswer(error=unpaid[place], tried=False) if place in unpaid else next(of_made)
                for place in range(len(calls))
            ],
        )
        answered: dict[tuple[RecordDelivery, int], list[tuple[Call, CallAnswer]]] = {}
        gone: list[Gone] = []
        paused: dict[RecordDelivery, SendingPaused] = {}
        for (record, recipient, call), answer in zip(calls, answers, strict=True):
            answered.setdefault((record, recipient.position), []).append((call, answer))
            if call.device is not None and isinstance(answer.error, TargetGone):
                gone.append((record, call.device, answer.error))
            if isinstance(answer.error, SendingPaused):
                paused[record] = answer.error
        refused: list[Addressed] = []
        slices: dict[RecordDelivery, list[RecipientResult]] = {}
        for record, recipient in group:
            result = self._result(record, recipient, answered.get((record, recipient.position), ()))
            if result is None:
                refused.append((record, recipient))
            else:
                slices.setdefault(record, []).append(result)
        self._record(slices)
        # The results are recorded first: without them, a redelivery would send the other SMS again.
        self._give_back(calls, answers)
        for record, device, error in gone:
            if not record.has_failed:
                self.report_gone(record, device, error)  # guard: endpoints.dead_endpoint
        for record, refusal in paused.items():
            if not record.has_failed:
                self.report_paused(record, refusal)  # guard: email_pauses.paused_by_ses
        return refused

    def _unpaid(self, calls: Sequence[tuple[RecordDelivery, Recipient, Call]]) -> Mapping[int, ProviderError]:
        """Reserve what these calls cost. Return the errors of those that must not be made, by their indices.

        A call that is repeated in this batch is not paid for twice.
        """
        clubs: dict[tuple[int, bool], list[int]] = {}
        for place, (record, recipient, call) in enumerate(calls):
            if call.rate.sms is not None and (record.delivery.record_id, recipient.position) not in self.paid:
                key = record.delivery.club_id, record.question.lane is Lane.CRITICAL
                clubs.setdefault(key, []).append(place)
        unpaid: dict[int, ProviderError] = {}
        for (club_id, is_critical), places in clubs.items():
            costs = [sms.micro_dollars for place in places if (sms := calls[place][2].rate.sms) is not None]
            found = self.spending.reserve(club_id, costs, is_critical=is_critical)
            for place, each in zip(places, found, strict=True):
                if isinstance(each, Reserved):
                    record, recipient, _ = calls[place]
                    self.paid[record.delivery.record_id, recipient.position] = each
                else:
                    unpaid[place] = each
        return unpaid

    def _give_back(
        self, calls: Sequence[tuple[RecordDelivery, Recipient, Call]], answers: Sequence[CallAnswer]
    ) -> None:
        """Give back the costs of SMS that the provider has certainly not accepted."""
        unsent: list[Reserved] = []
        for (record, recipient, _), answer in zip(calls, answers, strict=True):
            key = record.delivery.record_id, recipient.position
            reserved = self.paid.get(key)
            if reserved is None:
                continue
            if answer.error is None or answer.may_be_accepted:  # guard: sms.sent_costs
                self.paid[key] = None
            else:
                del self.paid[key]
                unsent.append(reserved)
        if unsent:
            self.spending.give_back(unsent)

    def _result(
        self, record: RecordDelivery, recipient: Recipient, answers: Sequence[tuple[Call, CallAnswer]]
    ) -> RecipientResult | None:
        """Return the result to record now; None for a recipient that the provider refused temporarily on each
        device.

        A recipient who may have the message is recorded with the group, so that neither this invocation nor a
        redelivery calls the provider again before the delay has ended.
        """
        result = final_result(recipient, answers)
        if result is not None:
            return result
        refused = any(isinstance(answer.error, Transient) for _, answer in answers)
        lost = any(isinstance(answer.error, Transient) and answer.error.answer_lost for _, answer in answers)
        # guard: provider.lost_answer_is_recorded
        if lost or not refused or any(answer.message_id is not None for _, answer in answers):
            retry_at_ms = self.retry_scheduler.retry_at_ms(record.delivery, unbounded=lost or not refused)
            return delayed_result(recipient, answers, retry_at_ms)
        record.errors.update(str(answer.error) for _, answer in answers if is_refusal(answer.error))
        return None

    def _record(self, slices: Mapping[RecordDelivery, Sequence[RecipientResult]]) -> None:
        """Record one slice of results for each record.

        A failed write is repeated while time remains, because recipients without a recorded result would be published
        to again. A record fails if its slice cannot be recorded. Raises Stop.
        """
        pending = {record.delivery.record_id: record for record in slices}
        pause_s = LEDGER_FIRST_PAUSE_S
        while pending:
            # guard: delivery_ledger.slice_by_slice
            answers = self.ledger.record_all({record_id: slices[record] for record_id, record in pending.items()})
            errors = {record_id: error for record_id, error in answers.items() if error is not None}
            for record_id, error in errors.items():
                if isinstance(error, Stop):
                    raise error
                if isinstance(error, SliceConflict):
                    metrics.add(LEASE_LOSSES)
                if isinstance(error, SliceConflict) or not isinstance(error, Retry):
                    pending[record_id].item.error = error
            pending = {each: pending[each] for each in errors if not pending[each].has_failed}
            if pending and self.invocation_s() < pause_s + LEDGER_WRITE_S:  # guard: delivery_ledger.write_retry
                for record_id, record in pending.items():
                    record.item.error = errors[record_id]
                break
            if pending:
                self.clock.sleep(pause_s)
                pause_s = min(LEDGER_LAST_PAUSE_S, pause_s * 2)
        for record, results in slices.items():
            if not record.has_failed:
                record.done.update((result.position, result) for result in results)


def _credible(devices: Sequence[Device | None], answers: Sequence[CallAnswer]) -> Sequence[CallAnswer]:
    """Return the answers of a group. An unknown endpoint is not gone if its application is off meanwhile: the circuit
    breaker has found that SNS knows no endpoint of it.
    """
    if not any(isinstance(answer.error, ApplicationOff) for answer in answers):
        return answers
    applications = [None if device is None else application_of(device.endpoint_arn or "") for device in devices]
    off = {
        application: answer
        for application, answer in zip(applications, answers, strict=True)
        if isinstance(answer.error, ApplicationOff)
    }
    return [
        # guard: devices.unknown_endpoints
        off.get(application, answer) if isinstance(answer.error, TargetUnknown) else answer
        for application, answer in zip(applications, answers, strict=True)
    ]
