"""Take back what an event source mapping gave up on: it waits, and goes on its way again until it has expired.

What comes back keeps the ids it had: a chunk goes to recheck under the chunk's own id, everything else to its own topic
as it was. So all that is derived from it has the ids of the attempts that failed, and what one of those had already
passed on is recognised. On a topic of requests nothing is written, where it would be counted again. A record that was
too large for the on-failure topic is read again from its own.

A record that ends its function again and again, alone, is put aside; one whose function only takes too long may be
good, and is tried until it has expired (docs/decisions/052).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum
from functools import cache, partial
from typing import Any

from masscomm.chain.batch import Batch, Item, count_recipients
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
from masscomm.stores.back_off import BackOff
from masscomm.stores.delayed_records import DelayedRecord, DelayStore
from masscomm.stores.delivery_ledger import DeliveryLedger, final_results

DELAY_REASON = "on_failure"
# How often a record has come back, and how often of those its last invocation had ended in an error.
RETURNED = "masscomm.returned"
CRASHED = "masscomm.crashed"

# A function that crashes may do so because of the record. With the usual waits this is some three hours.
MAX_CRASHES = 10
# A chain function's time limit (functions/functions.yaml).
TIMEOUT_S = 60.0
_NEVER_FINISHED = replace(EXPIRED, layer="function", rule="it ended in an error, once more after expires_at")

_POSITION = {SOURCE_TOPIC, SOURCE_PARTITION, SOURCE_OFFSET, SOURCE_TIMESTAMP}

type Asked = RecheckRequested | BuildRequested | DeliveryRequested


class _Last(Enum):
    """How the invocations ended after which a record was given up on."""

    ANSWER = "the function named it among those that failed: something it needs is down"
    TIME_OUT = "an error, which may be that it took too long"
    CRASH = "an error, too soon for that"


@dataclass(frozen=True, kw_only=True)
class GivenUp:
    """A record that a mapping gave up on.

    parents: what was asked for in it, in the parts it comes back in; lane: they come back in; not_before: its send_at;
    as_is: its topic and bytes where it comes back as it was; returned, crashed: how often, this time included;
    unfinished_at: when it was last given to a function that ended in an error over it (ms), None where it answered;
    bad: why its function would put it aside.
    """

    parents: Sequence[Asked]
    lane: Lane
    not_before: int
    as_is: tuple[str, bytes] | None
    headers: tuple[tuple[str, bytes], ...]
    returned: int
    crashed: int
    unfinished_at: int | None
    bad: DeadLetter | None = None

    @property
    def about(self) -> Asked | None:
        """Whose ids log lines say."""
        return next(iter(self.parents), None)


@dataclass(frozen=True, kw_only=True)
class TakeBack:
    """The use case; one for each function environment.

    max_crashes: returns after a crash, then it is a dead letter; timeout_s: how long a function of the chain may take.
    """

    store: DelayStore
    source: SourceRecords
    ledger: DeliveryLedger
    clock: Clock
    back_off: BackOff = field(default_factory=BackOff)
    max_crashes: int = MAX_CRASHES
    timeout_s: float = TIMEOUT_S

    def decode(self, record: KafkaRecord, codec: Codec) -> GivenUp:
        """A record in Lambda's on-failure form. Errors: DeadLetter, Retry."""
        failed, last = self._failed(record)
        # Somebody has looked at it since: it has all its returns again.
        afresh = record.header(REPLAYED) is not None
        counts: dict[str, Any] = {
            "returned": 1 + (0 if afresh else _count(failed, RETURNED)),
            "crashed": int(last is _Last.CRASH) + (0 if afresh else _count(failed, CRASHED)),
        }
        unfinished_at = None if last is _Last.ANSWER else failed.timestamp_ms
        if failed.topic not in _kinds():
            raise DeadLetter("invalid", f"nothing of {failed.topic} comes back")
        kind = _kinds()[failed.topic]
        value = codec.decode(kind.__name__, failed.value)
        if issubclass(kind, SendRequested):
            send = kind.from_avro(value)
            chunk, bad = chunk_of(send, failed), fault_of_send(send, failed, self.clock.now_ms())
            # It goes to another topic and as another kind of record: its first position is no longer where it belongs.
            headers = tuple(each for each in failed.headers if each[0] not in _POSITION)
            return GivenUp(
                parents=_parts(chunk, send.send_at) if bad is None else [chunk],
                lane=lane_of_send(send, failed.topic),
                not_before=send.send_at or 0,
                as_is=None,
                headers=headers,
                unfinished_at=unfinished_at,
                bad=bad,
                **counts,
            )
        return GivenUp(
            parents=[recheck_of(value) if issubclass(kind, RecheckRequested) else checked(kind.from_avro(value))],
            lane=topics.lane_of(failed.topic),
            not_before=0,
            as_is=(failed.topic, failed.value or b""),
            headers=failed.headers,
            unfinished_at=unfinished_at,
            **counts,
        )

    def handle(self, batch: Batch[GivenUp]) -> None:
        for item in batch.active():
            batch.attempt(item, partial(self._wait, batch, item))

    def dead_lettered(self, batch: Batch[GivenUp], item: Item[GivenUp], why: DeadLetter) -> None:  # noqa: ARG002
        """Its recipients failed: what is not taken back any more is not to vanish."""
        self._emit_for_all(batch, item, DEAD_LETTERED)

    def _emit_for_all(self, batch: Batch[GivenUp], item: Item[GivenUp], decision: Decision) -> None:
        for parent in item.value.parents:
            if isinstance(parent, DeliveryRequested):
                self._emit_for_all_of_delivery(batch, item, parent, decision)
                continue
            for channel in parent.channels if isinstance(parent, RecheckRequested) else [parent.channel]:
                for start, end, rows in ranges(parent, RANGE_SIZE):
                    outcomes = [RecipientOutcome(parent.positions[row], parent.user_ids[row], decision) for row in rows]
                    record = outcome(
                        parent,
                        outcomes,
                        channel=channel,
                        # With the id that preference_checker gives it, which may have put the record aside before.
                        step="scheduler" if item.value.bad is None else "preference",
                        start=start,
                        end=end,
                        now_ms=self.clock.now_ms(),
                        directory=None,
                    )
                    batch.produce(item, topics.OUTCOME, record.record_id, record)
                    count_recipients(record)

    def _emit_for_all_of_delivery(
        self, batch: Batch[GivenUp], item: Item[GivenUp], parent: DeliveryRequested, decision: Decision
    ) -> None:
        """Whoever was sent to before it went wrong was sent to. The record has the id that delivery would give it.

        Errors: Retry.
        """
        outcomes = []
        for _, entry in sorted(final_results(parent, self.ledger.results(parent.record_id), decision).items()):
            last = entry.decision
            if entry.retry_at_ms is not None:  # whether the record they wait in was written nobody knows
                last = SENT if entry.message_ids else decision
            outcomes.append(RecipientOutcome(entry.position, entry.user_id, last, entry.message_ids))
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

    def _failed(self, record: KafkaRecord) -> tuple[KafkaRecord, "_Last"]:
        """The record given up on, and how its invocations ended.

        Source: AWS documentation, the record format of a Kafka on-failure destination. Errors: DeadLetter, Retry.
        """
        try:
            document = read_json(record.value or b"")
            answer = document["responseContext"]
            failed = answer is not None and answer.get("functionError") is not None
            payload = document.get("payload")
            found = [] if payload is None else parse(payload)
            position = _position(document) if payload is None else None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DeadLetter("undecodable", f"no on-failure record: {error!r}"[:500]) from error
        if position is None and len(found) != 1:
            raise DeadLetter("undecodable", f"{len(found)} records are in it instead of one")
        there = found[0] if position is None else self._read_again(*position)
        if not failed:
            return there, _Last.ANSWER
        # guard: on_failure.time_out_is_no_crash
        return there, _Last.CRASH if self._too_soon_for_time_outs(document, there) else _Last.TIME_OUT

    def _too_soon_for_time_outs(self, document: Mapping[str, Any], record: KafkaRecord) -> bool:
        """Whether most of its invocations must have ended before the time limit: they crashed.

        Lambda says of both that the function ended in an error. But so many time-outs take so much time; a record that
        waited for its turn as well is given the benefit of the doubt, and has waited less the next time.
        """
        try:
            invocations = int(document["requestContext"]["approximateInvokeCount"])
            given_up_ms = datetime.fromisoformat(document["timestamp"]).timestamp() * 1000
        except (KeyError, TypeError, ValueError, OverflowError):
            return False
        return given_up_ms - record.timestamp_ms < invocations * self.timeout_s * 1000 / 2

    def _read_again(self, topic: str, partition: int, offset: int) -> KafkaRecord:
        """A record that was too large to be handed over. Errors: DeadLetter where it is not kept any more, Retry."""
        # guard: on_failure.record_is_read_again
        there = self.source.at(topic, partition, offset) if topic in _kinds() else None
        if there is None:
            raise DeadLetter(
                "too_large", f"it was handed over without its record, and {topic}-{partition}@{offset} is gone"
            )
        return there

    def _wait(self, batch: Batch[GivenUp], item: Item[GivenUp]) -> None:
        given_up, now_ms = item.value, self.clock.now_ms()
        if given_up.bad is not None:  # guard: on_failure.refused_send
            raise given_up.bad
        if given_up.crashed > self.max_crashes:  # guard: on_failure.max_crashes
            raise DeadLetter("crashes", f"its function crashed when it came back, {self.max_crashes} times")
        ends = [self._ends_ms(parent) for parent in given_up.parents if parent.expires_at is None]
        if ends and min(ends) <= now_ms:
            self._emit_for_all(batch, item, EXPIRED)
            return
        # The function says that it has expired, if it can.
        expires = [parent.expires_at for parent in given_up.parents if parent.expires_at is not None]
        if expires and given_up.unfinished_at is not None and max(expires) <= given_up.unfinished_at:
            self._emit_for_all(batch, item, _NEVER_FINISHED)
            return
        for held in self._held(batch, given_up, now_ms):
            self.store.put(held, now_ms)  # guard: on_failure.delayed_record

    def _ends_ms(self, parent: Asked) -> int:
        return self.back_off.ends_ms(since_ms=parent.since_ms, expires_at=parent.expires_at)

    def _held(self, batch: Batch[GivenUp], given_up: GivenUp, now_ms: int) -> Iterator[DelayedRecord]:
        counts = [(RETURNED, given_up.returned), (CRASHED, given_up.crashed)]
        headers = (
            *(each for each in given_up.headers if each[0] not in (RETURNED, CRASHED)),
            *((name, str(count).encode()) for name, count in counts),
        )
        for parent in given_up.parents:
            if given_up.as_is is not None:
                topic, value = given_up.as_is
            else:
                topic = topics.in_lane(topics.RECHECK, given_up.lane)
                value = batch.codec.encode(topic, "RecheckRequested", parent.to_avro())
            item_id = envelope_id(parent.record_id, value, given_up.returned)
            # Whoever has it when it expires says that it has.
            due_ms = self.back_off.due_ms(
                now_ms=now_ms, n=given_up.returned, item_id=item_id, ends_ms=self._ends_ms(parent)
            )
            due_ms = max(given_up.not_before, due_ms)
            yield DelayedRecord(
                id=item_id, due_ms=due_ms, topic=topic, value=value, delay_reason=DELAY_REASON, headers=headers
            )


@cache
def _kinds() -> dict[str, type[SendRequested] | type[Asked]]:
    """What stands on each topic of the chain that comes back."""
    kinds: dict[str, type[SendRequested] | type[Asked]] = {
        topics.SEND_MONOLITH: SendRequested,
        topics.SEND_API: SendRequested,
        topics.RECHECK: RecheckRequested,
        topics.BUILD: BuildRequested,
        topics.DELIVERY: DeliveryRequested,
    }
    return {topics.in_lane(name, lane): kind for name, kind in kinds.items() for lane in Lane}


def _parts(chunk: RecheckRequested, send_at: int | None) -> list[RecheckRequested]:
    """As the checker would have gone on with it."""
    if send_at is not None:
        return after_send_at(chunk, send_at)
    return split_parts(chunk) if len(chunk.positions) > SPLIT_ABOVE else [chunk]


def _position(document: Mapping[str, Any]) -> tuple[str, int, int]:
    """Where the record stands, which is said also where the record is not. Errors: ValueError, KeyError."""
    ((place, info),) = document["KafkaBatchInfo"]["recordsInfo"].items()
    topic, _, number = place.rpartition("-")
    partition, offset = int(number), int(info["firstRecordOffset"])
    if not (0 <= partition < 2**31 and 0 <= offset < 2**63):
        raise ValueError("no position of Kafka's")
    return topic, partition, offset


def _count(record: KafkaRecord, header: str) -> int:
    """Anybody can write a header: what is no count counts nothing."""
    text = record.header(header) or b""
    return int(text) if text.isdigit() and len(text) < 10 else 0
