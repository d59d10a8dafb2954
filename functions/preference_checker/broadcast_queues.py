"""Assigns broadcast queues (topics of the bulk lane) to tenants.

Functions process the queues in turns, so that tenants in different queues share the capacity evenly. Tenants in the
same queue wait for each other. Therefore a tenant that begins a broadcast leases the queue whose last lease is oldest,
and renews the lease while it broadcasts. When more tenants broadcast than there are queues, later tenants share a
queue, chosen by their ids.

All environments use one store. The assignment affects latency, never correctness: ids do not contain the queue. If the
store is down, a tenant stays in its queue or shares one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Protocol

from masscomm.clock import Clock
from masscomm.domain.lanes import BROADCASTS, Lane, consumed_lane, shared_queue
from masscomm.domain.time_limits import (
    QUEUE_CACHED_S,
    QUEUE_CLOCK_SKEW_MS,
    QUEUE_LEASE_MS,
    QUEUE_PAUSE_S,
    QUEUE_RENEW_MS,
    QUEUE_SLOW_S,
)
from masscomm.errors import Retry, Stop
from masscomm.observability import logs

logger = logs.logger("preference_checker")

# The number of attempts to store a lease if other environments change the leases concurrently. More attempts are not
# worth their latency.
_ATTEMPTS = 3
_MOST_TENANTS = 10_000


@dataclass(frozen=True, kw_only=True)
class QueueLease:
    """The lease of one broadcast queue.

    Attributes:
        club_id: The tenant that leases the queue.
        renewed_ms: The time of the tenant's last broadcast record, in ms since the epoch.
    """

    club_id: int
    renewed_ms: int


@dataclass(frozen=True, kw_only=True)
class QueueLeases:
    """The leases of all queues that were ever leased. `version` is 0 before the first write."""

    version: int = 0
    by_lane: Mapping[Lane, QueueLease] = field(default_factory=dict)


class QueueLeaseStore(Protocol):
    """The interface of the store of leases, which all environments share. Methods raise Retry (down, slow,
    malformed) or Stop (no table).
    """

    def read(self) -> QueueLeases:
        """Return the current leases, including those of other environments."""
        ...

    def replace(self, version: int, leases: Mapping[Lane, QueueLease], now_ms: int) -> bool:
        """Store these leases if the stored version is still `version`; return whether they were stored."""
        ...


def assign_queue(
    leases: Mapping[Lane, QueueLease], club_id: int, now_ms: int, queues: Sequence[Lane]
) -> tuple[Lane, Mapping[Lane, QueueLease] | None]:
    """Return one of the queues for a tenant, and the leases to store; None if the stored leases do not change."""
    last = {
        lane: lease.renewed_ms if lease is not None and lease.renewed_ms <= now_ms + QUEUE_CLOCK_SKEW_MS else 0
        for lane in queues
        for lease in [leases.get(lane)]
    }
    queue = next((lane for lane in queues if lane in leases and leases[lane].club_id == club_id), None)
    if queue is None:
        queue = min(queues, key=lambda lane: last[lane])
        if last[queue] > now_ms - QUEUE_LEASE_MS:
            return consumed_lane(shared_queue(club_id), queues), None
    elif last[queue] > now_ms - QUEUE_RENEW_MS:
        return queue, None
    return queue, {**leases, queue: QueueLease(club_id=club_id, renewed_ms=now_ms)}


class BroadcastQueues:
    """Assigns queues to tenants. Each function environment has one instance.

    Args:
        store: The store of the leases.
        queues: The queues whose topics have consumers.
    """

    def __init__(self, store: QueueLeaseStore, queues: Sequence[Lane] = BROADCASTS) -> None:
        self._store = store
        self._queues = queues
        # By tenant: the queue, and the time until which it is cached.
        self._cached: dict[int, tuple[Lane, float]] = {}
        self._paused_until = 0.0

    def of(self, club_id: int, clock: Clock) -> Lane:
        """Return the queue that a tenant uses now. This method never fails."""
        cached, until = self._cached.get(club_id, (None, 0.0))
        if cached is not None and clock.monotonic() < until:
            return cached
        queue = self._from_store(club_id, clock) or cached  # guard: broadcast.queue_lease
        queue = queue or consumed_lane(shared_queue(club_id), self._queues)
        if len(self._cached) >= _MOST_TENANTS:
            self._cached.clear()
        self._cached[club_id] = queue, clock.monotonic() + QUEUE_CACHED_S
        return queue

    def _from_store(self, club_id: int, clock: Clock) -> Lane | None:
        """Return the tenant's queue from the store; None if the store fails, is slow, or is paused after such a
        failure.
        """
        began = clock.monotonic()
        if began < self._paused_until:
            return None
        try:
            for _ in range(_ATTEMPTS):
                now_ms, found = clock.now_ms(), self._store.read()
                queue, changed = assign_queue(found.by_lane, club_id, now_ms, self._queues)
                if changed is None or self._store.replace(found.version, changed, now_ms):
                    return queue
                if clock.monotonic() - began > QUEUE_SLOW_S:
                    break
        except (Retry, Stop) as error:
            logger.warning("tenants share queues of broadcasts: %s", error)
            self._paused_until = clock.monotonic() + QUEUE_PAUSE_S
        finally:
            if clock.monotonic() - began > QUEUE_SLOW_S:
                self._paused_until = clock.monotonic() + QUEUE_PAUSE_S
        return None


class InMemoryQueueLeaseStore:
    """A store of leases in a dictionary, for unit tests.

    Attributes:
        failing: An error that every call raises.
        calls: The number of calls.
    """

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
