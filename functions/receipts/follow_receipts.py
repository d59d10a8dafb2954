"""Make outcomes of receipts: sent becomes delivered or bounced, and what is dead is left alone from then on.

Two topics: `outcome`, of which is remembered whose message ids they are, and `receipt`. A receipt can be here before
the outcome record that names its message; it waits, a few times.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from aws_lambda_powertools import Logger

from functions.receipts.messages import KEPT_MS, Message, Messages, Refusal, Told
from functions.receipts.reading import Receipt, read
from masscomm.chain.batch import Batch, Item, count
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

# How long a receipt waits for the outcome of its message, each time. Of a message that is unknown then we never hear:
# its outcome was lost to us (docs/decisions/031), or another application of the account sent it.
WAITS_S = (60, 300, 1_800)
UNRESOLVED = "unresolved"
_LEAST_FINAL_FIRST = (
    Reason.BOUNCED_TRANSIENT,
    Reason.PROVIDER_REJECTED,
    Reason.BOUNCED_PERMANENT,
    Reason.DEVICE_INACTIVE,
)
_CLEAN_EVERY_S = 3_600.0


@dataclass(frozen=True, kw_only=True)
class Heard:
    """A record of `receipt`, and what it says; None: nothing that matters."""

    record: ReceiptReceived
    receipt: Receipt | None

    @property
    def about(self) -> ReceiptReceived:
        """Whose ids log lines say."""
        return self.record


type Fact = NotificationOutcome | Heard


class FollowReceipts:
    """The use case; one for each function environment.

    waits_s: how long a receipt waits for its message, each time; periods: how long addresses are suppressed.
    """

    def __init__(
        self,
        *,
        messages: Messages,
        delay_store: DelayStore,
        clock: Clock,
        logger: Logger,
        waits_s: Sequence[float] = WAITS_S,
        periods: Periods | None = None,
    ) -> None:
        self._messages = messages
        self._delay_store = delay_store
        self._clock = clock
        self._logger = logger
        self._waits_s = waits_s
        self._periods = periods or Periods()
        self._cleaned_at: float | None = None

    def decode(self, record: KafkaRecord, codec: Codec) -> Fact:
        """A record of outcome or receipt. Errors: DeadLetter, Retry."""
        if record.topic == topics.OUTCOME:
            told = NotificationOutcome.from_avro(codec.decode("NotificationOutcome", record.value))
            columns = {len(told.positions), len(told.user_ids), len(told.provider_message_ids or told.positions)}
            if len(columns) != 1:
                raise DeadLetter("invalid", "an outcome whose columns differ in length")
            return told
        received = ReceiptReceived.from_avro(codec.decode("ReceiptReceived", record.value))
        if received.tries < 0:
            raise DeadLetter("invalid", f"a receipt that was tried {received.tries} times")
        return Heard(record=received, receipt=read(received.body))

    def dead_lettered(self, batch: Batch[Fact], item: Item[Fact], why: DeadLetter) -> None:
        """What could not be read names nobody: there is no outcome to tell."""

    def handle(self, batch: Batch[Fact]) -> None:
        self._remember(batch)
        heard = [(item, item.value.receipt) for item in batch.active() if isinstance(item.value, Heard)]
        receipts = [(item, receipt) for item, receipt in heard if receipt is not None and receipt.status is not None]
        if receipts:
            known = self._messages.find({receipt.message_id for _, receipt in receipts})
            self._suppress(receipts, known)  # guard: receipts.dead_address
            self._follow(batch, receipts, known)

    def _remember(self, batch: Batch[Fact]) -> None:
        """Whose the messages of delivery's records are; other steps' records name none, and receipts' are old news."""
        told = [
            (item, Told(item.value, traces.of_headers(item.record.headers)))
            for item in batch.active()
            if isinstance(item.value, NotificationOutcome)
            and item.value.step == "delivery"
            and any(item.value.provider_message_ids)
        ]
        if told:
            for (item, _), fate in zip(told, self._messages.remember([each for _, each in told]), strict=True):
                item.error = fate
            self._clean()

    def _clean(self) -> None:
        """Now and then; what does not work out now does so an hour later."""
        now = self._clock.monotonic()
        if self._cleaned_at is None or now - self._cleaned_at >= _CLEAN_EVERY_S:
            self._cleaned_at = now
            now_ms = self._clock.now_ms()
            self._messages.forget(told_before_ms=now_ms - KEPT_MS, now_ms=now_ms)

    def _suppress(self, receipts: Sequence[tuple[Item[Fact], Receipt]], known: Mapping[str, Message]) -> None:
        """Only addresses of the message's own recipient, for the club that sent it.

        A bounce is written by the recipient's mail server and may name any address; so may whatever else can invoke
        this function. A message that is not known yet waits, and its address with it.
        """
        named = [
            (item, receipt, known[receipt.message_id], address)
            for item, receipt in receipts
            if receipt.message_id in known
            for address in receipt.dead_addresses
        ]
        if not named:
            return
        emails = self._messages.addresses({message.user_id for _, _, message, _ in named})
        found = [
            (item, self._suppression(receipt, message, address))
            for item, receipt, message, address in named
            if message.channel == "email"
            and message.user_id in emails
            and address_id(emails[message.user_id]) == address_id(address)  # guard: receipts.own_address
        ]
        if len(found) < len(named):
            self._logger.warning("receipts name other addresses", addresses=len(named) - len(found))
        if found:
            for (item, _), fate in zip(found, self._messages.suppress([each for _, each in found]), strict=True):
                item.error = item.error or fate

    def _suppression(self, receipt: Receipt, message: Message, address: str) -> Suppression:
        reason, at_ms = _why(receipt), self._at_ms(receipt)
        return Suppression(
            club_id=message.club_id,
            address=address,
            reason=reason,
            at_ms=at_ms,
            expires_ms=self._periods.end_ms(reason, at_ms),
        )

    def _follow(
        self, batch: Batch[Fact], receipts: Sequence[tuple[Item[Fact], Receipt]], known: Mapping[str, Message]
    ) -> None:
        dead = {receipt.dead_endpoint for _, receipt in receipts if receipt.dead_endpoint is not None}
        devices = self._messages.devices(dead) if dead else {}
        refused = self._refused(receipts, known)
        unknown = 0
        for item, receipt in receipts:
            message = known.get(receipt.message_id)
            if message is not None:
                device = devices.get(receipt.dead_endpoint or "")
                batch.attempt(item, partial(self._tell, batch, item, receipt, message, device, refused))
            # guard: receipts.unknown_message
            elif isinstance(item.value, Heard) and item.value.record.tries < len(self._waits_s):
                batch.attempt(item, partial(self._wait, batch, item.value.record))
            else:
                unknown += 1
        if unknown:
            self._logger.warning("receipts of messages that nobody knows", receipts=unknown)

    def _refused(
        self, receipts: Sequence[tuple[Item[Fact], Receipt]], known: Mapping[str, Message]
    ) -> dict[str, Reason]:
        """Keep what did not arrive of notifications of several messages; all of these that did not, and why."""
        found = [
            (item, message, Refusal(message_id=receipt.message_id, reason=receipt.reason, at_ms=self._at_ms(receipt)))
            for item, receipt in receipts
            if receipt.reason is not None
            and (message := known.get(receipt.message_id)) is not None
            and len(message.siblings) > 1
        ]
        if not found:
            return {}
        for (item, _, _), fate in zip(found, self._messages.refuse([each for _, _, each in found]), strict=True):
            item.error = item.error or fate
        return self._messages.refused({name for _, message, _ in found for name in message.siblings})

    def _tell(
        self,
        batch: Batch[Fact],
        item: Item[Fact],
        receipt: Receipt,
        message: Message,
        device_id: int | None,
        refused: Mapping[str, Reason],
    ) -> None:
        # A receipt names no trace. Its message's record did; else the one that the send begins of itself.
        headers = (message.trace or traces.begun_by(message.send_id)).headers
        if receipt.dead_endpoint is not None and device_id is not None:
            status = self._device_status(receipt, receipt.dead_endpoint, message, device_id)
            batch.produce(item, topics.DEVICE_STATUS, str(device_id), status, headers)  # guard: receipts.dead_token
        if len(message.siblings) > 1 and receipt.status is Status.BOUNCED:  # guard: receipts.one_device_of_several
            # Of several devices one may well have it: what does not arrive at another bounces nothing.
            if not refused.keys() >= set(message.siblings):
                return
            receipt = replace(receipt, reason=_of_all([refused[name] for name in message.siblings]))
        if receipt.status is not None:
            outcome = self._outcome(receipt, receipt.status, message)
            batch.produce(item, topics.OUTCOME, outcome.record_id, outcome, headers)
            count(outcome)

    def _wait(self, batch: Batch[Fact], record: ReceiptReceived) -> None:
        now_ms, again = self._clock.now_ms(), replace(record, tries=record.tries + 1)
        value = batch.codec.encode(topics.RECEIPT, "ReceiptReceived", again.to_avro())
        item_id = envelope_id(record.record_id, value)
        due_ms = now_ms + round(self._waits_s[record.tries] * 1000)
        self._delay_store.put(
            DelayedRecord(id=item_id, due_ms=due_ms, topic=topics.RECEIPT, value=value, why=UNRESOLVED), now_ms
        )

    def _outcome(self, receipt: Receipt, status: Status, message: Message) -> NotificationOutcome:
        """The id follows from whose it is and what became of it: told twice, in whatever words, it is counted once."""
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
        self, receipt: Receipt, endpoint_arn: str, message: Message, device_id: int
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
        """When the provider said so: never in our future, whatever its clock says."""
        now_ms = self._clock.now_ms()
        return now_ms if receipt.at_ms is None else max(0, min(receipt.at_ms, now_ms))


def _of_all(reasons: Sequence[Reason]) -> Reason:
    """Why nothing of a notification arrived: what may be otherwise another time, before what will not."""
    return next(reason for reason in _LEAST_FINAL_FIRST if reason in reasons)


def _why(receipt: Receipt) -> Reason:
    """Why an address is left alone: it bounced for good, or its owner complained of what had arrived."""
    return Reason.COMPLAINED if receipt.status is Status.DELIVERED else Reason.BOUNCED_PERMANENT
