"""Chooses the lanes of the records that are derived from a chunk of a send."""

from dataclasses import dataclass, field

from functions.preference_checker.broadcast_queues import BroadcastQueues, InMemoryQueueLeaseStore
from functions.preference_checker.small_sends import SmallSends
from masscomm.clock import Clock
from masscomm.decisions.chunk import Chunk
from masscomm.domain.lanes import BROADCASTS, Lane


@dataclass(frozen=True, kw_only=True)
class OutputLanes:
    """Chooses lanes. Each function environment has one instance.

    A redelivery may choose another lane. The record id stays the same, so that consumers ignore the second copy.
    """

    small_sends: SmallSends = field(default_factory=SmallSends)
    queues: BroadcastQueues = field(default_factory=lambda: BroadcastQueues(InMemoryQueueLeaseStore()))

    def of_builds(self, chunk: Chunk, clock: Clock) -> Lane:
        """Return the lane of build records. If small sends exceed the tenant's rate, it is the tenant's broadcast
        queue.
        """
        request = chunk.request
        if chunk.lane is Lane.SMALL and not self.small_sends.admit(
            request.club_id, len(request.positions), clock.monotonic()
        ):
            return self.queues.of(request.club_id, clock)
        return self.of_rechecks(chunk, clock)

    def of_rechecks(self, chunk: Chunk, clock: Clock) -> Lane:
        """Return the lane of the chunk; for a broadcast that has no queue yet, the queue of its tenant."""
        if chunk.queued or chunk.lane not in BROADCASTS:
            return chunk.lane
        return self.queues.of(chunk.request.club_id, clock)
