"""The rate at which one function environment calls a provider: its share of the account's quota, adapted to throttles.

Additive increase while no call is throttled, multiplicative decrease by the share of throttled calls. Environments do
not communicate: each adapts to its own throttles, and so they share the account's rate (benchmarks/rate_limiter.py).
"""

import math
import threading

from masscomm.clock import Clock

# Throttles are evaluated together: a single one is no evidence.
_WINDOW_S = 0.2
_MIN_CALLS = 5
# Decrease by the share of throttled calls; increase by a second without throttles.
_DECREASE = 0.5
_MIN_DECREASE = 0.01
_INCREASE_PER_S = 0.05
# The increase grows with each second without a throttle, for a quick recovery after an outage.
_ACCELERATION_PER_S = 0.5
# Below this share of the rate, the rate does not limit the calls: it does not grow.
_BUSY = 0.8
# Slots missed while a slice is recorded or a batch fetched can be caught up.
_CATCH_UP_S = 0.2
# No slot is reserved further ahead: the rate may change until then.
_MAX_WAIT_S = 0.25
_FLOOR_PER_S = 1.0


class RateLimiter:
    """Limits the calls to one provider account in one region; thread-safe.

    per_s: the environment's share of the account's quota; None: unlimited until the first throttle shows the accepted
    rate. floor_per_s: the lowest rate.
    """

    def __init__(self, clock: Clock, *, per_s: float | None = None, floor_per_s: float = _FLOOR_PER_S) -> None:
        self._clock = clock
        self._rate = per_s
        self._base = per_s
        self._floor = floor_per_s
        self._next = -1.0
        self._lock = threading.Lock()
        self._begin(clock.monotonic())
        self._unthrottled_s = 0.0

    @property
    def per_s(self) -> float | None:
        """The present rate; None while it is unlimited."""
        return self._rate

    def take(self) -> bool:
        """Wait for a slot; False if none is free within a moment: try again if time remains."""
        with self._lock:
            now = self._clock.monotonic()
            if self._rate is None:  # guard: provider.rate_limit
                return True
            slot = max(self._next, now - _CATCH_UP_S)
            wait = slot - now
            if wait <= _MAX_WAIT_S:
                self._next = slot + 1 / self._rate
        if wait > 0:
            self._clock.sleep(min(wait, _MAX_WAIT_S))
        return wait <= _MAX_WAIT_S

    def answered(self, *, throttled: bool) -> None:
        """Count a call's result."""
        with self._lock:
            self._calls += 1
            self._throttled += throttled
            now = self._clock.monotonic()
            seconds = now - self._since
            if seconds >= _WINDOW_S and self._calls >= _MIN_CALLS:
                self._adjust(seconds)
                self._begin(now)

    def _begin(self, now: float) -> None:
        self._since, self._calls, self._throttled = now, 0, 0

    def _adjust(self, seconds: float) -> None:
        # Half of the throttled share: a burst of other environments is in it, and they slow down as well.
        decrease = max(_MIN_DECREASE, _DECREASE * self._throttled / self._calls)
        if self._throttled:
            self._unthrottled_s = 0.0
            if self._rate is None:
                self._base = self._calls / seconds
            self._rate = max(self._floor, (self._rate or self._base or 0) * (1 - decrease))
        elif self._rate is not None and self._base is not None and self._calls / seconds >= _BUSY * self._rate:
            self._unthrottled_s += seconds
            # Geometric mean: a rate far below its share neither leaps nor takes very long to recover.
            step = math.sqrt(self._base * self._rate) * _INCREASE_PER_S
            self._rate += step * seconds * (1 + _ACCELERATION_PER_S * self._unthrottled_s)
