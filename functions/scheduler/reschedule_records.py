"""Reschedule records that an event source mapping gave up on: they are delayed and retried until they expire.

A rescheduled record keeps its ids: a chunk goes to recheck under the chunk's id, every other record unchanged to its
own topic. So its derived records have the ids of the failed attempts, and consumers recognise those already produced.
Nothing is produced to a topic of requests, where metrics would count it a second time. A record that was too large for
the on-failure topic is read from its own topic.

A record that alone crashes its function repeatedly is dead-lettered; a record whose function only times out may be good
and is retried until it has expired (docs/decisions/052).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum
from functools import cache, partial
from typing import Any

from masscomm.chain.batch import Batch, Item
from masscomm.chain.chunks import (
    SPLIT_ABOVE,
    after_send_at,
    checked,
    chunk_of,
    fault_of_send,
    lane_of_send,
    ranges,
    recheck_of,
    split_parts,
)
from masscomm.chain.outcome_emitter import OutcomeEmitter
from masscomm.clock import Clock
from masscomm.domain.ids import envelope_id
from masscomm.domain.lanes import Lane
from masscomm.domain.outcomes import DEAD_LETTERED, EXPIRED, RANGE_SIZE, SENT, RecipientOutcome, outcome
from masscomm.domain.preferences import Decision
from masscomm.domain.records import BuildRequested, DeliveryRequested, RecheckRequested, SendRequested
from masscomm.errors import DeadLetter
from masscomm.json_reader import read_json
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec
from masscomm.kafka.dead_letters import REPLAYED, SOURCE_OFFSET, SOURCE_PARTITION, SOURCE_TIMESTAMP, SOURCE_TOPIC
from masscomm.kafka.event import KafkaRecord, parse
from masscomm.kafka.source_records import SourceRecords
from masscomm.stores.delayed_records import DelayedRecord, DelayStore
from masscomm.stores.delivery_ledger import DeliveryLedger, final_results
from masscomm.stores.retry_schedule import RetrySchedule

DELAY_REASON = "on_failure"
# Headers: how often a record was rescheduled, and how often its last invocation had crashed.
RETURNED = "masscomm.returned"
CRASHED = "masscomm.crashed"

# The record may be the cause of the crashes. With the usual delays this takes some three hours.
MAX_CRASHES = 10
# A chain function's time limit (functions/functions.yaml).
TIMEOUT_S = 60.0
_NEVER_FINISHED = replace(EXPIRED, layer="function", rule="it ended in an error, once more after expires_at")

_POSITION = {SOURCE_TOPIC, SOURCE_PARTITION, SOURCE_OFFSET, SOURCE_TIMESTAMP}

type Request = RecheckRequested | BuildRequested | DeliveryRequested


class _LastInvocation(Enum):
    """How the last invocations of an on-failure record ended."""

    PARTIAL_FAILURE = "the function reported the record as failed: a dependency is down"
    TIME_OUT = "an error, which may be a time-out"
    CRASH = "an error, too early for a time-out"


@dataclass(frozen=True, kw_only=True)
class OnFailureRecord:
    """A record that an event source mapping gave up on.

    parents: its requests, in the parts that are rescheduled; lane: of the rescheduled records; not_before: its send_at;
    unchanged: topic and bytes of a record that is rescheduled as it is; returned, crashed: how often, this time
    included;
    unfinished_at: time of the record whose last invocation ended in an error (ms), None after a partial failure; fault:
    why its function would dead-letter it.
    """

    parents: Sequence[Request]
    lane: Lane
    not_before: int
    unchanged: tuple[str, bytes] | None
    headers: tuple[tuple[str, bytes], ...]
    returned: int
    crashed: int
    unfinished_at: int | None
    fault: DeadLetter | None = None

    @property
    def about(self) -> Request | None:
        """The request whose ids log lines carry."""
        return next(iter(self.parents), None)


@dataclass(frozen=True, kw_only=True)
class RescheduleRecords:
    """The use case; one for each function environment.

    max_crashes: reschedules after a crash, then the record is dead-lettered; timeout_s: time limit of a chain function.
    """

    store: DelayStore
    source: SourceRecords
    ledger: DeliveryLedger
    clock: Clock
    retry_schedule: RetrySchedule = field(default_factory=RetrySchedule)
    max_crashes: int = MAX_CRASHES
    timeout_s: float = TIMEOUT_S

    def decode(self, record: KafkaRecord, codec: Codec) -> OnFailureRecord:
        """A record in Lambda's on-failure form. Errors: DeadLetter, Retry."""
        failed, last_invocation = self._read_on_failure(record)
        # An operator replayed it: its counts start at zero.
        replayed = record.header(REPLAYED) is not None
        counts: dict[str, Any] = {
            "returned": 1 + (0 if replayed else _count(failed, RETURNED)),
            "crashed": int(last_invocation is _LastInvocation.CRASH) + (0 if replayed else _count(failed, CRASHED)),
        }
        unfinished_at = None if last_invocation is _LastInvocation.PARTIAL_FAILURE else failed.timestamp_ms
        if failed.topic not in _types():
            raise DeadLetter("invalid", f"records of {failed.topic} are not rescheduled")
        record_type = _types()[failed.topic]
        value = codec.decode(record_type.__name__, failed.value)
        if issubclass(record_type, SendRequested):
            send = record_type.from_avro(value)
            chunk, fault = chunk_of(send, failed), fault_of_send(send, failed, self.clock.now_ms())
            # It goes to another topic as another type of record: its original position does not apply there.
            headers = tuple(header for header in failed.headers if header[0] not in _POSITION)
            return OnFailureRecord(
                parents=_parts(chunk, send.send_at) if fault is None else [chunk],
                lane=lane_of_send(send, failed.topic),
                not_before=send.send_at or 0,
                unchanged=None,
                headers=headers,
                unfinished_at=unfinished_at,
                fault=fault,
                **counts,
            )
        return OnFailureRecord(
            parents=[
                recheck_of(value)
                if issubclass(record_type, RecheckRequested)
                else checked(record_type.from_avro(value))
            ],
            lane=topics.lane_of(failed.topic),
            not_before=0,
            unchanged=(failed.topic, failed.value or b""),
            headers=failed.headers,
            unfinished_at=unfinished_at,
            **counts,
        )

    def handle(self, batch: Batch[OnFailureRecord]) -> None:
        for item in batch.active():
            batch.attempt(item, partial(self._reschedule, batch, item))

    def dead_lettered(self, batch: Batch[OnFailureRecord], item: Item[OnFailureRecord], why: DeadLetter) -> None:  # noqa: ARG002
        """Emit failed outcomes for all recipients of a dead-lettered record."""
        self._emit_for_all(batch, item, DEAD_LETTERED)

    def _emit_for_all(self, batch: Batch[OnFailureRecord], item: Item[OnFailureRecord], decision: Decision) -> None:
        # The id that preference_checker gives the outcome, which may have dead-lettered the record before.
        step = "scheduler" if item.value.fault is None else "preference"
        emitter = OutcomeEmitter(step=step, clock=self.clock)
        for parent in item.value.parents:
            if isinstance(parent, DeliveryRequested):
                self._emit_for_all_of_delivery(batch, item, parent, decision)
                continue
            for channel in parent.channels if isinstance(parent, RecheckRequested) else [parent.channel]:
                for start, end, rows in ranges(parent, RANGE_SIZE):
                    outcomes = [RecipientOutcome(parent.positions[row], parent.user_ids[row], decision) for row in rows]
                    emitter.emit(batch, item, parent, channel, (start, end), outcomes)

    def _emit_for_all_of_delivery(
        self, batch: Batch[OnFailureRecord], item: Item[OnFailureRecord], parent: DeliveryRequested, decision: Decision
    ) -> None:
        """Emit sent for recipients published to before the failure, else the decision, under the id that delivery uses.

        Errors: Retry.
        """
        outcomes = []
        for _, entry in sorted(final_results(parent, self.ledger.results(parent.record_id), decision).items()):
            final = entry.decision
            if entry.retry_at_ms is not None:  # whether their delayed record was stored is unknown
                final = SENT if entry.message_ids else decision
            outcomes.append(RecipientOutcome(entry.position, entry.user_id, final, entry.message_ids))
        record = outcome(
            parent,
            outcomes,
            channel=parent.channel,
            step="delivery",
            start=parent.range_start,
            end=parent.range_end,
            now_ms=self.clock.now_ms(),
            directory=None,
        )
        batch.produce(item, topics.OUTCOME, record.record_id, record)

    def _read_on_failure(self, record: KafkaRecord) -> tuple[KafkaRecord, "_LastInvocation"]:
        """Return the failed record and how its last invocation ended.

        Source: AWS documentation, the record format of a Kafka on-failure destination. Errors: DeadLetter, Retry.
        """
        try:
            document = read_json(record.value or b"")
            response = document["responseContext"]
            failed = response is not None and response.get("functionError") is not None
            payload = document.get("payload")
            found = [] if payload is None else parse(payload)
            position = _position(document) if payload is None else None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DeadLetter("undecodable", f"no on-failure record: {error!r}"[:500]) from error
        if position is None and len(found) != 1:
            raise DeadLetter("undecodable", f"{len(found)} records are in it instead of one")
        source_record = found[0] if position is None else self._read_from_topic(*position)
        if not failed:
            return source_record, _LastInvocation.PARTIAL_FAILURE
        # guard: on_failure.time_out_is_no_crash
        return source_record, _LastInvocation.CRASH if self._crashed(
            document, source_record
        ) else _LastInvocation.TIME_OUT

    def _crashed(self, document: Mapping[str, Any], record: KafkaRecord) -> bool:
        """Return whether most invocations must have ended before the time limit, and so crashed.

        Lambda reports crashes and time-outs alike. But time-outs take time: if less has passed, they were crashes. A
        record that also waited in its topic counts as timed out; it waits less the next time.
        """
        try:
            invocations = int(document["requestContext"]["approximateInvokeCount"])
            failed_at_ms = datetime.fromisoformat(document["timestamp"]).timestamp() * 1000
        except (KeyError, TypeError, ValueError, OverflowError):
            return False
        return failed_at_ms - record.timestamp_ms < invocations * self.timeout_s * 1000 / 2

    def _read_from_topic(self, topic: str, partition: int, offset: int) -> KafkaRecord:
        """Read a record that was too large for the on-failure topic. Errors: DeadLetter (expired in its topic),
        Retry."""
        # guard: on_failure.record_is_read_again
        source_record = self.source.at(topic, partition, offset) if topic in _types() else None
        if source_record is None:
            raise DeadLetter(
                "too_large", f"the on-failure record has no payload, and {topic}-{partition}@{offset} is gone"
            )
        return source_record

    def _reschedule(self, batch: Batch[OnFailureRecord], item: Item[OnFailureRecord]) -> None:
        on_failure, now_ms = item.value, self.clock.now_ms()
        if on_failure.fault is not None:  # guard: on_failure.refused_send
            raise on_failure.fault
        if on_failure.crashed > self.max_crashes:  # guard: on_failure.max_crashes
            raise DeadLetter("crashes", f"its function crashed on each of {self.max_crashes} retries")
        ends = [self._deadline_ms(parent) for parent in on_failure.parents if parent.expires_at is None]
        if ends and min(ends) <= now_ms:
            self._emit_for_all(batch, item, EXPIRED)
            return
        # A working function emits expired itself.
        expires = [parent.expires_at for parent in on_failure.parents if parent.expires_at is not None]
        if expires and on_failure.unfinished_at is not None and max(expires) <= on_failure.unfinished_at:
            self._emit_for_all(batch, item, _NEVER_FINISHED)
            return
        for delayed in self._delayed_records(batch, on_failure, now_ms):
            self.store.put(delayed, now_ms)  # guard: on_failure.delayed_record

    def _deadline_ms(self, parent: Request) -> int:
        return self.retry_schedule.deadline_ms(since_ms=parent.since_ms, expires_at=parent.expires_at)

    def _delayed_records(
        self, batch: Batch[OnFailureRecord], on_failure: OnFailureRecord, now_ms: int
    ) -> Iterator[DelayedRecord]:
        counts = [(RETURNED, on_failure.returned), (CRASHED, on_failure.crashed)]
        headers = (
            *(header for header in on_failure.headers if header[0] not in (RETURNED, CRASHED)),
            *((name, str(count).encode()) for name, count in counts),
        )
        for parent in on_failure.parents:
            if on_failure.unchanged is not None:
                topic, value = on_failure.unchanged
            else:
                topic = topics.in_lane(topics.RECHECK, on_failure.lane)
                value = batch.codec.encode(topic, "RecheckRequested", parent.to_avro())
            item_id = envelope_id(parent.record_id, value, on_failure.returned)
            # The function that has the record when it expires emits the outcome.
            due_ms = self.retry_schedule.due_ms(
                now_ms=now_ms, attempt=on_failure.returned, item_id=item_id, deadline_ms=self._deadline_ms(parent)
            )
            due_ms = max(on_failure.not_before, due_ms)
            yield DelayedRecord(
                id=item_id, due_ms=due_ms, topic=topic, value=value, delay_reason=DELAY_REASON, headers=headers
            )


@cache
def _types() -> dict[str, type[SendRequested] | type[Request]]:
    """Return the record type of each topic whose records are rescheduled."""
    types: dict[str, type[SendRequested] | type[Request]] = {
        topics.SEND_MONOLITH: SendRequested,
        topics.SEND_API: SendRequested,
        topics.RECHECK: RecheckRequested,
        topics.BUILD: BuildRequested,
        topics.DELIVERY: DeliveryRequested,
    }
    return {topics.in_lane(name, lane): record_type for name, record_type in types.items() for lane in Lane}


def _parts(chunk: RecheckRequested, send_at: int | None) -> list[RecheckRequested]:
    """Return the parts that preference_checker would produce."""
    if send_at is not None:
        return after_send_at(chunk, send_at)
    return split_parts(chunk) if len(chunk.positions) > SPLIT_ABOVE else [chunk]


def _position(document: Mapping[str, Any]) -> tuple[str, int, int]:
    """Return (topic, partition, offset), also given without payload. Errors: ValueError, KeyError."""
    ((partition_name, info),) = document["KafkaBatchInfo"]["recordsInfo"].items()
    topic, _, number = partition_name.rpartition("-")
    partition, offset = int(number), int(info["firstRecordOffset"])
    if not (0 <= partition < 2**31 and 0 <= offset < 2**63):
        raise ValueError("no position of Kafka's")
    return topic, partition, offset


def _count(record: KafkaRecord, header: str) -> int:
    """Return the header's count; 0 where it is no number: any producer can set a header."""
    text = record.header(header) or b""
    return int(text) if text.isdigit() and len(text) < 10 else 0
