"""Checks the preferences of each recipient of a batch: admit the requests, look up users, release them at the pace of
their send, count for frequency caps, store the decisions, produce.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache, partial

from functions.preference_checker.look_up import LookUp
from functions.preference_checker.output_lanes import OutputLanes
from functions.preference_checker.plan_emitter import PlanEmitter
from functions.preference_checker.register import Register, StoredSends
from functions.preference_checker.unreadable_settings import count_malformed, count_unknown_zones
from functions.preference_checker.waiting_fallbacks import WaitingFallbacks
from masscomm.chain.batch import Batch, Item
from masscomm.chain.cap_counter import CapCounter
from masscomm.chain.chunk_reader import read_chunk
from masscomm.chain.delayer import Delayer
from masscomm.chain.digest_collector import DigestCollector
from masscomm.chain.release_counter import ReleaseCounter
from masscomm.clock import Clock
from masscomm.decisions import fallbacks, plan
from masscomm.decisions.caps import caps_for, is_recorded, wishes_of, with_counted
from masscomm.decisions.chunk import Chunk, content_of
from masscomm.decisions.digests import candidates, digest_for, overlaid
from masscomm.decisions.pace import due_minutes, pace_for, with_pace
from masscomm.directory.port import Directory
from masscomm.domain.delays import SEND_AT, RetrySchedule
from masscomm.domain.digests import DELAY_REASON as DIGEST
from masscomm.domain.lanes import Lane
from masscomm.domain.outcomes import DEAD_LETTERED
from masscomm.domain.records import RecheckRequested, SendRequested
from masscomm.domain.sends import SendControl
from masscomm.domain.time_limits import CAPS_COUNTED_S
from masscomm.errors import DeadLetter, OtherContent, OtherRecipients
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec
from masscomm.kafka.event import KafkaRecord
from masscomm.kafka.outcome_progress import OutcomeProgress
from masscomm.stores.decision_log.port import DecisionLog, Decisions, record_decisions
from masscomm.stores.delayed_records.port import DelayStore
from masscomm.stores.digests.port import Digests
from masscomm.stores.frequency_caps.port import FrequencyCaps
from masscomm.stores.sends.port import Sends


@dataclass(frozen=True, kw_only=True)
class CheckPreferences:
    """The use case of the preference checker. Each function environment has one instance."""

    directory: Directory
    clock: Clock
    delay_store: DelayStore
    decision_log: DecisionLog
    sends: Sends
    frequency_caps: FrequencyCaps
    digests: Digests
    outcome_progress: OutcomeProgress
    pool: Executor = field(default_factory=lambda: ThreadPoolExecutor(1, thread_name_prefix="register"))
    retry_schedule: RetrySchedule = field(default_factory=RetrySchedule)
    lanes: OutputLanes = field(default_factory=OutputLanes)

    @property
    def register(self) -> Register:
        return Register(sends=self.sends, decision_log=self.decision_log)

    def decode(self, record: KafkaRecord, codec: Codec) -> Chunk:
        """Return the recipients to decide about in a record of the topics send.* or recheck. Raises DeadLetter or
        Retry.
        """
        return read_chunk(record, codec, self.clock.now_ms())

    def handle(self, batch: Batch[Chunk]) -> None:
        counting = Counting(self.clock)
        # A send that is due at this time cannot be moved to another time any more by a later request.
        read_ms = self.clock.now_ms()
        urgent, others = list[Item[Chunk]](), list[Item[Chunk]]()
        # Records are produced while the batch runs: small sends must not wait for the broadcasts in their batch.
        for item in sorted(batch.active(), key=_priority):
            (urgent if _is_urgent(item.value, read_ms) else others).append(item)
        # Nothing about a send is produced or stored before its registration is known. A one-time password waits for the
        # slower of this and of the look-up, not for both.
        if urgent:
            sends = self._registering(urgent)
            for item, view in self._views(urgent, batch):
                batch.attempt(item, partial(self._decide, batch, item, view, sends, read_ms, counting))
        if others:
            pending, sends = list[Item[Chunk]](), self._registering(others)
            for item in others:
                batch.attempt(item, partial(self._admit, batch, item, pending, sends, read_ms))
            for item, view in self._views(pending, batch):
                batch.attempt(item, partial(self._check, batch, item, view, counting))

    def _registering(self, items: list[Item[Chunk]]) -> Callable[[], StoredSends]:
        """Begin to register the sends of items. Return a function that waits for them, and raises Retry or Stop."""
        return self.pool.submit(self.register.sends_of, [item.value for item in items]).result

    def _views(self, items: list[Item[Chunk]], batch: Batch[Chunk]) -> Iterator[tuple[Item[Chunk], plan.DirectoryView]]:
        return LookUp(directory=self.directory, clock=self.clock).views(items, batch.remaining_s)

    def dead_lettered(self, batch: Batch[Chunk], item: Item[Chunk], why: DeadLetter) -> None:
        """Produce outcome records with the status failed for all recipients of a dead-lettered record."""
        if isinstance(why, OtherContent):
            return  # Produce nothing: each recipient has an outcome from the content that was recorded first.
        if isinstance(why, OtherRecipients):
            item.value = item.value.with_others_id()
        self._emit(batch, item, plan.Plan(outcomes=plan.outcomes_for_all(item.value.request, DEAD_LETTERED)))

    def _decide(
        self,
        batch: Batch[Chunk],
        item: Item[Chunk],
        view: plan.DirectoryView,
        sends: Callable[[], StoredSends],
        read_ms: int,
        counting: "Counting",
    ) -> None:
        """Decide about a request whose users are looked up already."""
        pending: list[Item[Chunk]] = []
        self._admit(batch, item, pending, sends, read_ms)
        if pending:
            self._check(batch, item, view, counting)

    def _admit(
        self,
        batch: Batch[Chunk],
        item: Item[Chunk],
        pending: list[Item[Chunk]],
        sends: Callable[[], StoredSends],
        read_ms: int,
    ) -> None:
        """Finish a request that needs no look-up, or append it to `pending`. The sends were read at `read_ms`."""
        stored = sends()
        item.value = item.value.under(stored.control(item.value), read_ms)
        if item.value.fault is not None:
            raise item.value.fault
        self.register.check(item.value, stored)
        now_ms = self.clock.now_ms()
        item.value = plan.continue_at_send_at(item.value, read_ms)
        # The decision at the closing of its digest stays, also if the send is cancelled or paused since then.
        if item.value.request.why == DIGEST:  # guard: digests.closed_stays
            pending.append(item)
        elif (planned := plan.plan_without_look_up(item.value, read_ms)) is not None:
            self._emit(batch, item, planned)
        elif (control := plan.held_by(item.value, now_ms)) is not None and not self._is_decided(item.value):
            self._hold(batch, item, control)
        elif fallbacks.waits(item.value.request) is not None:
            self._waiting.decide(batch, item)
        elif (decisions := plan.decide_without_look_up(item.value, now_ms)) is not None:
            self._record(batch, item, decisions)
        else:
            pending.append(item)

    def _is_decided(self, chunk: Chunk) -> bool:
        """Return whether decisions about a request are recorded, and records that follow from them may be on their way:
        delivery holds these. A pause may last longer than the decisions are kept, so that the request would get others.
        """
        request = chunk.request
        if fallbacks.waits(request) is not None:
            return self._waiting.is_decided(request)
        # guard: send_controls.decided_request
        return is_recorded(request, _is_counted(chunk), {}) and self._decided(request)()

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

    def _check(self, batch: Batch[Chunk], item: Item[Chunk], view: plan.DirectoryView, counting: "Counting") -> None:
        request, now_ms, chunk = item.value.request, self.clock.now_ms(), fallbacks.active(item.value)
        decisions = plan.decide_recipients(chunk, view, now_ms, plan.deadline_of(request, self.retry_schedule))
        if request.why == DIGEST:
            if decisions is None:
                waiting = dict.fromkeys(request.positions, plan.UNCONFIRMED)
                decisions = dict.fromkeys(request.channels, waiting)  # guard: digests.unconfirmed
            self._settle(batch, item, view, decisions, counting)
        # No recipient could be decided about, so the whole record is delayed under its own id.
        elif decisions is None:
            delayed = plan.delay_for_directory(request, now_ms=now_ms, retries=self.retry_schedule)
            self._emit(batch, item, plan.Plan(delayed=[delayed]))
        else:
            count_malformed(request, decisions)
            count_unknown_zones(request, view)
            is_decided = self._decided(request)
            paced = self._paced(chunk, decisions, is_decided, counting)
            collected = self._collected(chunk, view, paced, is_decided, counting)
            counted = self._counted(chunk, view, collected, is_decided, counting)
            self._record(batch, item, fallbacks.with_fallbacks(request, counted, now_ms))

    def _decided(self, request: RecheckRequested) -> Callable[[], bool]:
        """Return a function that returns whether decisions about a request are recorded. It reads the log when it is
        called for the first time.
        """
        return cache(lambda: self.decision_log.find(request.record_id) is not None)

    def _paced(
        self, chunk: Chunk, decisions: plan.ByChannel, is_decided: Callable[[], bool], counting: "Counting"
    ) -> plan.ByChannel:
        """Release as many recipients as the pace of the send permits now, and return the decisions with the waits of
        the others.

        Recorded decisions stay: a recipient that was released takes no second place.
        """
        pace = pace_for(chunk)
        due = {} if pace is None else due_minutes(chunk, pace, decisions)
        if pace is None or not due or is_decided():  # guard: pace.recorded
            return decisions
        with counting:
            taken = ReleaseCounter(sends=self.sends, clock=self.clock).take(chunk.request, pace, due)
        return with_pace(decisions, chunk, pace, taken)

    def _collected(
        self,
        chunk: Chunk,
        view: plan.DirectoryView,
        decisions: plan.ByChannel,
        is_decided: Callable[[], bool],
        counting: "Counting",
    ) -> plan.ByChannel:
        """Let notifications join the digests of their users, and return the decisions with those of the digests.

        Recorded decisions stay: a notification that goes out alone joins no digest later.
        """
        digest = digest_for(chunk)
        wanted = [] if digest is None else candidates(chunk, digest, view, decisions)
        if digest is None or not wanted or is_decided():  # guard: digests.recorded
            return decisions
        with counting:
            return overlaid(decisions, self._collector.collect(chunk, digest, wanted, counting.has_time).decisions)

    def _settle(
        self,
        batch: Batch[Chunk],
        item: Item[Chunk],
        view: plan.DirectoryView,
        decisions: plan.ByChannel,
        counting: "Counting",
    ) -> None:
        """Close the digests of a released request, and decide about its notifications. Messages of digests are produced
        at each delivery of the record: an earlier one may have been killed before it did.
        """
        chunk, digest = item.value, digest_for(item.value)
        is_decided = self._decided(chunk.request)
        if digest is None:  # Its category is another one than when it was collected: the notifications go out alone.
            self._record(batch, item, self._counted(chunk, view, decisions, is_decided, counting))
            return
        with counting:
            has_time = (lambda: True) if is_decided() else counting.has_time  # guard: digests.messages_of_decided
            settled = self._collector.settle(chunk, digest, view, has_time)
        if settled.is_paused and chunk.paused is not None and not is_decided():
            self._emit(batch, item, plan.Plan(messages=settled.messages))
            self._hold(batch, item, chunk.paused)
            return
        alone = self._counted(chunk, view, overlaid(decisions, settled.decisions), is_decided, counting)
        self._record(batch, item, alone, settled.messages)

    @property
    def _waiting(self) -> WaitingFallbacks:
        return WaitingFallbacks(
            sends=self.sends,
            outcome_progress=self.outcome_progress,
            clock=self.clock,
            retry_schedule=self.retry_schedule,
            emit=self._emit,
        )

    @property
    def _collector(self) -> DigestCollector:
        return DigestCollector(store=self.digests, sends=self.sends, clock=self.clock)

    def _counted(
        self,
        chunk: Chunk,
        view: plan.DirectoryView,
        decisions: plan.ByChannel,
        is_decided: Callable[[], bool],
        counting: "Counting",
    ) -> plan.ByChannel:
        """Take the places of recipients whose notifications are let through, and return the decisions with those of
        their frequency caps.

        Recorded decisions stay. Places that were given back since then are not taken again.
        """
        caps, request = caps_for(chunk), chunk.request
        wishes = wishes_of(chunk, view, decisions) if caps else []
        if not wishes or is_decided():  # guard: frequency_caps.recorded
            return decisions
        counter = CapCounter(store=self.frequency_caps, clock=self.clock)
        with counting:
            counted = counter.take(request, caps, wishes, counting.has_time)
        return with_counted(decisions, wishes, counted, request.type)

    def _record(
        self,
        batch: Batch[Chunk],
        item: Item[Chunk],
        decisions: plan.ByChannel,
        messages: Sequence[SendRequested] = (),
    ) -> None:
        """Record the decisions if none are recorded yet, and produce the records that follow from the recorded ones,
        with the messages of digests.
        """
        request = item.value.request
        first = Decisions(positions=request.positions, user_ids=request.user_ids, by_channel=decisions)
        if is_recorded(request, _is_counted(item.value), decisions):
            now = first._replace(content=content_of(request))
            # guard: decisions.held_stays_held
            first = record_decisions(self.decision_log, request.record_id, now, is_single_recorded=True)
        planned = plan.plan(request, first.by_channel, now_ms=self.clock.now_ms(), retries=self.retry_schedule)
        # Recorded waits may be those of an earlier pace: the scheduler has them planned anew.
        revision = item.value.pace_revision if first.by_channel is decisions else 0  # guard: pace.recorded_wait
        self._emit(batch, item, planned._replace(messages=messages, pace_revision=revision))

    def _emit(self, batch: Batch[Chunk], item: Item[Chunk], planned: plan.Plan) -> None:
        PlanEmitter(directory=self.directory, delay_store=self.delay_store, lanes=self.lanes, clock=self.clock).emit(
            batch, item, planned
        )


def _is_counted(chunk: Chunk) -> bool:
    """Return whether frequency caps or a digest apply to a request."""
    return bool(caps_for(chunk)) or digest_for(chunk) is not None


@dataclass
class Counting:
    """The time that a batch spends on pace, frequency caps and digests."""

    clock: Clock
    _spent_s: float = 0.0
    _began_s: float = 0.0

    def has_time(self) -> bool:
        """Return whether further recipients may be counted."""
        return self._spent_s + self.clock.monotonic() - self._began_s < CAPS_COUNTED_S

    def __enter__(self) -> None:
        self._began_s = self.clock.monotonic()

    def __exit__(self, *error: object) -> None:
        self._spent_s += self.clock.monotonic() - self._began_s


def _priority(item: Item[Chunk]) -> int:
    """Return the sort key of a request: critical requests come first, then small sends, then all others."""
    return {Lane.CRITICAL: 0, Lane.SMALL: 1}.get(item.value.lane, 2)


def _is_urgent(chunk: Chunk, now_ms: int) -> bool:
    """Return whether a request is critical or small, and its users are to be looked up now."""
    return (
        chunk.lane in (Lane.CRITICAL, Lane.SMALL)
        and chunk.fault is None
        and plan.plan_without_look_up(chunk, now_ms) is None
        and plan.decide_without_look_up(chunk, now_ms) is None
    )
