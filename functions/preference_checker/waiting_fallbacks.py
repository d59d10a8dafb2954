"""Decides about fallbacks whose wait has ended."""

from collections.abc import Callable
from dataclasses import dataclass

from masscomm.chain.batch import Batch, Item
from masscomm.clock import Clock
from masscomm.decisions import fallbacks, plan
from masscomm.decisions.chunk import Chunk
from masscomm.domain.delays import RetrySchedule
from masscomm.domain.fallbacks import FallbackState
from masscomm.domain.records import RecheckRequested
from masscomm.errors import Retry
from masscomm.kafka.outcome_progress import OutcomeProgress
from masscomm.stores.sends.port import Sends, send_of

# How often a decision is made again because an outcome has changed the state meanwhile.
_ROUNDS = 5


@dataclass(frozen=True, kw_only=True)
class WaitingFallbacks:
    """Decides once about the recipients of a waiting record. Methods raise Retry or Stop."""

    sends: Sends
    outcome_progress: OutcomeProgress
    clock: Clock
    retry_schedule: RetrySchedule
    # Carries out the plan of an item.
    emit: Callable[[Batch[Chunk], Item[Chunk], plan.Plan], None]

    def is_decided(self, request: RecheckRequested) -> bool:
        """Return whether each recipient of a waiting record is decided about."""
        return self._state(request).verdicts.keys() >= set(request.positions)

    def decide(self, batch: Batch[Chunk], item: Item[Chunk]) -> None:
        """Decide about the recipients of a waiting record, or let it wait for another minute.

        The decision is stored before anything is produced. A further delivery of the record, and the function that
        sees the end of an earlier notification, find it.
        """
        request = item.value.request
        state = self._decided(item.value, batch.remaining_s)
        if state is None:
            delayed = fallbacks.postponed(request, self.clock.now_ms())
            self.emit(batch, item, plan.Plan(delayed=[delayed]))
        else:
            self.emit(batch, item, fallbacks.planned(request, state))

    def _decided(self, chunk: Chunk, remaining_s: Callable[[], float]) -> FallbackState | None:
        """Return the state with a decision about each recipient; None if the time has not come."""
        request = chunk.request
        for _ in range(_ROUNDS):
            before = self._state(request)
            if before.verdicts.keys() >= set(request.positions):
                return before
            now_ms, due_ms = self.clock.now_ms(), request.waited_until or 0
            if not chunk.cancelled and now_ms < due_ms:
                return None
            is_late = plan.deadline_of(request, self.retry_schedule) <= now_ms
            is_unknown = not is_late and fallbacks.needs_proof(request, before, cancelled=chunk.cancelled)
            # guard: fallbacks.absent_outcome
            if is_unknown and not self.outcome_progress.has_passed(due_ms, remaining_s()):
                return None
            after = fallbacks.decide_waiting(request, before, cancelled=chunk.cancelled, is_late=is_late)
            # guard: fallbacks.stored_before_produced
            if self.sends.set_fallback(send_of(request), request.record_id, after):
                return after
        raise Retry("the state of the fallbacks is changed by outcomes all the time")

    def _state(self, request: RecheckRequested) -> FallbackState:
        return self.sends.fallback(send_of(request), request.record_id)
