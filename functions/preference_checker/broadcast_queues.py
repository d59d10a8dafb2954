"""Which of bulk's queues a tenant's broadcasts stand in.

Functions work the queues off in turns: tenants in different ones share what there is evenly, tenants in one wait for
each other. So a tenant who begins to broadcast takes the queue that was last used longest ago, and keeps it for as long
as they go on. Where more tenants do so at once than there are queues, those who came later share, by their ids.

All environments ask one store. What it says is a matter of waiting, never of correctness: ids do not know the queue,
and where the store cannot be asked a tenant goes on where they were, or shares.
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

# For so long an environment believes what it was told.
KNOWN_S = 5.0
# Somebody who uses a queue says so again after this time.
_SAID_AGAIN_MS = 10_000
# A queue is its tenant's alone for so long after it was last used, many times the two above.
IN_USE_MS = 60_000
# A moment further ahead than clocks differ is none.
_AHEAD_MS = 60_000
# Without an answer, or with one that took so long, the store is left alone for a while: a send waits for it once in
# that time.
_SLOW_S = 0.2
_REST_S = 30.0
# Others that decide at the same moment come first so often; then it is not worth the waiting.
_ATTEMPTS = 3
_MOST_TENANTS = 10_000


@dataclass(frozen=True, kw_only=True)
class Use:
    """club_id: whose a queue is; used_ms: when a broadcast was last put there, ms since the epoch."""

    club_id: int
    used_ms: int


@dataclass(frozen=True, kw_only=True)
class Uses:
    """Queues that were ever used. version: 0 where nothing was kept yet."""

    version: int = 0
    of: Mapping[Lane, Use] = field(default_factory=dict)


class UseStore(Protocol):
    """Where uses are kept for all environments. Errors: Retry (down, slow, makes no sense), Stop (there is none)."""

    def read(self) -> Uses:
        """As they are at this moment, whoever kept them."""
        ...

    def replace(self, version: int, uses: Mapping[Lane, Use], now_ms: int) -> bool:
        """Keep these, if what was read in that version still stands; whether they were kept."""
        ...


def assigned(uses: Mapping[Lane, Use], club_id: int, now_ms: int) -> tuple[Lane, Mapping[Lane, Use] | None]:
    """(the tenant's queue, what is to be kept because of it, None where nothing is)."""
    last = {
        lane: use.used_ms if use is not None and use.used_ms <= now_ms + _AHEAD_MS else 0
        for lane in BROADCASTS
        for use in [uses.get(lane)]
    }
    queue = next((lane for lane in BROADCASTS if lane in uses and uses[lane].club_id == club_id), None)
    if queue is None:
        queue = min(BROADCASTS, key=lambda lane: last[lane])
        if last[queue] > now_ms - IN_USE_MS:
            return shared_queue(club_id), None
    elif last[queue] > now_ms - _SAID_AGAIN_MS:
        return queue, None
    return queue, {**uses, queue: Use(club_id=club_id, used_ms=now_ms)}


class BroadcastQueues:
    """One for each function environment."""

    def __init__(self, store: UseStore) -> None:
        self._store = store
        # By tenant: their queue, and until when that is believed.
        self._known: dict[int, tuple[Lane, float]] = {}
        self._left_alone_until = 0.0

    def of(self, club_id: int, clock: Clock) -> Lane:
        """The tenant's queue at this moment. Never fails."""
        known, until = self._known.get(club_id, (None, 0.0))
        if known is not None and clock.monotonic() < until:
            return known
        queue = self._asked(club_id, clock) or known or shared_queue(club_id)  # guard: broadcast.queue_lease
        if len(self._known) >= _MOST_TENANTS:
            self._known.clear()
        self._known[club_id] = queue, clock.monotonic() + KNOWN_S
        return queue

    def _asked(self, club_id: int, clock: Clock) -> Lane | None:
        """What the store says; None where it says nothing."""
        began = clock.monotonic()
        if began < self._left_alone_until:
            return None
        try:
            for _ in range(_ATTEMPTS):
                now_ms, found = clock.now_ms(), self._store.read()
                queue, kept = assigned(found.of, club_id, now_ms)
                if kept is None or self._store.replace(found.version, kept, now_ms):
                    return queue
                if clock.monotonic() - began > _SLOW_S:
                    break
        except (Retry, Stop) as error:
            logger.warning("tenants share queues of broadcasts: %s", error)
            self._left_alone_until = clock.monotonic() + _REST_S
        finally:
            if clock.monotonic() - began > _SLOW_S:
                self._left_alone_until = clock.monotonic() + _REST_S
        return None


class InMemoryUseStore:
    """The store's contract in a dictionary, for unit tests; failing: raised by every call; calls: how often it was
    asked."""

    def __init__(self) -> None:
        self.uses = Uses()
        self.failing: Exception | None = None
        self.calls = 0
        self._lock = Lock()

    def read(self) -> Uses:
        self._answer()
        return self.uses

    def replace(self, version: int, uses: Mapping[Lane, Use], now_ms: int) -> bool:  # noqa: ARG002
        self._answer()
        with self._lock:
            if self.uses.version != version:
                return False
            self.uses = Uses(version=version + 1, of=dict(uses))
            return True

    def _answer(self) -> None:
        self.calls += 1
        if self.failing is not None:
            raise self.failing
