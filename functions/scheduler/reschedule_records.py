"""Reschedules records for which an event source mapping has used up its attempts: they are delayed, and retried
until they expire.

A rescheduled record keeps its id: a chunk of a send is produced to the topic recheck, every other record unchanged to
its own topic. So the records derived from it have the same ids as those of the failed attempts, and consumers recognise
the ones that were already produced. No record is produced to a topic of sends, where metrics would count it a second
time. A record that was too large for the on-failure topic is read from its own topic.

Functions produce a record with an unknown schema id to the topic on-failure, too (masscomm.kafka.on_failure), so that
it holds no partition. It waits once for `denied_retry_s`: the on-failure record itself is delayed, with the bytes,
headers and position of the record. A record whose schema is still unknown then is dead-lettered. Any other goes where
its function reads it: to recheck if it is a send, else to its own topic.

A record that crashes its function repeatedly, alone in its batch, is dead-lettered. A record whose function only times
out may be valid, and is retried until it has expired (docs/decisions/052).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from functools import cache, partial
from typing import Any

from masscomm.chain.batch import Batch, Item
from masscomm.chain.chunks import checked, chunk_of, fault_of_send, lane_of_send, recheck_of, send_at_of
from masscomm.chain.delayer import Delayer
from masscomm.chain.outcome_emitter import OutcomeEmitter
from masscomm.chain.pausing import since_resumed
from masscomm.clock import Clock
from masscomm.decisions.parts import SPLIT_ABOVE, after_send_at, ranges, split_parts
from masscomm.domain.delays import DELAY_REASON_HEADER, RetrySchedule
from masscomm.domain.lanes import Lane
from masscomm.domain.outcomes import DEAD_LETTERED, EXPIRED, RANGE_SIZE, SENT, RecipientOutcome
from masscomm.domain.preferences import Decision
from masscomm.domain.records import BuildRequested, DeliveryRequested, RecheckRequested, SendRequested
from masscomm.domain.time_limits import CHAIN_TIMEOUT_S, DENIED_SCHEMA_RETRY_S
from masscomm.errors import DeadLetter
from masscomm.integers import integer, integer_or
from masscomm.json_reader import read_json
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec, UnknownSchema
from masscomm.kafka.dead_letters import (
    REPLAYED,
    SOURCE_OFFSET,
    SOURCE_PARTITION,
    SOURCE_TIMESTAMP,
    SOURCE_TOPIC,
    ContainedDeadLetter,
)
from masscomm.kafka.event import KafkaRecord, parse
from masscomm.kafka.payloads import schemas
from masscomm.kafka.source_records import SourceRecords
from masscomm.observability.traces import Headers
from masscomm.stores.delayed_records.port import DelayStore, releasable
from masscomm.stores.delivery_ledger.port import DeliveryLedger, final_results
from masscomm.stores.sends.port import send_of

DELAY_REASON = "on_failure"
UNKNOWN_SCHEMA = "unknown_schema"
# Headers with two counts: how often the record was rescheduled, and how often its last invocation had crashed.
RETURNED = "masscomm.returned"
CRASHED = "masscomm.crashed"

# The number of crashes after which a record counts as their cause. With the usual delays, this is after some three
# hours.
MAX_CRASHES = 10
_NEVER_FINISHED = EXPIRED._replace(layer="function", rule="it ended in an error, once more after expires_at")

_POSITION = {SOURCE_TOPIC, SOURCE_PARTITION, SOURCE_OFFSET, SOURCE_TIMESTAMP}

type Request = RecheckRequested | BuildRequested | DeliveryRequested


class _LastInvocation(Enum):
    """How the last invocation with an on-failure record ended."""

    PARTIAL_FAILURE = "the function reported the record as failed: a dependency is down"
    TIME_OUT = "an error, which may be a time-out"
    CRASH = "an error, too early for a time-out"


@dataclass(frozen=True, kw_only=True)
class OnFailureRecord:
    """A record for which the event source mapping has used up its attempts.

    Attributes:
        parents: The requests in the record, as the parts that are rescheduled.
        lane: The lane of the rescheduled records.
        not_before: The send_at of the record.
        unchanged: The topic and the bytes of a record that is rescheduled as it is.
        returned: How often the record was rescheduled, this time included.
        crashed: How often its invocations crashed, this time included.
        unfinished_at: The record's timestamp (ms) if its last invocation ended in an error; None after a partial
            failure.
        fault: The error with which its function would dead-letter the record.
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
        """Return the record whose ids log lines contain."""
        return next(iter(self.parents), None)


@dataclass(frozen=True, kw_only=True)
class UnchangedRecord:
    """A record that is released as it is: an on-failure record that waits for the schema of the record in it, or a
    record without recipients whose schema is known by now.
    """

    topic: str
    value: bytes
    headers: Headers
    due_ms: int


@dataclass(frozen=True, kw_only=True)
class RescheduleRecords:
    """The use case that reschedules records. Each function environment has one instance.

    Args:
        max_crashes: The number of crashes after which a record is dead-lettered.
        timeout_s: The time limit of the Kafka-triggered functions in seconds.
        denied_retry_s: How long a record waits whose schema id the registry does not know.
    """

    store: DelayStore
    source: SourceRecords
    ledger: DeliveryLedger
    clock: Clock
    retry_schedule: RetrySchedule = field(default_factory=RetrySchedule)
    max_crashes: int = MAX_CRASHES
    timeout_s: float = CHAIN_TIMEOUT_S
    denied_retry_s: float = DENIED_SCHEMA_RETRY_S

    def decode(self, record: KafkaRecord, codec: Codec) -> OnFailureRecord | UnchangedRecord:
        """Return the failed record in a record of Lambda's on-failure format. Raises DeadLetter or Retry."""
        failed, last_invocation = self._read_on_failure(record)
        try:
            return self._decode(failed, record, last_invocation, codec)
        except UnknownSchema as error:
            has_waited = record.header(DELAY_REASON_HEADER) == UNKNOWN_SCHEMA.encode()
            if has_waited:  # guard: on_failure.denied_id_expires
                raise ContainedDeadLetter(failed, error.reason, str(error)) from error
            due_ms = record.timestamp_ms + round(self.denied_retry_s * 1000)
            return UnchangedRecord(topic=record.topic, value=record.value or b"", headers=record.headers, due_ms=due_ms)

    def _decode(
        self, failed: KafkaRecord, record: KafkaRecord, last_invocation: "_LastInvocation", codec: Codec
    ) -> OnFailureRecord | UnchangedRecord:
        if failed.topic in _other_schemas():
            codec.decode(_other_schemas()[failed.topic], failed.value)
            return UnchangedRecord(
                topic=failed.topic, value=failed.value or b"", headers=failed.headers, due_ms=record.timestamp_ms
            )
        # An operator replayed the record, so its counts start again at zero.
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
            # The header with the original position is removed, because the record is produced to another topic as
            # another type of record.
            headers = tuple(header for header in failed.headers if header[0] not in _POSITION)
            return OnFailureRecord(
                parents=_parts(chunk, send_at_of(send)) if fault is None else [chunk],
                lane=lane_of_send(send, failed.topic),
                not_before=send_at_of(send) or 0,
                unchanged=None,
                headers=headers,
                unfinished_at=unfinished_at,
                fault=fault,
                **counts,
            )
        return OnFailureRecord(
            parents=[
                since_resumed(
                    recheck_of(value)
                    if issubclass(record_type, RecheckRequested)
                    else checked(record_type.from_avro(value)),
                    failed,
                )
            ],
            lane=topics.lane_of(failed.topic),
            not_before=0,
            unchanged=(failed.topic, failed.value or b""),
            headers=failed.headers,
            unfinished_at=unfinished_at,
            **counts,
        )

    def handle(self, batch: Batch[OnFailureRecord | UnchangedRecord]) -> None:
        for item in batch.active():
            if isinstance(item.value, UnchangedRecord):
                batch.attempt(item, partial(self._delay_unchanged, item, item.value))
            else:
                batch.attempt(item, partial(self._reschedule, batch, item, item.value))

    def dead_lettered(
        self,
        batch: Batch[OnFailureRecord | UnchangedRecord],
        item: Item[OnFailureRecord | UnchangedRecord],
        why: DeadLetter,  # noqa: ARG002
    ) -> None:
        """Produce outcome records with the status failed for all recipients of a dead-lettered record."""
        if isinstance(item.value, OnFailureRecord):
            self._emit_for_all(batch, item, item.value, DEAD_LETTERED)

    def _emit_for_all[T](self, batch: Batch[T], item: Item[T], on_failure: OnFailureRecord, decision: Decision) -> None:
        # With the step name "preference", the outcome has the same id as if preference_checker had dead-lettered the
        # record, which it may have done before.
        step = "scheduler" if on_failure.fault is None else "preference"
        emitter = OutcomeEmitter(step=step, clock=self.clock)
        for parent in on_failure.parents:
            if isinstance(parent, DeliveryRequested):
                self._emit_for_all_of_delivery(batch, item, parent, decision)
                continue
            for channel in parent.channels if isinstance(parent, RecheckRequested) else [parent.channel]:
                for start, end, rows in ranges(parent, RANGE_SIZE):
                    outcomes = [RecipientOutcome(parent.positions[row], parent.user_ids[row], decision) for row in rows]
                    emitter.emit(batch, item, parent, channel, (start, end), outcomes)

    def _emit_for_all_of_delivery[T](
        self, batch: Batch[T], item: Item[T], parent: DeliveryRequested, decision: Decision
    ) -> None:
        """Produce the outcome record with the id that delivery uses: sent for recipients that were published to
        before the failure, the given decision for the others.

        Raises Retry.
        """
        outcomes = []
        for _, entry in sorted(final_results(parent, self.ledger.results(parent.record_id), decision).items()):
            final = entry.decision
            if entry.retry_at_ms is not None:  # It is unknown whether the retry record of this recipient was stored.
                final = SENT if entry.message_ids else decision
            outcomes.append(RecipientOutcome(entry.position, entry.user_id, final, entry.message_ids))
        emitter = OutcomeEmitter(step="delivery", clock=self.clock)
        emitter.emit(batch, item, parent, parent.channel, (parent.range_start, parent.range_end), outcomes)

    def _read_on_failure(self, record: KafkaRecord) -> tuple[KafkaRecord, "_LastInvocation"]:
        """Return the failed record and how its last invocation ended.

        Source: AWS documentation, the record format of a Kafka on-failure destination. Raises DeadLetter or Retry.
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
        """Return whether most invocations must have crashed, because they ended long before the time limit.

        Lambda reports crashes and time-outs in the same way, but a time-out needs the whole time limit. If the record
        also waited in its topic, a crash may be taken for a time-out; after the next delay the wait is shorter.
        """
        try:
            invocations = int(document["requestContext"]["approximateInvokeCount"])
            failed_at_ms = datetime.fromisoformat(document["timestamp"]).timestamp() * 1000
        except (KeyError, TypeError, ValueError, OverflowError):
            return False
        return failed_at_ms - record.timestamp_ms < invocations * self.timeout_s * 1000 / 2

    def _read_from_topic(self, topic: str, partition: int, offset: int) -> KafkaRecord:
        """Read a record that was too large for the on-failure topic from its own topic. Raises DeadLetter if that topic
        has deleted it, or Retry.
        """
        # guard: on_failure.record_is_read_again
        source_record = self.source.at(topic, partition, offset) if topic in _types() else None
        if source_record is None:
            raise DeadLetter(
                "too_large", f"the on-failure record has no payload, and {topic}-{partition}@{offset} is gone"
            )
        return source_record

    def _delay_unchanged[T](self, item: Item[T], record: UnchangedRecord) -> None:
        Delayer(store=self.store, clock=self.clock).delay_value(
            record.topic,
            item.record.source_position,
            record.value,
            lambda _: record.due_ms,
            delay_reason=UNKNOWN_SCHEMA,
            send=None,
            headers=record.headers,
        )

    def _reschedule[T](self, batch: Batch[T], item: Item[T], on_failure: OnFailureRecord) -> None:
        now_ms = self.clock.now_ms()
        if on_failure.fault is not None:  # guard: on_failure.refused_send
            raise on_failure.fault
        if on_failure.crashed > self.max_crashes:  # guard: on_failure.max_crashes
            raise DeadLetter("crashes", f"its function crashed on each of {self.max_crashes} retries")
        ends = [self._deadline_ms(parent) for parent in on_failure.parents if parent.expires_at is None]
        if ends and min(ends) <= now_ms:
            self._emit_for_all(batch, item, on_failure, EXPIRED)
            return
        # A working function itself produces the status expired. Here, the last invocation failed after the record had
        # expired.
        expires = [parent.expires_at for parent in on_failure.parents if parent.expires_at is not None]
        if expires and on_failure.unfinished_at is not None and max(expires) <= on_failure.unfinished_at:
            self._emit_for_all(batch, item, on_failure, _NEVER_FINISHED)
            return
        delayer, headers = Delayer(store=self.store, clock=self.clock), _headers(on_failure)
        for parent in on_failure.parents:
            topic, value = self._released(batch.codec, on_failure, parent)
            delayer.delay_value(  # guard: on_failure.delayed_record
                topic,
                parent.record_id,
                value,
                partial(self._due_ms, on_failure, parent, now_ms),
                delay_reason=DELAY_REASON,
                send=send_of(parent),
                attempt=on_failure.returned,
                headers=headers,
            )

    def _deadline_ms(self, parent: Request) -> int:
        return self.retry_schedule.deadline_ms(since_ms=parent.since_ms, expires_at=parent.expires_at)

    def _due_ms(self, on_failure: OnFailureRecord, parent: Request, now_ms: int, item_id: str) -> int:
        """Return the time of the next attempt. The function that processes the record after it expires produces its
        outcome.
        """
        due_ms = self.retry_schedule.due_ms(
            now_ms=now_ms, attempt=on_failure.returned, item_id=item_id, deadline_ms=self._deadline_ms(parent)
        )
        return max(on_failure.not_before, due_ms)

    @staticmethod
    def _released(codec: Codec, on_failure: OnFailureRecord, parent: Request) -> tuple[str, bytes]:
        """Return the topic and the bytes of the rescheduled record."""
        if on_failure.unchanged is not None:
            return on_failure.unchanged
        topic = topics.in_lane(topics.RECHECK, on_failure.lane)
        return topic, codec.encode(topic, "RecheckRequested", parent.to_avro())


@cache
def _types() -> dict[str, type[SendRequested] | type[Request]]:
    """Return, for each topic whose records are rescheduled, the type of its records."""
    types: dict[str, type[SendRequested] | type[Request]] = {
        topics.SEND_MONOLITH: SendRequested,
        topics.SEND_API: SendRequested,
        topics.RECHECK: RecheckRequested,
        topics.BUILD: BuildRequested,
        topics.DELIVERY: DeliveryRequested,
    }
    return {topics.in_lane(name, lane): record_type for name, record_type in types.items() for lane in Lane}


@cache
def _other_schemas() -> dict[str, str]:
    """Return, for each other topic to which records are released, the schema of its records: they have no recipients,
    and their mappings never give up.
    """
    return {topic: schema for topic, schema in schemas().items() if topic in releasable() - _types().keys()}


def _headers(on_failure: OnFailureRecord) -> Headers:
    """Return the headers of the record with its current counts."""
    counts = [(RETURNED, on_failure.returned), (CRASHED, on_failure.crashed)]
    return (
        *(header for header in on_failure.headers if header[0] not in (RETURNED, CRASHED)),
        *((name, str(count).encode()) for name, count in counts),
    )


def _parts(chunk: RecheckRequested, send_at: int | None) -> list[RecheckRequested]:
    """Return the parts of a chunk of a send that preference_checker would produce."""
    if send_at is not None:
        return after_send_at(chunk, send_at)
    return split_parts(chunk) if len(chunk.positions) > SPLIT_ABOVE else [chunk]


def _position(document: Mapping[str, Any]) -> tuple[str, int, int]:
    """Return (topic, partition, offset) of the record; an on-failure record has them even without a payload. Raises
    ValueError or KeyError.
    """
    ((partition_name, info),) = document["KafkaBatchInfo"]["recordsInfo"].items()
    topic, _, number = partition_name.rpartition("-")
    return topic, integer(number, 0, 2**31 - 1), integer(str(info["firstRecordOffset"]), 0)


def _count(record: KafkaRecord, header: str) -> int:
    """Return the count in a header; 0 if it is not a number, because any producer can set a header."""
    return integer_or(record.header(header), 0, 0, 10**9)
