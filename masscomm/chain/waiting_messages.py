"""Puts messages with events for one endpoint into the delay store, from which they reach the topic `webhook.slow`."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from masscomm.chain.bundled_records import bundled_record
from masscomm.clock import Clock
from masscomm.domain.ids import event_message_id, webhook_part_id
from masscomm.domain.records import EventOccurred, WebhookRequested
from masscomm.domain.webhooks import EndpointKey, bucket_of
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec
from masscomm.stores.delayed_records.port import DelayedRecord, DelayStore

# The limits of a record. The item of the delay store has at most 400 kB.
MAX_MESSAGES, MAX_RECORD_BYTES = 500, 300_000
# The most bytes of an event in a record, its data excluded.
EVENT_BYTES = 700


class WaitingMessage(NamedTuple):
    """An event for the endpoint."""

    event: EventOccurred
    # The time of the event's record in Kafka, in milliseconds since the epoch.
    produced_at_ms: int

    @property
    def record_bytes(self) -> int:
        """Return the bytes of the event in a record, at most."""
        return EVENT_BYTES + len(self.event.data.encode())


def records_of[T](messages: Iterable[T], waiting_of: Callable[[T], WaitingMessage]) -> Iterator[list[T]]:
    """Yield the messages of each record: at most MAX_MESSAGES and MAX_RECORD_BYTES, unless one message is larger."""
    some: list[T] = []
    size = 0
    for message in messages:
        added = waiting_of(message).record_bytes
        # guard: events.size_of_waiting_record
        if some and (len(some) == MAX_MESSAGES or size + added > MAX_RECORD_BYTES):
            yield some
            some, size = [], 0
        some.append(message)
        size += added
    if some:
        yield some


@dataclass(frozen=True, kw_only=True)
class WaitingMessages:
    store: DelayStore
    codec: Codec
    clock: Clock

    def put(
        self,
        endpoint: EndpointKey,
        messages: Sequence[WaitingMessage],
        *,
        attempt: int,
        due_ms: int,
        first_tried_at: int,
    ) -> None:
        """Store the record of messages. Arguments are those of `record`. Raises Retry or Stop."""
        record = self.record(endpoint, messages, attempt=attempt, due_ms=due_ms, first_tried_at=first_tried_at)
        self.store.put(record, self.clock.now_ms())

    def record(
        self,
        endpoint: EndpointKey,
        messages: Sequence[WaitingMessage],
        *,
        attempt: int,
        due_ms: int,
        first_tried_at: int,
    ) -> DelayedRecord:
        """Return a record with messages, at most MAX_MESSAGES and MAX_RECORD_BYTES.

        The record's id is derived from its messages: a batch that is processed again stores the same record.

        Args:
            endpoint: The endpoint of all messages.
            messages: The messages.
            attempt: The number of attempts that have been made.
            due_ms: The time of the next attempt, in milliseconds since the epoch.
            first_tried_at: The time since which the messages are attempted or wait.
        """
        names = [
            f"{endpoint.id}/{event_message_id(each.event.club_id, each.event.event_id, endpoint.id)}"
            for each in messages
        ]
        record = WebhookRequested(
            record_id=webhook_part_id("waiting", attempt, names),
            bucket=bucket_of(endpoint.id),
            partition=0,
            range_start=0,
            range_end=len(messages),
            timestamp=self.clock.now_ms(),
            events=[each.event for each in messages],
            offsets=list(range(len(messages))),
            produced_at=[each.produced_at_ms for each in messages],
            endpoints=[endpoint.id],
            event_index=list(range(len(messages))),
            endpoint_index=[0] * len(messages),
            attempt=attempt,
            first_tried_at=first_tried_at,
        )
        return bundled_record(
            self.codec,
            topics.WEBHOOK_SLOW,
            record,
            id_=record.record_id,
            due_ms=due_ms,
            delay_reason="webhook",
            # The endpoint's messages are in one partition: its limits concern one batch at a time.
            record_key=str(record.bucket),
        )
