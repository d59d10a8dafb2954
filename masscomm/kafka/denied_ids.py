"""Decides how long records with a denied schema id are retried before they are dead-lettered.

A producer may use an id before every replica of the registry has it. So an id is retried for RETRY_S, once for all
records that contain it. Random bytes look like many ids, and each must not take that time: after one id has expired,
records with other ids are retried only while they are younger than RETRY_S themselves.
"""

import math
import threading
from dataclasses import dataclass

from masscomm.clock import Clock, SystemClock

RETRY_S = 30.0
# Seconds without a denial after which an id is forgotten: the registry may since have assigned it to a schema.
_FORGET_AFTER_S = 300.0
# The most ids in memory; records with further ids are dead-lettered immediately.
_REMEMBERED = 1_000


@dataclass
class _Denied:
    first_s: float
    last_s: float
    is_expired: bool = False


class DeniedIds:
    """The denied schema ids of one process. Thread-safe.

    Args:
        retry_s: seconds from the first denial of an id until its records are dead-lettered.
        clock: replaced in tests.
    """

    def __init__(self, *, retry_s: float = RETRY_S, clock: Clock | None = None) -> None:
        self.retry_s = retry_s
        self._clock = clock or SystemClock()
        self._denied: dict[int, _Denied] = {}  # in the order of last_s
        self._expired_s = -math.inf
        self._lock = threading.Lock()

    def is_retried(self, schema_id: int, *, timestamp_ms: int | None = None) -> bool:
        """Return whether the record of a denied schema id is retried.

        Args:
            schema_id: the id that the registry has just denied.
            timestamp_ms: of the record, None if unknown.
        """
        with self._lock:
            now_s = self._clock.monotonic()
            self._forget(now_s)
            denied = self._denied.pop(schema_id, None)
            if denied is None:
                if len(self._denied) >= _REMEMBERED:
                    return False
                denied = _Denied(now_s, now_s)
            denied.last_s = now_s
            self._denied[schema_id] = denied
            if now_s - denied.first_s >= self.retry_s:  # guard: registry.denied_id_expires
                if not denied.is_expired:
                    denied.is_expired, self._expired_s = True, now_s
                return False
            if now_s - self._expired_s > _FORGET_AFTER_S:
                return True
            return timestamp_ms is not None and self._clock.now_ms() - timestamp_ms < self.retry_s * 1000

    def _forget(self, now_s: float) -> None:
        while self._denied:
            schema_id, denied = next(iter(self._denied.items()))
            if now_s - denied.last_s <= _FORGET_AFTER_S:
                return
            del self._denied[schema_id]
