"""Stores and produces the records of a plan."""

from dataclasses import dataclass

from functions.preference_checker.output_lanes import OutputLanes
from masscomm.chain.batch import Batch, Item
from masscomm.chain.delayer import Delayer
from masscomm.chain.outcome_emitter import OutcomeEmitter
from masscomm.clock import Clock
from masscomm.decisions.chunk import Chunk
from masscomm.decisions.plan import DelayedPart, Plan
from masscomm.directory.port import Directory
from masscomm.domain.delays import PACE_HEADER
from masscomm.domain.ids import chunk_id
from masscomm.domain.pace import DELAY_REASON as PACE
from masscomm.kafka import topics
from masscomm.stores.delayed_records.port import DelayStore


@dataclass(frozen=True, kw_only=True)
class PlanEmitter:
    """Stores delayed parts first, then produces outcome records, build records, forwarded requests and the messages of
    digests.
    """

    directory: Directory
    delay_store: DelayStore
    lanes: OutputLanes
    clock: Clock

    def emit(self, batch: Batch[Chunk], item: Item[Chunk], plan: Plan) -> None:
        """Carry out the plan of a request. Raises Retry or Stop."""
        chunk = item.value
        for part in plan.delayed:
            self._delay(batch, item, part, plan.pace_revision)
        emitter = OutcomeEmitter(step="preference", clock=self.clock, directory=self.directory)
        for channel, span, outcomes in plan.outcomes:
            emitter.emit(batch, item, chunk.request, channel, span, outcomes)
        if plan.builds:
            topic = topics.in_lane(topics.BUILD, self.lanes.of_builds(chunk, self.clock))
            for build in plan.builds:
                batch.produce(item, topic, build.record_id, build)
        if plan.forwarded:
            topic = topics.in_lane(topics.RECHECK, self.lanes.of_rechecks(chunk, self.clock))
            for request in plan.forwarded:
                batch.produce(item, topic, request.record_id, request)
        for send in plan.messages:
            topic = topics.in_lane(topics.SEND_API, chunk.lane)
            batch.produce(item, topic, chunk_id(send.send_id or "", send.chunk_index), send)

    def _delay(self, batch: Batch[Chunk], item: Item[Chunk], part: DelayedPart, pace_revision: int) -> None:
        """Store a part of the request as a delayed record in the request's lane. Raises Retry or Stop."""
        topic = topics.in_lane(topics.RECHECK, item.value.lane)
        paced = ((PACE_HEADER, str(pace_revision).encode()),) if part.request.why == PACE and pace_revision else ()
        Delayer(store=self.delay_store, clock=self.clock).delay(
            batch.codec,
            topic,
            part.request,
            part.due_ms,
            delay_reason=part.request.why,
            headers=(*item.trace_headers, *paced),
        )
