"""How fast one function environment calls a provider: its share of the account's quota, then what the provider takes.

Additive increase while nothing is throttled, multiplicative decrease by the share that was. Environments know nothing
of each other: what each learns from its own throttles makes them share what the account is allowed
(benchmarks/pacing.py).
"""

import math
import threading

from masscomm.clock import Clock

# Throttles are looked at together: one alone says little.
_WINDOW_S = 0.2
_LEAST_CALLS = 5
# What throttles cost, of the share of calls that had them; and what a second without any adds.
_DECREASE = 0.5
_LEAST_DECREASE = 0.01
_INCREASE_PER_S = 0.05
# Each second without a throttle adds as much more than the one before: what was lost in an outage comes back soon.
_FASTER_PER_S = 0.5
# Who calls less often than may be is not held back by the rate: it does not grow then.
_BUSY = 0.8
# Turns missed while a slice is recorded or a batch fetched can be made up.
_MADE_UP_S = 0.2
# Nobody takes a turn further ahead: what happens until then is not known.
_AHEAD_S = 0.25
_FLOOR_PER_S = 1.0


class Pacer:
    """Turns to call one provider account in one region; thread-safe.

    per_s: the environment's share of the account's quota; None: as fast as it goes until the first throttle tells what
    is taken. floor_per_s: it is never slower.
    """

    def __init__(self, clock: Clock, *, per_s: float | None = None, floor_per_s: float = _FLOOR_PER_S) -> None:
        self._clock = clock
        self._rate = per_s
        self._base = per_s
        self._floor = floor_per_s
        self._next = -1.0
        self._lock = threading.Lock()
        self._begin(clock.monotonic())
        self._quiet_s = 0.0

    @property
    def per_s(self) -> float | None:
        """The present rate; None as long as there is none."""
        return self._rate

    def take(self) -> bool:
        """Wait for a turn; False where there was none for a moment: ask again, if there is still time."""
        with self._lock:
            now = self._clock.monotonic()
            if self._rate is None:  # guard: provider.rate_limit
                return True
            turn = max(self._next, now - _MADE_UP_S)
            wait = turn - now
            if wait <= _AHEAD_S:
                self._next = turn + 1 / self._rate
        if wait > 0:
            self._clock.sleep(min(wait, _AHEAD_S))
        return wait <= _AHEAD_S

    def answered(self, *, throttled: bool) -> None:
        """What a call that had its turn came to."""
        with self._lock:
            self._calls += 1
            self._throttled += throttled
            now = self._clock.monotonic()
            seconds = now - self._since
            if seconds >= _WINDOW_S and self._calls >= _LEAST_CALLS:
                self._adjust(seconds)
                self._begin(now)

    def _begin(self, now: float) -> None:
        self._since, self._calls, self._throttled = now, 0, 0

    def _adjust(self, seconds: float) -> None:
        # Half of what was refused too much: a burst of others is in it, and they slow down as well.
        decrease = max(_LEAST_DECREASE, _DECREASE * self._throttled / self._calls)
        if self._throttled:
            self._quiet_s = 0.0
            if self._rate is None:
                self._base = self._calls / seconds
            self._rate = max(self._floor, (self._rate or self._base or 0) * (1 - decrease))
        elif self._rate is not None and self._base is not None and self._calls / seconds >= _BUSY * self._rate:
            self._quiet_s += seconds
            # Between the two: a rate that has fallen far below its share must not leap, nor take for ever.
            step = math.sqrt(self._base * self._rate) * _INCREASE_PER_S
            self._rate += step * seconds * (1 + _FASTER_PER_S * self._quiet_s)
