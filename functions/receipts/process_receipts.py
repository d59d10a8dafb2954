"""Turn receipts into outcomes: sent becomes delivered or bounced; dead addresses and endpoints are suppressed.

Two topics are consumed. Provider message ids of `outcome` are stored. A record of `receipt` may come before the
outcome record of its message; it is then delayed, a few times.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from aws_lambda_powertools import Logger

from functions.receipts.reading import Receipt, read
from functions.receipts.sent_messages import KEPT_MS, MessageFailure, OutcomeWithTrace, SentMessage, SentMessages
from masscomm.chain.batch import Batch, Item
from masscomm.chain.outcome_emitter import count_recipients
from masscomm.clock import Clock
from masscomm.domain.ids import address_id, derived_id, envelope_id
from masscomm.domain.records import DeviceStatusChanged, NotificationOutcome, ReceiptReceived, Result
from masscomm.domain.statuses import Reason, Status
from masscomm.domain.suppressions import Periods, Suppression
from masscomm.errors import DeadLetter
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec
from masscomm.kafka.event import KafkaRecord
from masscomm.observability import traces
from masscomm.stores.delayed_records import DelayedRecord, DelayStore

# Delays of a receipt whose message is unknown. A message unknown after the last one stays so: its outcome record was
# lost (docs/decisions/031), or another application of the account sent it.
RETRY_DELAYS_S = (60, 300, 1_800)
UNRESOLVED = "unresolved"
_LEAST_FINAL_FIRST = (
    Reason.BOUNCED_TRANSIENT,
    Reason.PROVIDER_REJECTED,
    Reason.BOUNCED_PERMANENT,
    Reason.DEVICE_INACTIVE,
)
_PURGE_EVERY_S = 3_600.0


@dataclass(frozen=True, kw_only=True)
class ParsedReceipt:
    """A record of `receipt` with its parsed body; receipt: None where the body is no receipt to act on."""

    record: ReceiptReceived
    receipt: Receipt | None

    @property
    def about(self) -> ReceiptReceived:
        """The record whose ids log lines carry."""
        return self.record


type Input = NotificationOutcome | ParsedReceipt


class ProcessReceipts:
    """The use case; one for each function environment.

    retry_delays_s: delays of a receipt whose message is unknown; periods: how long addresses are suppressed.
    """

    def __init__(
        self,
        *,
        messages: SentMessages,
        delay_store: DelayStore,
        clock: Clock,
        logger: Logger,
        retry_delays_s: Sequence[float] = RETRY_DELAYS_S,
        periods: Periods | None = None,
    ) -> None:
        self._messages = messages
        self._delay_store = delay_store
        self._clock = clock
        self._logger = logger
        self._retry_delays_s = retry_delays_s
        self._periods = periods or Periods()
        self._purged_at: float | None = None

    def decode(self, record: KafkaRecord, codec: Codec) -> Input:
        """A record of outcome or receipt. Errors: DeadLetter, Retry."""
        if record.topic == topics.OUTCOME:
            outcome = NotificationOutcome.from_avro(codec.decode("NotificationOutcome", record.value))
            columns = {
                len(outcome.positions),
                len(outcome.user_ids),
                len(outcome.provider_message_ids or outcome.positions),
            }
            if len(columns) != 1:
                raise DeadLetter("invalid", "an outcome whose columns differ in length")
            return outcome
        received = ReceiptReceived.from_avro(codec.decode("ReceiptReceived", record.value))
        if received.tries < 0:
            raise DeadLetter("invalid", f"a receipt that was tried {received.tries} times")
        return ParsedReceipt(record=received, receipt=read(received.body))

    def dead_lettered(self, batch: Batch[Input], item: Item[Input], why: DeadLetter) -> None:
        """Do nothing: an unreadable record names no recipients, so there is no outcome to emit."""

    def handle(self, batch: Batch[Input]) -> None:
        self._store_sent_messages(batch)
        parsed = [(item, item.value.receipt) for item in batch.active() if isinstance(item.value, ParsedReceipt)]
        receipts = [(item, receipt) for item, receipt in parsed if receipt is not None and receipt.status is not None]
        if receipts:
            known = self._messages.find({receipt.message_id for _, receipt in receipts})
            self._suppress(receipts, known)  # guard: receipts.dead_address
            self._resolve(batch, receipts, known)

    def _store_sent_messages(self, batch: Batch[Input]) -> None:
        """Store the messages of delivery's outcome records; other steps' records name no new message."""
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
        """Delete old messages once an hour; a failure is repeated an hour later."""
        now = self._clock.monotonic()
        if self._purged_at is None or now - self._purged_at >= _PURGE_EVERY_S:
            self._purged_at = now
            now_ms = self._clock.now_ms()
            self._messages.purge(sent_before_ms=now_ms - KEPT_MS, now_ms=now_ms)

    def _suppress(self, receipts: Sequence[tuple[Item[Input], Receipt]], known: Mapping[str, SentMessage]) -> None:
        """Suppress dead addresses, but only the message's own recipient's, for the club that sent it.

        The recipient's mail server writes the bounce and may name any address; so may any other caller of this
        function. The address of an unknown message is suppressed once the message is known.
        """
        addressed = [
            (item, receipt, known[receipt.message_id], address)
            for item, receipt in receipts
            if receipt.message_id in known
            for address in receipt.dead_addresses
        ]
        if not addressed:
            return
        emails = self._messages.addresses({message.user_id for _, _, message, _ in addressed})
        found = [
            (item, self._suppression(receipt, message, address))
            for item, receipt, message, address in addressed
            if message.channel == "email"
            and message.user_id in emails
            and address_id(emails[message.user_id]) == address_id(address)  # guard: receipts.own_address
        ]
        if len(found) < len(addressed):
            self._logger.warning("receipts name other addresses", addresses=len(addressed) - len(found))
        if found:
            for (item, _), error in zip(found, self._messages.suppress([each for _, each in found]), strict=True):
                item.error = item.error or error

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
        """Store failures of notifications with several messages; returns all known failures of those notifications."""
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
        # A receipt carries no trace: use its message's, else the send's first trace.
        headers = (message.trace or traces.begun_by(message.send_id)).headers
        if receipt.dead_endpoint is not None and device_id is not None:
            status = self._device_status(receipt, receipt.dead_endpoint, message, device_id)
            batch.produce(item, topics.DEVICE_STATUS, str(device_id), status, headers)  # guard: receipts.dead_token
        if len(message.siblings) > 1 and receipt.status is Status.BOUNCED:  # guard: receipts.one_device_of_several
            # The notification bounced only if it reached none of the devices.
            if not failures.keys() >= set(message.siblings):
                return
            receipt = replace(receipt, reason=_overall_reason([failures[name] for name in message.siblings]))
        if receipt.status is not None:
            outcome = self._outcome(receipt, receipt.status, message)
            batch.produce(item, topics.OUTCOME, outcome.record_id, outcome, headers)
            count_recipients(outcome)

    def _delay(self, batch: Batch[Input], record: ReceiptReceived) -> None:
        now_ms, retried = self._clock.now_ms(), replace(record, tries=record.tries + 1)
        value = batch.codec.encode(topics.RECEIPT, "ReceiptReceived", retried.to_avro())
        item_id = envelope_id(record.record_id, value)
        due_ms = now_ms + round(self._retry_delays_s[record.tries] * 1000)
        self._delay_store.put(
            DelayedRecord(id=item_id, due_ms=due_ms, topic=topics.RECEIPT, value=value, delay_reason=UNRESOLVED), now_ms
        )

    def _outcome(self, receipt: Receipt, status: Status, message: SentMessage) -> NotificationOutcome:
        """Return the outcome record; its id is derived from message and status, so that repeated receipts count
        once."""
        position = message.position
        result = Result(status=status, reason=receipt.reason, count=1, layer="provider", rule=receipt.code or None)
        return NotificationOutcome(
            # guard: receipts.same_id
            record_id=derived_id(message.outcome_id, f"receipt.{status}", message.channel, position, position + 1),
            parent_id=message.outcome_id,
            step="receipt",
            send_id=message.send_id,
            chunk_index=message.chunk_index,
            range_start=position,
            range_end=position + 1,
            club_id=message.club_id,
            type=message.type,
            channel=message.channel,
            timestamp=self._at_ms(receipt),
            requested_at=message.requested_at,
            positions=[position],
            user_ids=[message.user_id],
            results=[result],
            result_index=[0],
            provider_message_ids=[[receipt.message_id]],
        )

    def _device_status(
        self, receipt: Receipt, endpoint_arn: str, message: SentMessage, device_id: int
    ) -> DeviceStatusChanged:
        return DeviceStatusChanged(
            record_id=derived_id(message.outcome_id, "device_status", "push", device_id, device_id + 1),
            device_id=device_id,
            user_id=message.user_id,
            club_id=message.club_id,
            platform="gcm" if "/GCM/" in endpoint_arn else "apns",
            endpoint_arn=endpoint_arn,
            status="inactive",
            reason=receipt.code,
            timestamp=self._at_ms(receipt),
            send_id=message.send_id,
        )

    def _at_ms(self, receipt: Receipt) -> int:
        """Return the receipt's time, at most now: the provider's clock may be ahead."""
        now_ms = self._clock.now_ms()
        return now_ms if receipt.at_ms is None else max(0, min(receipt.at_ms, now_ms))


def _overall_reason(reasons: Sequence[Reason]) -> Reason:
    """Return the reason of a notification of which no message arrived: a transient reason before a permanent one."""
    return next(reason for reason in _LEAST_FINAL_FIRST if reason in reasons)


def _suppression_reason(receipt: Receipt) -> Reason:
    """Return the reason of a suppression: a complaint about a delivered message, or a permanent bounce."""
    return Reason.COMPLAINED if receipt.status is Status.DELIVERED else Reason.BOUNCED_PERMANENT
