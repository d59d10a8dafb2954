"""Broadcast queues: which queue of the bulk lane a tenant's broadcasts use.

Functions process the queues in turns: tenants in different queues share capacity evenly, tenants in one queue wait for
each other. So a tenant that begins a broadcast leases the queue whose last lease is oldest, and renews the lease while
it broadcasts. When more tenants broadcast than there are queues, later tenants share a queue, chosen by their ids.

All environments use one store. The assignment affects latency, never correctness: ids do not contain the queue. If the
store is down, a tenant stays in its queue or shares one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Protocol

from masscomm.clock import Clock
from masscomm.domain.lanes import BROADCASTS, Lane, shared_queue
from masscomm.errors import Retry, Stop
from masscomm.observability import logs

logger = logs.logger("preference_checker")

# An environment caches an assignment for so long.
CACHED_S = 5.0
# A tenant that still broadcasts renews its lease after this time.
_RENEW_AFTER_MS = 10_000
# Duration of a lease after its last renewal, many times the two above.
LEASE_MS = 60_000
# A time further in the future than clocks differ is ignored.
_MAX_CLOCK_SKEW_MS = 60_000
# After an error or a slow response the store is not used for a while: at most one send waits for it in that time.
_SLOW_S = 0.2
_PAUSE_S = 30.0
# Lost races with other environments; more attempts are not worth their latency.
_ATTEMPTS = 3
_MOST_TENANTS = 10_000


@dataclass(frozen=True, kw_only=True)
class QueueLease:
    """club_id: the tenant that leases the queue; renewed_ms: when a broadcast was last put there, ms since the
    epoch."""

    club_id: int
    renewed_ms: int


@dataclass(frozen=True, kw_only=True)
class QueueLeases:
    """Leases of all queues ever leased. version: 0 where none is stored yet."""

    version: int = 0
    by_lane: Mapping[Lane, QueueLease] = field(default_factory=dict)


class QueueLeaseStore(Protocol):
    """Stores the leases for all environments. Errors: Retry (down, slow, malformed), Stop (no table)."""

    def read(self) -> QueueLeases:
        """Read the current leases, including those of other environments."""
        ...

    def replace(self, version: int, leases: Mapping[Lane, QueueLease], now_ms: int) -> bool:
        """Store these leases if `version` is still the stored version; returns whether they were stored."""
        ...


def assign_queue(
    leases: Mapping[Lane, QueueLease], club_id: int, now_ms: int
) -> tuple[Lane, Mapping[Lane, QueueLease] | None]:
    """(the tenant's queue, the leases to store because of it, or None)."""
    last = {
        lane: lease.renewed_ms if lease is not None and lease.renewed_ms <= now_ms + _MAX_CLOCK_SKEW_MS else 0
        for lane in BROADCASTS
        for lease in [leases.get(lane)]
    }
    queue = next((lane for lane in BROADCASTS if lane in leases and leases[lane].club_id == club_id), None)
    if queue is None:
        queue = min(BROADCASTS, key=lambda lane: last[lane])
        if last[queue] > now_ms - LEASE_MS:
            return shared_queue(club_id), None
    elif last[queue] > now_ms - _RENEW_AFTER_MS:
        return queue, None
    return queue, {**leases, queue: QueueLease(club_id=club_id, renewed_ms=now_ms)}


class BroadcastQueues:
    """One for each function environment."""

    def __init__(self, store: QueueLeaseStore) -> None:
        self._store = store
        # By tenant: the queue, and until when it is cached.
        self._cached: dict[int, tuple[Lane, float]] = {}
        self._paused_until = 0.0

    def of(self, club_id: int, clock: Clock) -> Lane:
        """The tenant's queue now. Never fails."""
        cached, until = self._cached.get(club_id, (None, 0.0))
        if cached is not None and clock.monotonic() < until:
            return cached
        queue = self._from_store(club_id, clock) or cached or shared_queue(club_id)  # guard: broadcast.queue_lease
        if len(self._cached) >= _MOST_TENANTS:
            self._cached.clear()
        self._cached[club_id] = queue, clock.monotonic() + CACHED_S
        return queue

    def _from_store(self, club_id: int, clock: Clock) -> Lane | None:
        """The queue by the store; None if the store gives none."""
        began = clock.monotonic()
        if began < self._paused_until:
            return None
        try:
            for _ in range(_ATTEMPTS):
                now_ms, found = clock.now_ms(), self._store.read()
                queue, changed = assign_queue(found.by_lane, club_id, now_ms)
                if changed is None or self._store.replace(found.version, changed, now_ms):
                    return queue
                if clock.monotonic() - began > _SLOW_S:
                    break
        except (Retry, Stop) as error:
            logger.warning("tenants share queues of broadcasts: %s", error)
            self._paused_until = clock.monotonic() + _PAUSE_S
        finally:
            if clock.monotonic() - began > _SLOW_S:
                self._paused_until = clock.monotonic() + _PAUSE_S
        return None


class InMemoryQueueLeaseStore:
    """The store's contract in a dictionary, for unit tests. failing: raised by every call; calls: their number."""

    def __init__(self) -> None:
        self.leases = QueueLeases()
        self.failing: Exception | None = None
        self.calls = 0
        self._lock = Lock()

    def read(self) -> QueueLeases:
        self._answer()
        return self.leases

    def replace(self, version: int, leases: Mapping[Lane, QueueLease], now_ms: int) -> bool:  # noqa: ARG002
        self._answer()
        with self._lock:
            if self.leases.version != version:
                return False
            self.leases = QueueLeases(version=version + 1, by_lane=dict(leases))
            return True

    def _answer(self) -> None:
        self.calls += 1
        if self.failing is not None:
            raise self.failing
