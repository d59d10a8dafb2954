"""Checks the preferences of each recipient of a batch: admit the requests, look up users, plan the records, store
the decisions, produce.
"""

from dataclasses import dataclass, field
from functools import partial

from functions.preference_checker import plan
from functions.preference_checker.chunk import Chunk, content_of, read_chunk
from functions.preference_checker.look_up import LookUp
from functions.preference_checker.output_lanes import OutputLanes
from functions.preference_checker.plan_emitter import PlanEmitter
from masscomm.chain.batch import Batch, Item
from masscomm.clock import Clock
from masscomm.directory.port import Directory
from masscomm.domain.lanes import Lane
from masscomm.domain.outcomes import DEAD_LETTERED
from masscomm.errors import DeadLetter, OtherContent, OtherRecipients
from masscomm.kafka.avro import Codec
from masscomm.kafka.event import KafkaRecord
from masscomm.stores.cancellations import Cancellations, send_of
from masscomm.stores.decision_log import DecisionLog, Decisions, record_decisions
from masscomm.stores.delayed_records import DelayStore
from masscomm.stores.retry_schedule import RetrySchedule


@dataclass(frozen=True, kw_only=True)
class CheckPreferences:
    """The use case of the preference checker. Each function environment has one instance."""

    directory: Directory
    clock: Clock
    delay_store: DelayStore
    decision_log: DecisionLog
    cancellations: Cancellations
    retry_schedule: RetrySchedule = field(default_factory=RetrySchedule)
    lanes: OutputLanes = field(default_factory=OutputLanes)

    def decode(self, record: KafkaRecord, codec: Codec) -> Chunk:
        """Return the recipients to decide about in a record of the topics send.* or recheck. Raises DeadLetter or
        Retry.
        """
        return read_chunk(record, codec, self.clock.now_ms())

    def handle(self, batch: Batch[Chunk]) -> None:
        pending: list[Item[Chunk]] = []
        # Records are produced while the batch runs: small sends must not wait for the broadcasts in their batch.
        items = sorted(batch.active(), key=_priority)
        cancelled = self.cancellations.cancelled({send_of(item.value.request) for item in items})
        for item in items:
            if send_of(item.value.request) in cancelled:
                item.value = item.value._replace(cancelled=True)
            batch.attempt(item, partial(self._admit, batch, item, pending))
        for item, view in LookUp(directory=self.directory, clock=self.clock).views(pending, batch.remaining_s):
            batch.attempt(item, partial(self._check, batch, item, view))

    def dead_lettered(self, batch: Batch[Chunk], item: Item[Chunk], why: DeadLetter) -> None:
        """Produce outcome records with the status failed for all recipients of a dead-lettered record."""
        if isinstance(why, OtherContent):
            return  # Produce nothing: each recipient has an outcome from the content that was recorded first.
        if isinstance(why, OtherRecipients):
            item.value = item.value.with_others_id()
        self._emit(batch, item, plan.Plan(outcomes=plan.outcomes_for_all(item.value.request, DEAD_LETTERED)))

    def _admit(self, batch: Batch[Chunk], item: Item[Chunk], pending: list[Item[Chunk]]) -> None:
        """Finish a request that needs no look-up, or append it to `pending`."""
        if item.value.fault is not None:
            raise item.value.fault
        now_ms = self.clock.now_ms()
        item.value = plan.continue_at_send_at(item.value, now_ms)
        if (planned := plan.plan_without_look_up(item.value, now_ms)) is not None:
            self._emit(batch, item, planned)
        elif (decisions := plan.decide_without_look_up(item.value, now_ms)) is not None:
            self._record(batch, item, decisions)
        else:
            pending.append(item)

    def _check(self, batch: Batch[Chunk], item: Item[Chunk], view: plan.DirectoryView) -> None:
        request, now_ms = item.value.request, self.clock.now_ms()
        decisions = plan.decide_recipients(item.value, view, now_ms, plan.deadline_of(request, self.retry_schedule))
        # No recipient could be decided about, so the whole record is delayed under its own id.
        if decisions is None:
            delayed = plan.delay_for_directory(request, now_ms=now_ms, retries=self.retry_schedule)
            self._emit(batch, item, plan.Plan(delayed=[delayed]))
        else:
            self._record(batch, item, decisions)

    def _record(self, batch: Batch[Chunk], item: Item[Chunk], decisions: plan.ByChannel) -> None:
        """Record the decisions if none are recorded yet, and produce the records that follow from the recorded ones."""
        request = item.value.request
        now = Decisions(
            positions=request.positions,
            user_ids=request.user_ids,
            by_channel=decisions,
            content=content_of(request) if len(request.positions) > 1 else "",  # A single decision is not recorded.
        )
        first = record_decisions(self.decision_log, request.record_id, now)  # guard: decisions.held_stays_held
        now_ms = self.clock.now_ms()
        self._emit(batch, item, plan.plan(request, first.by_channel, now_ms=now_ms, retries=self.retry_schedule))

    def _emit(self, batch: Batch[Chunk], item: Item[Chunk], planned: plan.Plan) -> None:
        PlanEmitter(directory=self.directory, delay_store=self.delay_store, lanes=self.lanes, clock=self.clock).emit(
            batch, item, planned
        )


def _priority(item: Item[Chunk]) -> int:
    """Return the sort key of a request: critical requests come first, then small sends, then all others."""
    return {Lane.CRITICAL: 0, Lane.SMALL: 1}.get(item.value.lane, 2)
