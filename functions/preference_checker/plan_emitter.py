"""Stores and produces the records of a plan."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from functions.preference_checker.output_lanes import OutputLanes
from masscomm.chain.batch import Batch, Item
from masscomm.chain.delayer import Delayer
from masscomm.chain.outcome_emitter import OutcomeEmitter
from masscomm.clock import Clock
from masscomm.decisions.chunk import Chunk
from masscomm.decisions.fallbacks import waits
from masscomm.decisions.plan import DelayedPart, Plan
from masscomm.directory.port import Directory
from masscomm.domain.delays import PACE_HEADER
from masscomm.domain.ids import chunk_id
from masscomm.domain.pace import DELAY_REASON as PACE
from masscomm.domain.records import BuildRequested
from masscomm.kafka import topics
from masscomm.stores.delayed_records.port import DelayStore, StoreKey, text_of_key


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
        keys = {part.request.record_id: self._delay(batch, item, part, plan.pace_revision) for part in plan.delayed}
        emitter = OutcomeEmitter(step="preference", clock=self.clock, directory=self.directory)
        for channel, span, outcomes in plan.outcomes:
            emitter.emit(batch, item, chunk.request, channel, span, outcomes)
        if plan.builds:
            topic = topics.in_lane(topics.BUILD, self.lanes.of_builds(chunk, self.clock))
            for build in plan.builds:
                batch.produce(item, topic, build.record_id, _with_key(build, keys))
        if plan.forwarded:
            topic = topics.in_lane(topics.RECHECK, self.lanes.of_rechecks(chunk, self.clock))
            for request in plan.forwarded:
                batch.produce(item, topic, request.record_id, request)
        for send in plan.messages:
            topic = topics.in_lane(topics.SEND_API, chunk.lane)
            batch.produce(item, topic, chunk_id(send.send_id or "", send.chunk_index), send)

    def _delay(self, batch: Batch[Chunk], item: Item[Chunk], part: DelayedPart, pace_revision: int) -> StoreKey:
        """Store a part of the request as a delayed record in the request's lane. Return its key. Raises Retry or
        Stop.
        """
        topic = topics.in_lane(topics.RECHECK, item.value.lane)
        paced = ((PACE_HEADER, str(pace_revision).encode()),) if part.request.why == PACE and pace_revision else ()
        return Delayer(store=self.delay_store, clock=self.clock).delay(
            batch.codec,
            topic,
            part.request,
            part.due_ms,
            delay_reason=part.request.why,
            headers=(*item.trace_headers, *paced),
            # The functions behind the build record find it by this id.
            item_id=part.request.record_id if waits(part.request) is not None else None,
        )


def _with_key(build: BuildRequested, keys: Mapping[str, StoreKey]) -> BuildRequested:
    """Return a build record with the key of the record that waits for it, in the place of its id."""
    if build.fallback is None:
        return build
    return replace(build, fallback=text_of_key(keys[build.fallback]))
