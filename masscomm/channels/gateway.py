"""The provider gateway: it calls the providers of push messages and e-mails from one event loop.

A call waits for the rate limiter. It is made if the circuit breaker permits it and enough time remains. The retry
policy repeats failed calls for as long as the provider accepts other calls.
"""

import math
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from masscomm.channels.circuit_breaker import OutageCircuitBreaker
from masscomm.channels.provider import CALL_S
from masscomm.channels.rate_limiter import RateLimiter
from masscomm.channels.retry_policy import RetryPolicy
from masscomm.clock import Clock
from masscomm.domain.call_results import ONE_MESSAGE, CallAnswer, CallRate, Shortened
from masscomm.domain.provider_errors import (
    ApplicationOff,
    NotTried,
    OptedOut,
    ProviderError,
    Refused,
    Rejected,
    TargetGone,
    Transient,
)
from masscomm.domain.time_limits import OUTAGE_TIMEOUT_S
from masscomm.observability import logs, metrics
from masscomm.observability.metric_names import PROVIDER_CALLS, PROVIDER_ERRORS, PROVIDER_LATENCY, PROVIDER_THROTTLES

if TYPE_CHECKING:
    # asyncio is imported with the first call, so that it is not part of a cold start.
    import asyncio

logger = logs.logger("delivery")

# The largest number of concurrent provider calls: three devices of each of the recipients that may be unrecorded.
WORKERS = 120


class CallScope(Protocol):
    """The delivery record for which provider calls are made."""

    @property
    def channel(self) -> str:
        """The channel of the calls."""
        ...

    @property
    def log_keys(self) -> Mapping[str, Any]:
        """The keys of log lines about the record."""
        ...

    def remaining_s(self) -> Awaitable[float]:
        """Return the seconds that remain until every call of the record must have ended."""
        ...


class ProviderCall(NamedTuple):
    """One call to a provider. `make` returns the message id, or raises ProviderError."""

    scope: CallScope
    make: Callable[[], Awaitable[str | Shortened]]
    rate: CallRate = ONE_MESSAGE


# The lowest rate of a sender: several environments may share one that sends a segment a second.
_SENDER_FLOOR_PER_S = 0.1

_NO_TIME = CallAnswer(error=NotTried("no time was left for another call"), tried=False)


def event_loop() -> Callable[[Coroutine[Any, Any, Any]], Any]:
    """Return a function that runs a coroutine in the event loop of this environment. The loop is created at the
    first call.

    The loop runs in the caller's thread, and only while a coroutine runs: the handler has nothing else to do meanwhile.
    """
    made: list[asyncio.AbstractEventLoop] = []

    def run(work: Coroutine[Any, Any, Any]) -> Any:
        import asyncio

        if not made:
            loop = asyncio.new_event_loop()
            # A call is sent when its task is created, without a turn of the loop.
            loop.set_task_factory(asyncio.eager_task_factory)
            made.append(loop)
        return made[0].run_until_complete(work)

    return run


@dataclass(frozen=True, kw_only=True)
class ProviderGateway:
    """Makes provider calls. Each function environment has one instance.

    A call does not begin if it could end after the time limit of its record: the delivery ledger would not contain the
    published message, or another invocation would publish it as well.
    """

    clock: Clock
    # The rate limiter of each channel.
    rate_limiters: Mapping[str, RateLimiter]
    # The largest number of concurrent provider calls.
    workers: int = WORKERS
    # The time limit of a provider call in seconds.
    call_s: float = CALL_S
    # Seconds without an accepted message after which a provider is only probed.
    outage_timeout_s: float = OUTAGE_TIMEOUT_S
    retry_policy: RetryPolicy = field(default_factory=RetryPolicy)
    # A function that runs a coroutine in the event loop.
    run: Callable[[Coroutine[Any, Any, Any]], Any] = field(default_factory=event_loop)
    _breakers: dict[str, OutageCircuitBreaker] = field(default_factory=dict)
    # The rate limiters of senders by channel and sender.
    _senders: dict[tuple[str, str], RateLimiter] = field(default_factory=dict)

    def publish_all(self, calls: Sequence[ProviderCall], *, retry_budget_s: float = math.inf) -> list[CallAnswer]:
        """Make every call; return the answers in the order of the calls.

        The answer of a call is a transient error if the time or the retry budget is used up, and NotTried if the
        provider was not called. An unexpected exception also becomes a transient error: it concerns one recipient, and
        the results of the others must not be lost.

        Args:
            calls: The provider calls, of any records and channels.
            retry_budget_s: Seconds after which no failed call is repeated.
        """
        if not calls:
            return []
        answers: list[CallAnswer] = self.run(self._publish_all(calls, self.clock.monotonic() + retry_budget_s))
        return answers

    async def _publish_all(self, calls: Sequence[ProviderCall], until: float) -> list[CallAnswer]:
        answers = [_NO_TIME] * len(calls)
        await self._round(calls, range(len(calls)), answers, until, repeated=False)
        pause_s = self.retry_policy.first_pause_s
        # Every call is made once before any call is repeated: a refused call must not keep other calls waiting.
        while failed := [place for place, answer in enumerate(answers) if answer.retryable]:
            pause_s = self.retry_policy.next_pause_s(pause_s)
            if self.clock.monotonic() + pause_s > until:
                break
            repeated = await self._repeatable(calls, failed, pause_s)
            if not repeated:
                break
            await self.clock.pause(pause_s)
            await self._round(calls, repeated, answers, until, repeated=True)
        return answers

    async def _repeatable(self, calls: Sequence[ProviderCall], failed: Iterable[int], pause_s: float) -> list[int]:
        """Return the failed calls that may be repeated after the pause, according to their provider and their
        record.
        """
        channels = {calls[place].scope.channel for place in failed}
        permitted = {channel for channel in channels if self._breaker(channel).may_retry(pause_s)}
        scopes = {scope for place in failed if (scope := calls[place].scope).channel in permitted}
        in_time = {scope for scope in scopes if await scope.remaining_s() >= pause_s + self.call_s}
        return [place for place in failed if calls[place].scope in in_time]

    async def _round(
        self,
        calls: Sequence[ProviderCall],
        places: Sequence[int],
        answers: list[CallAnswer],
        until: float,
        *,
        repeated: bool,
    ) -> None:
        """Make the calls with these indices, and store their answers."""
        pending = iter(places)

        async def work() -> None:
            for place in pending:
                answer = await self._publish(calls[place], until, repeated=repeated)
                before = answers[place]
                if before.may_be_accepted:
                    answer = answer._replace(may_be_accepted=True)
                answers[place] = answer if answer.tried or not repeated else before._replace(retryable=False)

        if len(places) == 1:
            await work()
            return
        import asyncio

        workers = [asyncio.create_task(work()) for _ in range(min(self.workers, len(places)))]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()

    async def _publish(self, call: ProviderCall, until: float, *, repeated: bool) -> CallAnswer:
        """Make a call. While the provider throttles it, repeat it at the allowed rate."""
        scope, channel = call.scope, call.scope.channel
        rate_limiter, breaker = self._rate_limiter(channel, call.rate), self._breaker(channel)
        units = call.rate.units
        answer = _NO_TIME
        while await scope.remaining_s() >= self.call_s:  # guard: provider.time_budget
            if not await rate_limiter.take(units):
                continue
            if not breaker.may_call():
                text = f"the provider has accepted nothing for {self.outage_timeout_s:.0f} s"
                return CallAnswer(error=Transient(text), tried=False)
            began = self.clock.monotonic()
            answer = await self._call(call, breaker, repeated=repeated)
            _measure(channel, answer, self.clock.monotonic() - began)
            throttled = isinstance(answer.error, Transient) and answer.error.throttled
            rate_limiter.answered(throttled=throttled, units=units)
            # Only the rate limiter slows these retries down.
            if (
                not throttled
                or rate_limiter.per_s is None
                or self.clock.monotonic() > until
                or not breaker.may_retry(0)
            ):
                break
            repeated = True
        return answer

    async def _call(self, call: ProviderCall, breaker: OutageCircuitBreaker, *, repeated: bool) -> CallAnswer:
        try:
            found = await call.make()
        except ApplicationOff as error:
            # The application stays disabled until an operator acts, so a retry within this invocation is useless.
            breaker.not_called()
            return CallAnswer(error=error)
        except Transient as error:
            breaker.failed(repeated=repeated)
            # The provider may have accepted the message each time, so a further call could deliver one more copy.
            # guard: provider.lost_answers
            retryable = not (repeated and error.answer_lost)
            return CallAnswer(error=error, retryable=retryable, may_be_accepted=error.may_be_accepted)
        except TargetGone as error:
            breaker.succeeded()
            return CallAnswer(error=error)
        except ProviderError as error:
            breaker.not_called()
            return CallAnswer(error=error)
        except Exception as fault:
            breaker.not_called()
            with logs.about(call.scope.log_keys):
                logger.exception("a provider call failed in our own code")
            return CallAnswer(error=Transient(f"a fault in the code: {fault!r}"[:500]), may_be_accepted=True)
        breaker.succeeded()
        return CallAnswer.accepted(found)

    def _rate_limiter(self, channel: str, rate: CallRate) -> RateLimiter:
        """Return the rate limiter of a call: that of its sender, if each has a rate of its own, so that a slow sender
        of one tenant does not slow down the others.
        """
        shared = self.rate_limiters[channel]
        if rate.sender_per_s is None:
            return shared
        key = (channel, rate.sender)
        if key not in self._senders:
            per_s = min(rate.sender_per_s, shared.per_s or math.inf)
            self._senders[key] = RateLimiter(self.clock, per_s=per_s, floor_per_s=min(per_s, _SENDER_FLOOR_PER_S))
        return self._senders[key]

    def _breaker(self, channel: str) -> OutageCircuitBreaker:
        if channel not in self._breakers:
            self._breakers[channel] = OutageCircuitBreaker(self.clock, self.outage_timeout_s)
        return self._breakers[channel]


def _measure(channel: str, answer: CallAnswer, seconds: float) -> None:
    """Count a call and its result, unless the call ended before it reached the provider."""
    error = answer.error
    is_answer = isinstance(error, Transient | TargetGone | OptedOut | Rejected) and not isinstance(error, Refused)
    if error is not None and not is_answer:  # guard: metrics.calls_without_invalid_addresses
        return
    metrics.add(PROVIDER_CALLS[channel])
    metrics.add(PROVIDER_LATENCY[channel], seconds * 1000)
    if isinstance(answer.error, Transient):
        metrics.add((PROVIDER_THROTTLES if answer.error.throttled else PROVIDER_ERRORS)[channel])
