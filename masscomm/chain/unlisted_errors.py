"""Decides when a record with an unlisted error is dead-lettered: a dependency's answer about this record alone that is
in no table (masscomm.errors.Unlisted), or a fault in the code.

The attempts of some functions have no end, because an outage must lose nothing there. A record with such an error would
hold its partition for ever, so it is dead-lettered after UNLISTED_RETRY_S. Many records with such errors are a fault of
the installation: one process dead-letters MOST_DEAD_LETTERED within UNLISTED_FORGET_S, and retries the others.
"""

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field

from masscomm.clock import Clock, SystemClock
from masscomm.domain.time_limits import UNLISTED_FORGET_S, UNLISTED_RETRY_S
from masscomm.errors import MasscommError, Unlisted

MOST_DEAD_LETTERED = 20
# The largest number of records whose errors are remembered; others are retried.
REMEMBERED = 10_000


def is_unlisted(error: Exception | None) -> bool:
    """Return whether an error of a record is in no table."""
    return error is not None and (isinstance(error, Unlisted) or not isinstance(error, MasscommError))


@dataclass
class _Failed:
    first_s: float
    last_s: float


@dataclass(kw_only=True)
class UnlistedErrors:
    """The records with unlisted errors, as seen by this process."""

    clock: Clock = field(default_factory=SystemClock)
    # By position, in the order of the last error.
    _failed: dict[str, _Failed] = field(default_factory=dict)
    # The times at which records were dead-lettered.
    _dead_lettered: deque[float] = field(default_factory=deque)

    def expired(self, positions: Collection[str], *, record_count: int) -> set[str]:
        """Return the records that are dead-lettered now.

        Args:
            positions: The positions of the records of a batch that have an unlisted error.
            record_count: The number of records in the batch. An error of all records is none of a single record.
        """
        now_s = self.clock.monotonic()
        self._forget(now_s)
        found = set[str]()
        for position in positions:
            failed = self._failed.pop(position, None) or _Failed(now_s, now_s)
            failed.last_s = now_s
            if len(self._failed) < REMEMBERED:
                self._failed[position] = failed
            if now_s - failed.first_s < UNLISTED_RETRY_S:  # guard: unlisted.retried_first
                continue
            if 1 < record_count == len(positions):  # guard: unlisted.whole_batch
                continue
            if len(self._dead_lettered) < MOST_DEAD_LETTERED:  # guard: unlisted.flood
                self._dead_lettered.append(now_s)
                found.add(position)
        return found

    def _forget(self, now_s: float) -> None:
        while self._dead_lettered and now_s - self._dead_lettered[0] > UNLISTED_FORGET_S:
            self._dead_lettered.popleft()
        while self._failed:
            position, failed = next(iter(self._failed.items()))
            if now_s - failed.last_s <= UNLISTED_FORGET_S:
                return
            del self._failed[position]
