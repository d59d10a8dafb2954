"""Decides whether a record whose schema id the registry does not know waits for its schema, or is dead-lettered.

A producer may use a schema id before every replica of the registry has it. Therefore records wait until the id was
denied for DENIED_SCHEMA_RETRY_S seconds, counted once for all records with that id. Records of random bytes look like
records with many different ids, and must not fill the delay store. So after one id has expired, records with other
unknown ids wait only while they are younger than DENIED_SCHEMA_RETRY_S themselves, and only some ids are remembered.
"""

import math
import threading
from dataclasses import dataclass

from masscomm.clock import Clock, SystemClock
from masscomm.domain.time_limits import DENIED_SCHEMA_FORGET_S, DENIED_SCHEMA_RETRY_S

# The largest number of ids that are remembered; records with further unknown ids are dead-lettered immediately: a
# deployment brings a few new schemas.
REMEMBERED = 100


@dataclass
class _Denied:
    first_s: float
    last_s: float
    is_expired: bool = False


class DeniedIds:
    """The schema ids that the registry does not know, as seen by this process. Thread-safe.

    Args:
        retry_s: Seconds from the first failed look-up of an id until its records are dead-lettered.
        clock: The clock; tests replace it.
    """

    def __init__(self, *, retry_s: float = DENIED_SCHEMA_RETRY_S, clock: Clock | None = None) -> None:
        self.retry_s = retry_s
        self._clock = clock or SystemClock()
        self._denied: dict[int, _Denied] = {}  # The unknown ids, ordered by the time of the last failed look-up.
        self._expired_s = -math.inf
        self._lock = threading.Lock()

    def is_retried(self, schema_id: int, *, timestamp_ms: int | None = None) -> bool:
        """Return whether a record with an unknown schema id waits for its schema.

        Args:
            schema_id: The id that the registry has just denied.
            timestamp_ms: The record's timestamp in ms since the epoch; None if unknown.
        """
        with self._lock:
            now_s = self._clock.monotonic()
            self._forget(now_s)
            denied = self._denied.pop(schema_id, None)
            if denied is None:
                if len(self._denied) >= REMEMBERED:
                    return False
                denied = _Denied(now_s, now_s)
            denied.last_s = now_s
            self._denied[schema_id] = denied
            if now_s - denied.first_s >= self.retry_s:  # guard: registry.denied_id_expires
                if not denied.is_expired:
                    denied.is_expired, self._expired_s = True, now_s
                return False
            if now_s - self._expired_s > DENIED_SCHEMA_FORGET_S:
                return True
            return timestamp_ms is not None and self._clock.now_ms() - timestamp_ms < self.retry_s * 1000

    def _forget(self, now_s: float) -> None:
        while self._denied:
            schema_id, denied = next(iter(self._denied.items()))
            if now_s - denied.last_s <= DENIED_SCHEMA_FORGET_S:
                return
            del self._denied[schema_id]
