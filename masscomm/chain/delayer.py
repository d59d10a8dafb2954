"""Puts records into the delay store (a DynamoDB table); the scheduler releases each one later under its own id."""

from collections.abc import Callable
from dataclasses import dataclass
from uuid import uuid4

from masscomm.clock import Clock
from masscomm.domain.delays import PAUSED
from masscomm.domain.email_pauses import is_pause
from masscomm.domain.ids import envelope_id
from masscomm.domain.records import BuildRequested, DeliveryRequested, ReceiptReceived, RecheckRequested
from masscomm.domain.sends import SendControl, SendKey
from masscomm.errors import MasscommError
from masscomm.kafka.avro import Codec
from masscomm.kafka.producer import Report
from masscomm.observability.traces import Headers
from masscomm.stores.delayed_records.port import DelayedRecord, DelayStore, StoreKey, key_of
from masscomm.stores.sends.port import send_of


@dataclass(frozen=True, kw_only=True)
class Delayer:
    """Delays records for one function.

    The id of a delayed record is derived from the released value, so that a redelivery delays the same record.
    """

    store: DelayStore
    clock: Clock

    def delay(
        self,
        codec: Codec,
        topic: str,
        record: RecheckRequested | BuildRequested | DeliveryRequested | ReceiptReceived,
        due_ms: int,
        *,
        delay_reason: str,
        attempt: int = 0,
        headers: Headers = (),
        item_id: str | None = None,
        send: SendKey | None = None,
    ) -> StoreKey:
        """Store a record until due_ms (ms since the epoch). `send` has the control that releases it earlier; None: its
        send. Return its key in the store. Raises Retry or Stop.
        """
        value = codec.encode(topic, type(record).__name__, record.to_avro())
        return self.delay_value(
            topic,
            record.record_id,
            value,
            lambda _: due_ms,
            delay_reason=delay_reason,
            send=send or (None if isinstance(record, ReceiptReceived) else send_of(record)),
            attempt=attempt,
            headers=headers,
            item_id=item_id,
        )

    def hold(
        self,
        codec: Codec,
        topic: str,
        record: RecheckRequested | DeliveryRequested,
        control: SendControl,
        headers: Headers,
    ) -> None:
        """Store a record until its control is resumed or cancelled, or the record or the pause expires: the control of
        its send, or that of the e-mails of its club.

        Each pause stores a copy of its own: the scheduler deletes the copy of an earlier pause after releasing it.
        Raises Retry or Stop.
        """
        self.delay(
            codec,
            topic,
            record,
            control.held_until_ms(record.expires_at, self.clock.now_ms()),
            delay_reason=PAUSED,
            # A pause of the send and one of the e-mails of its club have copies of their own, too.
            # guard: send_controls.copy_of_a_pause
            attempt=-control.revision if is_pause(control.send) else control.revision,
            headers=headers,
            send=control.send,  # guard: email_pauses.released
        )

    def delay_value(
        self,
        topic: str,
        record_id: str,
        value: bytes,
        due_ms_of: Callable[[str], int],
        *,
        delay_reason: str,
        send: SendKey | None,
        attempt: int = 0,
        headers: Headers = (),
        item_id: str | None = None,
    ) -> StoreKey:
        """Store an encoded record until the time that due_ms_of returns. Return its key in the store. Raises Retry or
        Stop.

        Args:
            topic: The topic to which the record is produced when it is released.
            record_id: The id of the record in `value`.
            value: The encoded record as it is produced later.
            due_ms_of: Returns the time of the release (ms since the epoch) for the id of the delayed record.
            delay_reason: The reason of the delay, such as quiet hours.
            send: The send of the record, if it belongs to one.
            attempt: The number of the delay, if the same value is delayed repeatedly.
            headers: The headers of the record when it is released.
            item_id: The id in the store; None: it is derived from the value.
        """
        item_id = item_id or envelope_id(record_id, value, attempt)
        now_ms = self.clock.now_ms()
        item = DelayedRecord(
            id=item_id,
            due_ms=max(due_ms_of(item_id), now_ms),
            topic=topic,
            value=value,
            delay_reason=delay_reason,
            headers=tuple(headers),
            send=send,
        )
        self.store.put(item, now_ms)
        return key_of(item)


@dataclass(frozen=True, kw_only=True)
class DelayedProducer:
    """The producer of a function that reaches no broker: the scheduler produces its records a moment later."""

    store: DelayStore
    clock: Clock

    def produce(self, topic: str, key: bytes | None, value: bytes | None, headers: Headers, report: Report) -> None:  # noqa: ARG002
        """Implement Producer.produce. The record's key is its id in the store."""
        now_ms = self.clock.now_ms()
        try:
            Delayer(store=self.store, clock=self.clock).delay_value(
                topic,
                str(uuid4()),
                value or b"",
                lambda _: now_ms,
                delay_reason="on_failure",
                send=None,
                headers=headers,
            )
        except MasscommError as error:
            report(error)
        else:
            report(None)

    def flush(self, timeout_s: float) -> None:
        """Implement Producer.flush: the records are stored."""
