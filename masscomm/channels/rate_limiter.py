"""Limits the rate at which one function environment calls a provider: its share of the account's quota, adapted to
throttled calls.

The rate increases additively while no call is throttled, and decreases multiplicatively by the share of throttled
calls. Environments do not communicate: each one adapts to its own throttled calls, and thereby they share the account's
rate (lab/benchmarks/rate_limiter.py).
"""

import math

from masscomm.clock import Clock

# The results of calls are evaluated together once per window: a single throttled call is not evidence.
_WINDOW_S = 0.2
_MIN_CALLS = 5
# The factors by which the rate decreases (times the share of throttled calls) and increases (per second without a
# throttled call).
_DECREASE = 0.5
_MIN_DECREASE = 0.01
_INCREASE_PER_S = 0.05
# The increase itself grows by this share with each second without a throttled call, for a quick recovery after an
# outage.
_ACCELERATION_PER_S = 0.5
# The rate does not increase while the calls use less than this share of it.
_BUSY = 0.8
# Slots that were missed within this time, while a slice of results was recorded or a batch fetched, may be used later.
_CATCH_UP_S = 0.2
# No slot is reserved further in the future than this, because the rate may change until then.
_MAX_WAIT_S = 0.25
_FLOOR_PER_S = 1.0


class RateLimiter:
    """Limits the calls to one provider account in one region, or from one sender. An instance belongs to one event
    loop. A call takes one unit of the rate; an SMS takes one for each segment.

    Args:
        per_s: The environment's share of the account's quota in calls per second. None: the rate is unlimited until the
            first throttled call shows which rate the provider accepts.
        floor_per_s: The lowest rate in calls per second.
    """

    def __init__(self, clock: Clock, *, per_s: float | None = None, floor_per_s: float = _FLOOR_PER_S) -> None:
        self._clock = clock
        self._rate = per_s
        self._base = per_s
        self._floor = floor_per_s
        self._next = -1.0
        self._begin(clock.monotonic())
        self._unthrottled_s = 0.0

    @property
    def per_s(self) -> float | None:
        """Return the current rate in calls per second; None while it is unlimited."""
        return self._rate

    async def take(self, units: int = 1) -> bool:
        """Wait for a slot of so many units. Return False if no slot becomes free within a short time; the caller may
        try again if time remains.
        """
        reserved, wait_s = self.reserve(units)
        if wait_s > 0:
            await self._clock.pause(wait_s)
        return reserved

    def reserve(self, units: int = 1) -> tuple[bool, float]:
        """Return whether a slot is reserved, and the seconds to wait for the slot or until another try. The call goes
        out at the beginning of its slot, and the next one waits until all its units have passed.
        """
        if self._rate is None:  # guard: provider.rate_limit
            return True, 0.0
        now = self._clock.monotonic()
        slot = max(self._next, now - _CATCH_UP_S)
        wait_s = slot - now
        if wait_s > _MAX_WAIT_S:
            return False, _MAX_WAIT_S
        self._next = slot + units / self._rate
        return True, max(0.0, wait_s)

    def answered(self, *, throttled: bool, units: int = 1) -> None:
        self._calls += 1
        self._units += units
        self._throttled += units if throttled else 0
        now = self._clock.monotonic()
        seconds = now - self._since
        if seconds >= _WINDOW_S and self._calls >= _MIN_CALLS:
            self._adjust(seconds)
            self._begin(now)

    def _begin(self, now: float) -> None:
        self._since, self._calls, self._units, self._throttled = now, 0, 0, 0

    def _adjust(self, seconds: float) -> None:
        # The rate decreases by half of the throttled share: other environments caused a part of the burst, and they
        # slow down as well.
        decrease = max(_MIN_DECREASE, _DECREASE * self._throttled / self._units)
        if self._throttled:
            self._unthrottled_s = 0.0
            if self._rate is None:
                self._base = self._units / seconds
            self._rate = max(self._floor, (self._rate or self._base or 0) * (1 - decrease))
        elif self._rate is not None and self._base is not None and self._units / seconds >= _BUSY * self._rate:
            self._unthrottled_s += seconds
            # The step is proportional to the geometric mean of the configured and the current rate, so that a rate far
            # below its share recovers soon, and without a jump.
            step = math.sqrt(self._base * self._rate) * _INCREASE_PER_S
            self._rate += step * seconds * (1 + _ACCELERATION_PER_S * self._unthrottled_s)
