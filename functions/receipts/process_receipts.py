"""Converts receipts to outcome records: the status sent becomes delivered or bounced, and invalid addresses and
endpoints are suppressed.

The function consumes two topics. From `outcome` it stores the providers' message ids and what fallbacks wait for, and
gives the places of unsent notifications back that frequency caps have counted. A record of `receipt` may arrive
before the outcome record of its message; it is then delayed, a limited number of times. The topic also has answers to
SMS, which apply_answers.py applies.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from aws_lambda_powertools import Logger

from functions.receipts.apply_answers import ApplyAnswers
from functions.receipts.earlier_notifications import EarlierNotifications
from functions.receipts.reading import COMPLAINT, NOT_SENT, Receipt, read
from functions.receipts.sent_messages import MessageFailure, OutcomeWithTrace, SentMessage, SentMessages
from masscomm.chain.batch import Batch, Item
from masscomm.chain.cap_counter import CapCounter
from masscomm.chain.delayer import Delayer
from masscomm.chain.email_reputation import EmailReputation
from masscomm.chain.outcome_emitter import emit_outcome
from masscomm.clock import Clock
from masscomm.directory.document_publisher import DocumentPublisher
from masscomm.domain.channels import CHANNELS
from masscomm.domain.email_pauses import EMAIL, EmailCounts
from masscomm.domain.ids import address_id, derived_id
from masscomm.domain.outcomes import RecipientOutcome, outcome_fields
from masscomm.domain.platforms import platform_of_arn
from masscomm.domain.preferences import Decision
from masscomm.domain.records import (
    ChannelRecord,
    DeviceStatusChanged,
    NotificationOutcome,
    ReceiptReceived,
)
from masscomm.domain.sms_answers import SmsAnswer
from masscomm.domain.sms_settings import number_of
from masscomm.domain.statuses import Reason, Status
from masscomm.domain.suppressions import INDEX as SUPPRESSIONS
from masscomm.domain.suppressions import Periods, Suppression
from masscomm.domain.time_limits import RECEIPT_RETRY_DELAYS_S, SENT_MESSAGES_KEPT_S, SENT_MESSAGES_PURGE_S
from masscomm.errors import DeadLetter
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec
from masscomm.kafka.event import KafkaRecord
from masscomm.observability import traces
from masscomm.stores.delayed_records.port import DelayStore
from masscomm.stores.frequency_caps.port import FrequencyCaps
from masscomm.stores.sends.port import Sends

UNRESOLVED = "unresolved"
_LEAST_FINAL_FIRST = (
    Reason.BOUNCED_TRANSIENT,
    Reason.PROVIDER_REJECTED,
    Reason.BOUNCED_PERMANENT,
    Reason.DEVICE_INACTIVE,
    Reason.COMPLAINED,
)


@dataclass(frozen=True, kw_only=True)
class ParsedReceipt:
    """A record of the topic `receipt` with its parsed body. `receipt` is None if the body requires no action."""

    record: ReceiptReceived
    receipt: Receipt | None

    @property
    def about(self) -> ReceiptReceived:
        """Return the record, whose ids log lines contain."""
        return self.record


@dataclass(frozen=True, kw_only=True)
class ParsedAnswer:
    """A record of the topic `receipt` that is an answer to an SMS."""

    record: ReceiptReceived
    answer: SmsAnswer

    @property
    def about(self) -> ReceiptReceived:
        """Return the record, whose ids log lines contain."""
        return self.record


type Input = NotificationOutcome | ParsedReceipt | ParsedAnswer


class ProcessReceipts:
    """The use case that processes receipts. Each function environment has one instance.

    Args:
        answers: Applies answers to SMS.
        retry_delays_s: The delays after which a receipt for an unknown message is processed again.
        periods: How long addresses are suppressed.
        club_of: Returns the club of a tenant of SES, if it has one.
    """

    def __init__(
        self,
        *,
        messages: SentMessages,
        publisher: DocumentPublisher,
        answers: ApplyAnswers,
        frequency_caps: FrequencyCaps,
        sends: Sends,
        reputation: EmailReputation,
        delay_store: DelayStore,
        clock: Clock,
        logger: Logger,
        retry_delays_s: Sequence[float] = RECEIPT_RETRY_DELAYS_S,
        periods: Periods | None = None,
        club_of: Callable[[str], int | None] = lambda _: None,
    ) -> None:
        self._messages = messages
        self._publisher = publisher
        self._answers = answers
        self._cap_counter = CapCounter(store=frequency_caps, clock=clock)
        self._earlier = EarlierNotifications(sends=sends, delay_store=delay_store)
        self._reputation = reputation
        self._delayer = Delayer(store=delay_store, clock=clock)
        self._clock = clock
        self._logger = logger
        self._retry_delays_s = retry_delays_s
        self._periods = periods or Periods()
        self._club_of = club_of
        self._purged_at: float | None = None

    def decode(self, record: KafkaRecord, codec: Codec) -> Input:
        """Return the decoded record of the topic outcome or receipt. Raises DeadLetter or Retry."""
        if record.topic == topics.OUTCOME:
            outcome = NotificationOutcome.from_avro(codec.decode("NotificationOutcome", record.value))
            columns = {
                len(outcome.positions),
                len(outcome.user_ids),
                len(outcome.result_index),
                len(outcome.provider_message_ids or outcome.positions),
            }
            if len(columns) != 1:
                raise DeadLetter("invalid", "an outcome whose columns differ in length")
            return outcome
        received = ReceiptReceived.from_avro(codec.decode("ReceiptReceived", record.value))
        if received.tries < 0:
            raise DeadLetter("invalid", f"a receipt that was tried {received.tries} times")
        parsed = read(received.body)
        if isinstance(parsed, SmsAnswer):
            return ParsedAnswer(record=received, answer=parsed)
        return ParsedReceipt(record=received, receipt=parsed)

    def dead_lettered(self, batch: Batch[Input], item: Item[Input], why: DeadLetter) -> None:
        """Do nothing: a record that cannot be read names no recipients, so there is no outcome to produce."""

    def handle(self, batch: Batch[Input]) -> None:
        self._store_sent_messages(batch)
        for item in batch.active():
            if isinstance(item.value, NotificationOutcome):
                batch.attempt(item, partial(self._cap_counter.give_back, item.value))  # guard: frequency_caps.unsent
                if item.value.fallback is not None:
                    batch.attempt(item, partial(self._earlier.observe, batch, item, item.value, item.value.fallback))
        answers = [(item, item.value.answer) for item in batch.active() if isinstance(item.value, ParsedAnswer)]
        if answers:
            errors = self._answers.apply([answer for _, answer in answers])
            for (item, _), error in zip(answers, errors, strict=True):
                item.error = error
        self._count_emails(batch)
        parsed = [(item, item.value.receipt) for item in batch.active() if isinstance(item.value, ParsedReceipt)]
        receipts = [(item, receipt) for item, receipt in parsed if receipt is not None and receipt.status is not None]
        if receipts:
            known = self._messages.find({receipt.message_id for _, receipt in receipts})
            self._suppress(receipts, known)  # guard: receipts.dead_address
            self._resolve(batch, receipts, known)
            self._count_failures(batch, receipts, known)
        self._pause_by_provider(batch, parsed)

    # --- the reputation of clubs --------------------------------------------------------------------------------------

    def _count_emails(self, batch: Batch[Input]) -> None:
        """Count the e-mails in delivery's outcome records, and pause the e-mails of clubs beyond the limits."""
        clubs: dict[int, Item[Input]] = {}
        for item in batch.active():
            outcome = item.value
            if isinstance(outcome, NotificationOutcome) and (outcome.step, outcome.channel) == ("delivery", EMAIL):
                count = partial(self._reputation.count_sent, outcome)
                batch.attempt(item, partial(_note_club, clubs, outcome.club_id, item, count))
        self._check_reputation(batch, clubs)

    def _count_failures(
        self, batch: Batch[Input], receipts: Sequence[tuple[Item[Input], Receipt]], known: Mapping[str, SentMessage]
    ) -> None:
        """Count permanent bounces and complaints, each once, as `_count_emails`."""
        clubs: dict[int, Item[Input]] = {}
        for item, receipt in receipts:
            message = known.get(receipt.message_id)
            if message is None or message.channel != EMAIL or (counts := _failure_counts(receipt)) is None:
                continue
            if item.error is None:
                once = f"{message.outcome_id}#{message.position}#{'bounced' if counts.bounced else 'complained'}"
                count = partial(
                    self._reputation.count_failed,
                    message.club_id,
                    message.type,
                    self._at_ms(receipt),
                    counts,
                    once=once,
                )
                batch.attempt(item, partial(_note_club, clubs, message.club_id, item, count))
        self._check_reputation(batch, clubs)

    def _check_reputation(self, batch: Batch[Input], clubs: Mapping[int, Item[Input]]) -> None:
        # A record whose check fails is redelivered; its e-mails count once.
        for club_id, item in clubs.items():
            if item.error is None:
                batch.attempt(item, partial(self._reputation.check, [club_id]))

    def _pause_by_provider(self, batch: Batch[Input], parsed: Sequence[tuple[Item[Input], Receipt | None]]) -> None:
        """Pause the e-mails of clubs whose tenants SES has paused."""
        for item, receipt in parsed:
            club_id = None if receipt is None or not receipt.paused_tenant else self._club_of(receipt.paused_tenant)
            if club_id is not None and receipt is not None:
                reason = f"SES has paused its tenant {receipt.paused_tenant}"
                batch.attempt(item, partial(self._pause, club_id, reason))

    def _pause(self, club_id: int, reason: str) -> None:
        self._reputation.pauses.pause(club_id, reason)

    def _store_sent_messages(self, batch: Batch[Input]) -> None:
        """Store the messages in delivery's outcome records; the records of other functions contain no new message."""
        sent_items = [
            (item, OutcomeWithTrace(item.value, traces.of_headers(item.record.headers)))
            for item in batch.active()
            if isinstance(item.value, NotificationOutcome)
            and item.value.step == "delivery"
            and any(item.value.provider_message_ids)
        ]
        if sent_items:
            for (item, _), error in zip(
                sent_items, self._messages.store([each for _, each in sent_items]), strict=True
            ):
                item.error = error
            self._purge()

    def _purge(self) -> None:
        """Delete old messages once an hour. A failure is repeated an hour later."""
        now = self._clock.monotonic()
        if self._purged_at is None or now - self._purged_at >= SENT_MESSAGES_PURGE_S:
            self._purged_at = now
            self._messages.purge(sent_before_ms=self._clock.now_ms() - SENT_MESSAGES_KEPT_S * 1000)

    def _suppress(self, receipts: Sequence[tuple[Item[Input], Receipt]], known: Mapping[str, SentMessage]) -> None:
        """Suppress the addresses that receipts report as invalid, for the club that sent the message; only the
        address of the message's own recipient is suppressed.

        The recipient's mail server writes the bounce, and could name any address; so could any other caller of this
        function. If the message is unknown, its address is suppressed once the message is known.
        """
        addressed = [
            (item, receipt, known[receipt.message_id], address)
            for item, receipt in receipts
            if receipt.message_id in known
            for address in receipt.dead_addresses
        ]
        if not addressed:
            return
        columns = {column for _, _, message, _ in addressed if (column := _address_column(message)) is not None}
        user_ids = {message.user_id for _, _, message, _ in addressed}
        own = {column: self._messages.addresses(user_ids, column) for column in sorted(columns)}
        found = [
            (item, self._suppression(receipt, message, address))
            for item, receipt, message, address in addressed
            if (column := _address_column(message)) is not None
            and message.user_id in own[column]
            # guard: receipts.own_address
            and address_id(_compared(message, own[column][message.user_id])) == address_id(address)
        ]
        if len(found) < len(addressed):
            self._logger.warning("receipts name other addresses", addresses=len(addressed) - len(found))
        if found:
            for (item, _), error in zip(found, self._messages.suppress([each for _, each in found]), strict=True):
                item.error = item.error or error
            self._publisher.publish(SUPPRESSIONS, {each.id for _, each in found})  # guard: receipts.published

    def _suppression(self, receipt: Receipt, message: SentMessage, address: str) -> Suppression:
        reason, at_ms = _suppression_reason(receipt), self._at_ms(receipt)
        return Suppression(
            club_id=message.club_id,
            address=address,
            reason=reason,
            at_ms=at_ms,
            expires_ms=self._periods.end_ms(reason, at_ms),
        )

    def _resolve(
        self, batch: Batch[Input], receipts: Sequence[tuple[Item[Input], Receipt]], known: Mapping[str, SentMessage]
    ) -> None:
        dead = {receipt.dead_endpoint for _, receipt in receipts if receipt.dead_endpoint is not None}
        devices = self._messages.devices(dead) if dead else {}
        failures = self._failures(receipts, known)
        unknown = 0
        for item, receipt in receipts:
            message = known.get(receipt.message_id)
            if message is not None:
                device = devices.get(receipt.dead_endpoint or "")
                batch.attempt(item, partial(self._emit, batch, item, receipt, message, device, failures))
            # guard: receipts.unknown_message
            elif isinstance(item.value, ParsedReceipt) and item.value.record.tries < len(self._retry_delays_s):
                batch.attempt(item, partial(self._delay, batch, item.value.record))
            else:
                unknown += 1
        if unknown:
            self._logger.warning("receipts of unknown messages", receipts=unknown)

    def _failures(
        self, receipts: Sequence[tuple[Item[Input], Receipt]], known: Mapping[str, SentMessage]
    ) -> dict[str, Reason]:
        """Store the failures of notifications that consist of several messages; return all known failures of those
        notifications.
        """
        found = [
            (
                item,
                message,
                MessageFailure(message_id=receipt.message_id, reason=receipt.reason, at_ms=self._at_ms(receipt)),
            )
            for item, receipt in receipts
            if receipt.reason is not None
            and (message := known.get(receipt.message_id)) is not None
            and len(message.siblings) > 1
        ]
        if not found:
            return {}
        for (item, _, _), error in zip(
            found, self._messages.store_failures([each for _, _, each in found]), strict=True
        ):
            item.error = item.error or error
        return self._messages.failures({name for _, message, _ in found for name in message.siblings})

    def _emit(
        self,
        batch: Batch[Input],
        item: Item[Input],
        receipt: Receipt,
        message: SentMessage,
        device_id: int | None,
        failures: Mapping[str, Reason],
    ) -> None:
        # A receipt has no trace. Its outcome record continues the trace of the message, or else begins the trace of the
        # send.
        headers = (message.trace or traces.begun_by(message.send_id)).headers
        if receipt.dead_endpoint is not None and device_id is not None:
            status = self._device_status(receipt, receipt.dead_endpoint, message, device_id)
            batch.produce(item, topics.DEVICE_STATUS, str(device_id), status, headers)  # guard: receipts.dead_token
        if len(message.siblings) > 1 and receipt.status is Status.BOUNCED:  # guard: receipts.one_device_of_several
            # The notification bounced only if its message reached none of the devices.
            if not failures.keys() >= set(message.siblings):
                return
            receipt = replace(receipt, reason=_overall_reason([failures[name] for name in message.siblings]))
        if receipt.status is not None:
            emit_outcome(batch, item, self._outcome(receipt, receipt.status, message), headers)

    def _delay(self, batch: Batch[Input], record: ReceiptReceived) -> None:
        retried = replace(record, tries=record.tries + 1)
        due_ms = self._clock.now_ms() + round(self._retry_delays_s[record.tries] * 1000)
        self._delayer.delay(batch.codec, topics.RECEIPT, retried, due_ms, delay_reason=UNRESOLVED)

    def _outcome(self, receipt: Receipt, status: Status, message: SentMessage) -> NotificationOutcome:
        """Return the outcome record; its id is derived from message and status, so that repeated receipts count
        once."""
        position, at_ms = message.position, self._at_ms(receipt)
        decision = Decision(status, receipt.reason, "provider", receipt.code or None)
        recipient = ChannelRecord(
            # guard: receipts.same_id
            record_id=derived_id(message.outcome_id, f"receipt.{status}", message.channel, position, position + 1),
            parent_id=message.outcome_id,
            send_id=message.send_id,
            chunk_index=message.chunk_index,
            range_start=position,
            range_end=position + 1,
            channel=message.channel,
            positions=[position],
            user_ids=[message.user_id],
        )
        outcomes = [RecipientOutcome(position, message.user_id, decision, (receipt.message_id,))]
        own = outcome_fields(
            outcomes, step="receipt", now_ms=at_ms, requested_at=message.requested_at, due_at=message.due_at
        )
        return own.added_to(NotificationOutcome, message, recipient)

    def _device_status(
        self, receipt: Receipt, endpoint_arn: str, message: SentMessage, device_id: int
    ) -> DeviceStatusChanged:
        return DeviceStatusChanged(
            record_id=derived_id(message.outcome_id, "device_status", message.channel, device_id, device_id + 1),
            device_id=device_id,
            user_id=message.user_id,
            club_id=message.club_id,
            platform=platform_of_arn(endpoint_arn) or "",
            endpoint_arn=endpoint_arn,
            status="inactive",
            reason=receipt.code,
            timestamp=self._at_ms(receipt),
            send_id=message.send_id,
        )

    def _at_ms(self, receipt: Receipt) -> int:
        """Return the time of the receipt, but none later than now or before its message can have been sent: the clock
        of the provider may be wrong.
        """
        now_ms = self._clock.now_ms()
        earliest = now_ms - SENT_MESSAGES_KEPT_S * 1000  # guard: receipts.too_old
        return now_ms if receipt.at_ms is None else max(earliest, min(receipt.at_ms, now_ms))


def _address_column(message: SentMessage) -> str | None:
    """Return the column of users with the address to which the message was sent; None for a message to devices."""
    channel = CHANNELS.get(message.channel)
    return None if channel is None else channel.user_field


def _compared(message: SentMessage, address: str) -> str:
    """Return a user's address in the form that receipts have."""
    is_number = CHANNELS[message.channel].to_phone_numbers
    return number_of(message.club_id, address) if is_number else address


def _overall_reason(reasons: Sequence[Reason]) -> Reason:
    """Return the reason for a notification of which no message arrived. A transient reason takes precedence over a
    permanent one.
    """
    return next(reason for reason in _LEAST_FINAL_FIRST if reason in reasons)


def _note_club(clubs: dict[int, Item[Input]], club_id: int, item: Item[Input], count: Callable[[], bool]) -> None:
    """Count e-mails of a club, and note it with the item if any count."""
    if count():
        clubs[club_id] = item


def _failure_counts(receipt: Receipt) -> EmailCounts | None:
    """Return what a receipt adds to the counts of e-mails; None: nothing. What SES did not send does not count."""
    if receipt.code.endswith(NOT_SENT) or receipt.reason is Reason.COMPLAINED:
        return None
    if receipt.reason is Reason.BOUNCED_PERMANENT:
        return EmailCounts(bounced=1)
    return EmailCounts(complained=1) if receipt.code.startswith(COMPLAINT) else None


def _suppression_reason(receipt: Receipt) -> Reason:
    """Return the reason for a suppression: that of the bounce, or a complaint about a delivered message."""
    return receipt.reason or Reason.COMPLAINED
