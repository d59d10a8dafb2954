"""The rate limiter in a simulation of several environments that share one quota."""

import asyncio
import heapq
from dataclasses import dataclass, field

import pytest

from masscomm.channels.rate_limiter import RateLimiter
from masscomm.clock import FixedClock
from tests.support.harness.chain import NOW

CALL_S = 0.001


@dataclass
class Provider:
    """A provider that accepts per_s calls a second and a tenth of these at once."""

    per_s: float
    taken: list[float] = field(default_factory=list)
    refused: int = 0
    _tokens: float = 0.0
    _at: float = NOW / 1000

    def call(self, now: float) -> bool:
        """Make a call. Returns whether it was throttled."""
        self._tokens = min(self.per_s / 10, self._tokens + (now - self._at) * self.per_s)
        self._at = now
        if self._tokens < 1:
            self.refused += 1
            return True
        self._tokens -= 1
        self.taken.append(now)
        return False

    def used(self, since_s: float, until_s: float) -> float:
        """Return the used share of the quota between two times, in seconds after the start."""
        begun = NOW / 1000
        taken = sum(begun + since_s <= at < begun + until_s for at in self.taken)
        return taken / (self.per_s * (until_s - since_s))


class Own(FixedClock):
    """The clock of one environment, which also has fractions of a millisecond."""

    def __init__(self) -> None:
        super().__init__(NOW)
        self.at = NOW / 1000

    def monotonic(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.at += seconds


class Environment:
    """An environment that always has another message to publish."""

    def __init__(self, per_s: float | None, *, begins_s: float = 0.0) -> None:
        self.clock = Own()
        self.clock.at += begins_s
        self.rate_limiter = RateLimiter(self.clock, per_s=per_s)
        self.taken = 0


def take(clock: Own, rate_limiter: RateLimiter) -> bool:
    """Reserve a call's slot and wait for it, as RateLimiter.take does, without an event loop."""
    reserved, wait_s = rate_limiter.reserve()
    clock.sleep(wait_s)
    return reserved


def run(provider: Provider, environments: list[Environment], seconds: float) -> None:
    """Let the environment with the earliest clock make the next call, until every clock has reached the end."""
    ready = [(environment.clock.at, place) for place, environment in enumerate(environments)]
    heapq.heapify(ready)
    end = NOW / 1000 + seconds
    while ready and ready[0][0] < end:
        _, place = heapq.heappop(ready)
        environment = environments[place]
        if take(environment.clock, environment.rate_limiter):
            throttled = provider.call(environment.clock.at)
            environment.taken += not throttled
            environment.clock.at += (
                CALL_S if environment.rate_limiter.per_s is None else 0
            )  # while the rate is limited, other workers of the environment call during this call
            environment.rate_limiter.answered(throttled=throttled)
        heapq.heappush(ready, (environment.clock.at, place))


@pytest.mark.guarantee("provider_down.rate_converges")
@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("configured", [None, 0.5, 1.0, 3.0])
def test_environments_converge_to_the_allowed_rate(count: int, configured: float | None) -> None:
    provider = Provider(per_s=400)
    share = None if configured is None else configured * 400 / count
    environments = [Environment(share) for _ in range(count)]
    run(provider, environments, 40)
    assert provider.used(20, 40) >= 0.97
    assert provider.refused > 0
    assert provider.refused / (provider.refused + len(provider.taken)) < 0.15


def test_each_environment_gets_a_share_of_the_rate() -> None:
    provider = Provider(per_s=400)
    environments = [Environment(100), Environment(100), Environment(100, begins_s=5), Environment(100, begins_s=10)]
    run(provider, environments, 60)
    shares = [environment.taken / sum(each.taken for each in environments) for environment in environments]
    assert min(shares) > 0.1
    late = [environment.rate_limiter.per_s or 0 for environment in environments]
    assert min(late) > 30


def test_rate_that_rises_again_is_used_again() -> None:
    provider = Provider(per_s=400)
    environments = [Environment(100) for _ in range(4)]
    run(provider, environments, 10)
    provider.per_s = 40
    run(provider, environments, 20)
    assert provider.used(14, 20) >= 0.9
    provider.per_s = 400
    run(provider, environments, 50)
    assert provider.used(35, 50) >= 0.97


def test_remaining_environment_takes_over_the_whole_rate() -> None:
    provider = Provider(per_s=400)
    staying = Environment(100)
    run(provider, [staying, Environment(300)], 10)
    run(provider, [staying], 60)
    assert provider.used(45, 60) >= 0.97


def test_idle_environment_does_not_raise_its_rate() -> None:
    clock = Own()
    rate_limiter = RateLimiter(clock, per_s=100)
    for _ in range(500):
        assert take(clock, rate_limiter)
        rate_limiter.answered(throttled=False)
        clock.sleep(0.05)
    assert rate_limiter.per_s == 100


def test_rate_recovers_from_its_floor() -> None:
    clock = Own()
    rate_limiter = RateLimiter(clock, per_s=50, floor_per_s=10)
    for _ in range(500):
        if take(clock, rate_limiter):
            rate_limiter.answered(throttled=True)
    assert rate_limiter.per_s == 10
    for _ in range(5_000):
        if take(clock, rate_limiter):
            rate_limiter.answered(throttled=False)
    assert rate_limiter.per_s >= 50


def test_turns_are_spaced_and_not_reserved_far_ahead() -> None:
    clock = Own()
    rate_limiter = RateLimiter(clock, per_s=10)
    begun = clock.at
    for _ in range(30):
        while not take(clock, rate_limiter):
            pass
    assert clock.at - begun == pytest.approx((30 - 1) / 10 - 0.2, abs=0.001)


def test_concurrent_calls_share_one_rate() -> None:
    """At 100 calls a second, the limiter makes up 0.2 s (20 calls) and reserves 0.25 s ahead (25 calls)."""
    rate_limiter = RateLimiter(Own(), per_s=100)
    assert 44 <= sum(rate_limiter.reserve()[0] for _ in range(100)) <= 47


def test_calls_wait_for_their_slots_concurrently() -> None:
    clock = FixedClock(NOW)
    rate_limiter = RateLimiter(clock, per_s=10)

    async def take_all() -> list[bool]:
        return await asyncio.gather(*(rate_limiter.take() for _ in range(5)))

    assert all(asyncio.run(take_all()))
    assert clock.monotonic() - NOW / 1000 == pytest.approx(0.2)
