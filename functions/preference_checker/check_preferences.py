"""Check the preferences of each recipient of a batch, and emit build records for the allowed ones."""

from dataclasses import dataclass, field, replace
from functools import partial

from functions.preference_checker.broadcast_queues import BroadcastQueues, InMemoryQueueLeaseStore
from functions.preference_checker.look_up import LookUp
from functions.preference_checker.plan import (
    ByChannel,
    Chunk,
    DelayedPart,
    DirectoryView,
    Plan,
    continue_at_send_at,
    deadline_of,
    decide_recipients,
    delay_for_directory,
    expire,
    outcomes_for_all,
    plan,
    plan_without_look_up,
)
from functions.preference_checker.small_sends import SmallSends
from masscomm.chain.batch import Batch, Item
from masscomm.chain.chunks import SEND_AT, chunk_of, fault_of_send, lane_of_send, recheck_of
from masscomm.chain.outcome_emitter import OutcomeEmitter
from masscomm.clock import Clock
from masscomm.directory.port import Directory
from masscomm.domain.ids import envelope_id, others_id
from masscomm.domain.lanes import BROADCASTS, Lane
from masscomm.domain.outcomes import DEAD_LETTERED
from masscomm.domain.quiet_hours import DELAY_REASON as QUIET_HOURS
from masscomm.domain.records import SendRequested
from masscomm.errors import DeadLetter, OtherRecipients
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec
from masscomm.kafka.event import KafkaRecord
from masscomm.observability import metrics
from masscomm.observability.metric_names import REPEATED_RECIPIENTS
from masscomm.stores.decision_log import DecisionLog, Decisions, record_decisions
from masscomm.stores.delayed_records import DelayedRecord, DelayStore
from masscomm.stores.retry_schedule import RetrySchedule


@dataclass(frozen=True, kw_only=True)
class CheckPreferences:
    """The use case; one for each function environment."""

    directory: Directory
    clock: Clock
    delay_store: DelayStore
    decision_log: DecisionLog
    retry_schedule: RetrySchedule = field(default_factory=RetrySchedule)
    small_sends: SmallSends = field(default_factory=SmallSends)
    queues: BroadcastQueues = field(default_factory=lambda: BroadcastQueues(InMemoryQueueLeaseStore()))

    def decode(self, record: KafkaRecord, codec: Codec) -> Chunk:
        """A record of send.* or recheck. Errors: DeadLetter, Retry."""
        if topics.base_of(record.topic) == topics.RECHECK:
            request = recheck_of(codec.decode("RecheckRequested", record.value))
            # Many records may be due at the same time, and the tenant's queue may be leased to another tenant by now.
            queued = request.why not in (SEND_AT, QUIET_HOURS)
            return Chunk(request=request, lane=topics.lane_of(record.topic), queued=queued)
        send = SendRequested.from_avro(codec.decode("SendRequested", record.value))
        request = chunk_of(send, record)
        metrics.add(REPEATED_RECIPIENTS, len(send.to_users) - len(request.positions))
        return Chunk(
            request=request,
            lane=lane_of_send(send, record.topic),
            is_new=True,
            queued=False,
            send_at=send.send_at,
            fault=fault_of_send(send, record, self.clock.now_ms()),
        )

    def handle(self, batch: Batch[Chunk]) -> None:
        pending: list[Item[Chunk]] = []
        for item in batch.active():
            batch.attempt(item, partial(self._admit, batch, item, pending))
        for item, view in LookUp(directory=self.directory, clock=self.clock).views(batch, pending):
            batch.attempt(item, partial(self._check, batch, item, view))

    def dead_lettered(self, batch: Batch[Chunk], item: Item[Chunk], why: DeadLetter) -> None:
        """Emit failed outcomes for all recipients of a dead-lettered record."""
        request = item.value.request
        if isinstance(why, OtherRecipients):
            request = replace(request, record_id=others_id(request.record_id, request.user_ids))
            item.value = replace(item.value, request=request)
        self._carry_out(batch, item, Plan(outcomes=outcomes_for_all(request, DEAD_LETTERED)))

    def _admit(self, batch: Batch[Chunk], item: Item[Chunk], pending: list[Item[Chunk]]) -> None:
        """Finish an item that needs no look-up, or append it to `pending`."""
        if item.value.fault is not None:
            raise item.value.fault
        now_ms = self.clock.now_ms()
        item.value = continue_at_send_at(item.value, now_ms)
        if (planned := plan_without_look_up(item.value, now_ms)) is not None:
            self._carry_out(batch, item, planned)
        elif (decisions := expire(item.value.request, now_ms)) is not None:
            self._record(batch, item, decisions)
        else:
            pending.append(item)

    def _check(self, batch: Batch[Chunk], item: Item[Chunk], view: DirectoryView) -> None:
        request, now_ms = item.value.request, self.clock.now_ms()
        decisions = decide_recipients(item.value, view, now_ms, deadline_of(request, self.retry_schedule))
        if decisions is None:  # the whole request keeps its id: nothing was decided
            delayed = delay_for_directory(request, now_ms=now_ms, retries=self.retry_schedule)
            self._carry_out(batch, item, Plan(delayed=[delayed]))
        else:
            self._record(batch, item, decisions)

    def _record(self, batch: Batch[Chunk], item: Item[Chunk], decisions: ByChannel) -> None:
        """Carry out the plan of the decisions that are recorded first: these, or an earlier delivery's."""
        request = item.value.request
        now = Decisions(positions=request.positions, user_ids=request.user_ids, by_channel=decisions)
        first = record_decisions(self.decision_log, request.record_id, now)  # guard: decisions.held_stays_held
        now_ms = self.clock.now_ms()
        self._carry_out(batch, item, plan(request, first.by_channel, now_ms=now_ms, retries=self.retry_schedule))

    def _carry_out(self, batch: Batch[Chunk], item: Item[Chunk], planned: Plan) -> None:
        for part in planned.delayed:
            self._delay(batch, item, part)
        emitter = OutcomeEmitter(step="preference", clock=self.clock, directory=self.directory)
        for channel, span, outcomes in planned.outcomes:
            emitter.emit(batch, item, item.value.request, channel, span, outcomes)
        if planned.builds:
            topic = topics.in_lane(topics.BUILD, self._build_lane(item.value))
            for build in planned.builds:
                batch.produce(item, topic, build.record_id, build)
        if planned.forwarded:
            topic = topics.in_lane(topics.RECHECK, self._lane_of_recheck(item.value))
            for request in planned.forwarded:
                batch.produce(item, topic, request.record_id, request)

    def _delay(self, batch: Batch[Chunk], item: Item[Chunk], part: DelayedPart) -> None:
        """Store a part of the request as a delayed record of the item's lane. Errors: Retry, Stop."""
        request, due_ms = part
        topic = topics.in_lane(topics.RECHECK, item.value.lane)
        value = batch.codec.encode(topic, "RecheckRequested", request.to_avro())
        record = DelayedRecord(
            id=envelope_id(request.record_id, value),
            due_ms=due_ms,
            topic=topic,
            value=value,
            delay_reason=request.why,
            headers=tuple(item.trace_headers),
        )
        self.delay_store.put(record, self.clock.now_ms())

    def _build_lane(self, chunk: Chunk) -> Lane:
        """Return the lane of build records: small sends above the tenant's rate go to its broadcast queue.

        A redelivery may choose another lane: the record id stays the same, and consumers ignore the second copy.
        """
        request = chunk.request
        if chunk.lane is Lane.SMALL and not self.small_sends.admit(
            request.club_id, len(request.positions), self.clock.monotonic()
        ):
            return self.queues.of(request.club_id, self.clock)
        return self._lane_of_recheck(chunk)

    def _lane_of_recheck(self, chunk: Chunk) -> Lane:
        """The chunk's lane; for a broadcast that is in no queue yet, its tenant's queue."""
        if chunk.queued or chunk.lane not in BROADCASTS:
            return chunk.lane
        return self.queues.of(chunk.request.club_id, self.clock)
