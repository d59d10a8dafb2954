"""The provider gateway keeps the order of calls, pauses after errors, and isolates errors of single calls."""

import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from masscomm.channels.gateway import ProviderCall
from masscomm.channels.rate_limiter import RateLimiter
from masscomm.clock import FixedClock
from masscomm.domain.call_results import CallAnswer
from masscomm.domain.provider_errors import NotTried, Rejected, Transient
from tests.support.fakes.crashes import KilledError
from tests.support.harness.chain import NOW
from tests.support.harness.delivery import gateway


@dataclass(frozen=True)
class Scope:
    """A scope of calls that ends `seconds` after NOW."""

    clock: FixedClock
    channel: str = "push"
    seconds: float = 60.0

    @property
    def log_keys(self) -> Mapping[str, Any]:
        return {}

    async def remaining_s(self) -> float:
        return self.seconds - (self.clock.monotonic() - NOW / 1000)


def _calls(clock: FixedClock, *makes: Callable[[], Awaitable[str]], **options: Any) -> list[CallAnswer]:
    calls = [ProviderCall(Scope(clock), make) for make in makes]
    return gateway(clock, **options).publish_all(calls)


def _accepting(message_id: str) -> Callable[[], Awaitable[str]]:
    async def accept() -> str:
        return message_id

    return accept


def _failing(*errors: Exception) -> Callable[[], Awaitable[str]]:
    """Return a call that fails with each error in turn, then with the last one for ever."""
    pending = list(errors)

    async def fail() -> str:
        raise pending.pop(0) if len(pending) > 1 else pending[0]

    return fail


def test_answers_are_in_the_order_of_the_calls() -> None:
    answers = _calls(FixedClock(NOW), _accepting("a"), _failing(Rejected("no")), _accepting("c"))
    assert [answer.message_id for answer in answers] == ["a", None, "c"]
    assert isinstance(answers[1].error, Rejected)


def test_pauses_grow_with_jitter_and_stay_bounded() -> None:
    pauses: list[float] = []

    class Pausing(FixedClock):
        async def pause(self, seconds: float) -> None:
            pauses.append(seconds)
            await super().pause(seconds)

    clock = Pausing(NOW)
    (answer,) = _calls(clock, _failing(Transient("InternalError")), outage_timeout_s=math.inf)
    assert isinstance(answer.error, Transient)
    assert all(0.1 <= pause <= 2 for pause in pauses)
    assert len(set(pauses)) == len(pauses) > 5
    assert clock.now_ms() - NOW <= 52_000


def test_throttled_call_takes_the_next_slot_of_the_rate() -> None:
    clock = FixedClock(NOW)
    throttled = 3

    async def throttle() -> str:
        nonlocal throttled
        if throttled:
            throttled -= 1
            raise Transient("Throttled", throttled=True)
        return "id"

    (answer,) = _calls(clock, throttle, rate_limiters={"push": RateLimiter(clock, per_s=100)})
    assert answer.message_id == "id"
    assert clock.monotonic() - NOW / 1000 < 0.1


def test_call_without_time_is_not_tried() -> None:
    clock = FixedClock(NOW)
    scopes = [Scope(clock), Scope(clock, seconds=7.9)]
    first, second = gateway(clock).publish_all([ProviderCall(scope, _accepting("a")) for scope in scopes])
    assert first.message_id == "a"
    assert isinstance(second.error, NotTried)
    assert not second.tried


def test_outage_of_one_channel_stops_no_other() -> None:
    clock = FixedClock(NOW)
    shared = gateway(clock)
    down = [ProviderCall(Scope(clock), _failing(Transient("down"))) for _ in range(20)]
    assert all(answer.error for answer in shared.publish_all(down))
    answers = shared.publish_all([*down, ProviderCall(Scope(clock, channel="email"), _accepting("a"))])
    assert [answer.message_id for answer in answers if answer.message_id] == ["a"]
    assert sum(answer.tried for answer in answers) <= 2


@pytest.mark.kills(guard="provider.lost_answers")
def test_call_is_repeated_once_after_a_lost_answer() -> None:
    """The provider may have accepted each of the calls."""
    clock, calls = FixedClock(NOW), 0

    async def lose() -> str:
        nonlocal calls
        calls += 1
        raise Transient("cut", answer_lost=True)

    (answer,) = _calls(clock, lose)
    assert isinstance(answer.error, Transient)
    assert calls == 2


def test_retry_budget_bounds_the_retries() -> None:
    clock = FixedClock(NOW)
    calls = [
        ProviderCall(Scope(clock), _failing(Transient("InternalError"))),
        ProviderCall(Scope(clock), _accepting("a")),
    ]
    gateway(clock).publish_all(calls, retry_budget_s=3)
    assert clock.monotonic() - NOW / 1000 <= 3


def test_killed_call_ends_the_others() -> None:
    clock = FixedClock(NOW)
    made: list[int] = []

    def call(number: int) -> Callable[[], Awaitable[str]]:
        async def make() -> str:
            made.append(number)
            if number == 1:
                raise KilledError
            await clock.pause(1)
            return "id"

        return make

    with pytest.raises(KilledError):
        _calls(clock, *map(call, range(10)), workers=2)
    assert 0 < len(made) < 10
