"""Checks the preferences of each recipient of a batch: admit the requests, look up users, plan the records, store
the decisions, produce.
"""

from dataclasses import dataclass, field
from functools import partial

from functions.preference_checker.look_up import LookUp
from functions.preference_checker.output_lanes import OutputLanes
from functions.preference_checker.plan_emitter import PlanEmitter
from functions.preference_checker.unreadable_settings import count_malformed, count_unknown_zones
from masscomm.chain.batch import Batch, Item
from masscomm.chain.chunk_reader import read_chunk
from masscomm.chain.delayer import Delayer
from masscomm.clock import Clock
from masscomm.decisions import plan
from masscomm.decisions.chunk import Chunk, content_of
from masscomm.directory.port import Directory
from masscomm.domain.delays import SEND_AT, RetrySchedule
from masscomm.domain.lanes import Lane
from masscomm.domain.outcomes import DEAD_LETTERED
from masscomm.domain.send_controls import SendControl
from masscomm.errors import DeadLetter, OtherContent, OtherRecipients, Retry
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec
from masscomm.kafka.event import KafkaRecord
from masscomm.observability.unreadable_items import UnreadableItem
from masscomm.stores.decision_log.port import DecisionLog, Decisions, record_decisions, unpack_decisions
from masscomm.stores.delayed_records.port import DelayStore
from masscomm.stores.send_controls import AcceptedSend, SendControls, send_of


@dataclass(frozen=True, kw_only=True)
class CheckPreferences:
    """The use case of the preference checker. Each function environment has one instance."""

    directory: Directory
    clock: Clock
    delay_store: DelayStore
    decision_log: DecisionLog
    controls: SendControls
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
        # A send that is due at this time cannot be moved to another time any more by a later request.
        read_ms = self.clock.now_ms()
        sends = {send_of(item.value.request) for item in items}
        named = {item.value.request.send_id for item in items if item.value.is_named and item.value.fault is None}
        controls, registered = self.controls.read_with_registered(sends, named)
        accepted = dict(registered)
        for item in items:
            control = controls[send_of(item.value.request)]
            batch.attempt(item, partial(self._admit, batch, item, pending, control, read_ms, accepted))
        for item, view in LookUp(directory=self.directory, clock=self.clock).views(pending, batch.remaining_s):
            batch.attempt(item, partial(self._check, batch, item, view))

    def dead_lettered(self, batch: Batch[Chunk], item: Item[Chunk], why: DeadLetter) -> None:
        """Produce outcome records with the status failed for all recipients of a dead-lettered record."""
        if isinstance(why, OtherContent):
            return  # Produce nothing: each recipient has an outcome from the content that was recorded first.
        if isinstance(why, OtherRecipients):
            item.value = item.value.with_others_id()
        self._emit(batch, item, plan.Plan(outcomes=plan.outcomes_for_all(item.value.request, DEAD_LETTERED)))

    def _admit(
        self,
        batch: Batch[Chunk],
        item: Item[Chunk],
        pending: list[Item[Chunk]],
        sends_control: SendControl,
        read_ms: int,
        accepted: dict[str, AcceptedSend | UnreadableItem],
    ) -> None:
        """Finish a request that needs no look-up, or append it to `pending`. The control of its send, and the accepted
        sends by id, were read at `read_ms`.
        """
        item.value = item.value.under(sends_control, read_ms)
        if item.value.fault is not None:
            raise item.value.fault
        if item.value.is_named:
            self._check_send(item.value, accepted)
        now_ms = self.clock.now_ms()
        item.value = plan.continue_at_send_at(item.value, read_ms)
        if (planned := plan.plan_without_look_up(item.value, read_ms)) is not None:
            self._emit(batch, item, planned)
        elif (control := plan.held_by(item.value, now_ms)) is not None and not self._is_decided(item.value):
            self._hold(batch, item, control)
        elif (decisions := plan.decide_without_look_up(item.value, now_ms)) is not None:
            self._record(batch, item, decisions)
        else:
            pending.append(item)

    def _check_send(self, chunk: Chunk, accepted: dict[str, AcceptedSend | UnreadableItem]) -> None:
        """Check that the send under the id in a new chunk by Kafka has its content; register the send if the chunk is
        one of several, or not decided at once.

        Raises:
            DeadLetter: The id belongs to another send. OtherRecipients or OtherContent if a chunk with this index was
                decided about.
        """
        request = chunk.request
        send = AcceptedSend(
            send=send_of(request),
            accepted_at_ms=request.timestamp,
            send_at_ms=chunk.send_at,
            content=chunk.content,
            by_kafka=True,
        )
        stored = accepted.get(request.send_id)
        if isinstance(stored, UnreadableItem):
            raise Retry(f"the item of an accepted send is malformed: {stored.error}")
        if stored is None and chunk.is_registered:
            # A small send is not registered: its only chunk may have been decided about.
            self._check_decided(chunk)  # guard: named_sends.unregistered_send
            # One write for each batch and send: later batches read the stored send together with the controls.
            stored = accepted[request.send_id] = self.controls.register(send)
        if stored is None or stored.is_same(send):  # guard: named_sends.chunk_of_another_send
            return
        if self._check_decided(chunk):  # guard: named_sends.decided_chunk
            raise OtherContent
        raise DeadLetter("invalid", "the send_id belongs to a send with another content, or of another tenant")

    def _check_decided(self, chunk: Chunk) -> bool:
        """Return whether a chunk with this index was decided about. Raises OtherRecipients or OtherContent if it was
        another one.
        """
        request = chunk.request
        packed = self.decision_log.find(request.record_id)
        if packed is not None:
            unpack_decisions(packed, positions=request.positions, user_ids=request.user_ids, send=chunk.content)
        return packed is not None

    def _is_decided(self, chunk: Chunk) -> bool:
        """Return whether decisions about a request are recorded, and records that follow from them may be on their way:
        delivery holds these. A pause may last longer than the decisions are kept, so that the request would get others.
        """
        request = chunk.request
        # guard: send_controls.decided_request
        return len(request.positions) > 1 and self.decision_log.find(request.record_id) is not None

    def _hold(self, batch: Batch[Chunk], item: Item[Chunk], control: SendControl) -> None:
        """Put the request of a paused send, or of one that was moved to another time, into the delay store."""
        chunk, delayer = item.value, Delayer(store=self.delay_store, clock=self.clock)
        topic = topics.in_lane(topics.RECHECK, chunk.lane)
        if chunk.rescheduled is None:
            delayer.hold(batch.codec, topic, chunk.request, control, item.trace_headers)
        else:
            delayer.delay(
                batch.codec,
                topic,
                chunk.request,
                control.send_at_ms or 0,
                delay_reason=SEND_AT,
                attempt=control.revision,
                headers=item.trace_headers,
            )

    def _check(self, batch: Batch[Chunk], item: Item[Chunk], view: plan.DirectoryView) -> None:
        request, now_ms = item.value.request, self.clock.now_ms()
        decisions = plan.decide_recipients(item.value, view, now_ms, plan.deadline_of(request, self.retry_schedule))
        # No recipient could be decided about, so the whole record is delayed under its own id.
        if decisions is None:
            delayed = plan.delay_for_directory(request, now_ms=now_ms, retries=self.retry_schedule)
            self._emit(batch, item, plan.Plan(delayed=[delayed]))
        else:
            count_malformed(request, decisions)
            count_unknown_zones(request, view)
            self._record(batch, item, decisions)

    def _record(self, batch: Batch[Chunk], item: Item[Chunk], decisions: plan.ByChannel) -> None:
        """Record the decisions if none are recorded yet, and produce the records that follow from the recorded ones."""
        request = item.value.request
        now = Decisions(
            positions=request.positions,
            user_ids=request.user_ids,
            by_channel=decisions,
            # A single decision is not recorded.
            content=content_of(request) if len(request.positions) > 1 else "",
            send=item.value.content,
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
