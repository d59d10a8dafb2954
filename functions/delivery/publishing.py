"""Publishing with bounded concurrency, and again with jitter for as long as the provider is worth it."""

import math
import random
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial

from masscomm.channels.provider import CALL_S, ApplicationOff, ProviderError, Rejected, TargetGone, Transient
from masscomm.channels.rate_limiter import RateLimiter
from masscomm.clock import Clock
from masscomm.observability import logs, metrics
from masscomm.observability.metric_names import PROVIDER_CALLS, PROVIDER_ERRORS, PROVIDER_LATENCY, PROVIDER_THROTTLES

logger = logs.logger("delivery")

OUTAGE_TIMEOUT_S = 10.0
_FIRST_PAUSE_S = 0.1
# A pause and a call after it fit into what a lease has left when it is not renewed yet (slices.py).
_LONGEST_PAUSE_S = 2.0
_PROBE_EVERY_S = 1.0
# One that is refused again and again may be at fault itself; so many are not.
_SEVERAL = 5


class NotTried(Transient):
    """There was no time for the call: nobody was asked."""


@dataclass(frozen=True, kw_only=True)
class Published:
    """What the provider said to one call: a message id, or an error; again: that may be another one the next time.

    tried: False where the provider was not asked.
    """

    message_id: str | None = None
    error: ProviderError | None = None
    again: bool = False
    tried: bool = True


class Outage:
    """Decides whether calls to a provider continue: not after an outage timeout without any success.

    After failures for several recipients only one call a second probes the provider; other calls fail at once.
    Thread-safe.
    """

    def __init__(self, clock: Clock, outage_timeout_s: float) -> None:
        self._clock = clock
        self._outage_timeout_s = outage_timeout_s
        self._since: float | None = None  # the first refusal after the last success
        self._last = 0.0  # the last refusal
        self._from = 0  # how many calls were refused since, not counting their repetitions
        self._probe_at: float | None = None  # after the outage timeout
        self._lock = threading.Lock()

    def may_call(self) -> bool:
        """Whether to make a call; whoever is told so says what came of it."""
        with self._lock:
            now = self._clock.monotonic()
            self._forget_what_is_old(now)
            if self._probe_at is None:
                return True
            if now < self._probe_at:
                return False
            self._probe_at = now + CALL_S + _PROBE_EVERY_S  # the others wait for what this one learns
            return True

    def answered(self) -> None:
        """It took a message, or knows the device no more: it works."""
        with self._lock:
            self._since, self._from, self._probe_at = None, 0, None

    def not_asked(self) -> None:
        """The call came to nothing before it reached the provider."""
        with self._lock:
            if self._probe_at is not None:
                self._probe_at = self._clock.monotonic()

    def refused(self, *, again: bool = False) -> None:
        """It took nothing; again: of what it had refused already."""
        with self._lock:
            now = self._clock.monotonic()
            self._forget_what_is_old(now)
            self._since, self._last = now if self._since is None else self._since, now
            self._from += not again
            if self._probe_at is not None:
                self._probe_at = now + _PROBE_EVERY_S

    def worth_another(self, pause_s: float) -> bool:
        """Whether to try again after the pause what it did not take."""
        with self._lock:
            now = self._clock.monotonic()
            if self._since is None or now + pause_s <= self._since + self._outage_timeout_s:
                return True
            if self._from >= _SEVERAL:
                self._probe_at = self._probe_at or now + _PROBE_EVERY_S
            return False

    def _forget_what_is_old(self, now: float) -> None:
        """What failed long ago says nothing of now."""
        if now - self._last > self._outage_timeout_s + _LONGEST_PAUSE_S + CALL_S:
            self._since, self._from, self._probe_at = None, 0, None


@dataclass(frozen=True, kw_only=True)
class Publisher:
    """Makes a record's provider calls.

    rate_limiters: by channel; workers: concurrent calls; call_s: the longest duration of a call; outage_timeout_s:
    seconds without an accepted message after which the provider is probed only.

    No call begins that could end after the invocation or the record's lease: what is published then is known to nobody
    or to another, and is published again.
    """

    clock: Clock
    rate_limiters: Mapping[str, RateLimiter]
    workers: int
    call_s: float = CALL_S
    outage_timeout_s: float = OUTAGE_TIMEOUT_S
    _random: random.Random = field(default_factory=random.Random)
    _outages: dict[str, Outage] = field(default_factory=dict)

    def publish_all(
        self,
        calls: Iterable[Callable[[], str]],
        remaining_s: Callable[[], float],
        *,
        channel: str,
        retry_budget_s: float = math.inf,
    ) -> list[Published]:
        """Make every call, in any order; the answers stand in the calls' order.

        remaining_s: seconds until every call must have ended; channel: what the provider is for; retry_budget_s:
        seconds after which none of them is repeated, however well the provider does. A transient error stays where
        the time or the retry budget is used up, NotTried where nobody was asked. A fault in the code is such an
        error, at once: it concerns one recipient, and what was published to the others must not be forgotten over it.
        """
        outage = self._outages.setdefault(channel, Outage(self.clock, self.outage_timeout_s))
        until, pause = self.clock.monotonic() + retry_budget_s, _FIRST_PAUSE_S
        # A worker's lines are about the same record as ours.
        publish = logs.carried(partial(self._publish, remaining_s, outage, channel, until))
        made = list(calls)
        with ThreadPoolExecutor(self.workers) as pool:
            answers = list(pool.map(partial(publish, again=False), made))
            # Everybody has a turn before anybody has a second one: who is refused must not keep others from a worker.
            while again := [place for place, answer in enumerate(answers) if answer.again]:
                # Decorrelated jitter: pauses grow, and no two functions stay in step.
                pause = self._random.uniform(_FIRST_PAUSE_S, min(_LONGEST_PAUSE_S, pause * 3))
                too_late = self.clock.monotonic() + pause > until or remaining_s() < pause + self.call_s
                if too_late or not outage.worth_another(pause):
                    break
                self.clock.sleep(pause)
                repeated = pool.map(partial(publish, again=True), [made[place] for place in again])
                for place, answer in zip(again, repeated, strict=True):
                    answers[place] = answer if answer.tried else replace(answers[place], again=False)
        return answers

    def _publish(
        self,
        remaining_s: Callable[[], float],
        outage: Outage,
        channel: str,
        until: float,
        call: Callable[[], str],
        *,
        again: bool,
    ) -> Published:
        """One call, and again at once, at the allowed rate, as long as the provider only throttles."""
        rate_limiter = self.rate_limiters[channel]
        told: Published = Published(error=NotTried("no time was left for another call"), tried=False)
        while remaining_s() >= self.call_s:  # guard: provider.time_budget
            if not rate_limiter.take():
                continue
            if not outage.may_call():
                nothing = f"the provider has taken nothing for {self.outage_timeout_s:.0f} s"
                return Published(error=Transient(nothing), tried=False)
            began = self.clock.monotonic()
            told = self._call(call, outage, again=again)
            _measure(channel, told, self.clock.monotonic() - began)
            throttled = isinstance(told.error, Transient) and told.error.throttled
            rate_limiter.answered(throttled=throttled)
            # Without a rate nothing would slow the retries down.
            if (
                not throttled
                or rate_limiter.per_s is None
                or self.clock.monotonic() > until
                or not outage.worth_another(0)
            ):
                break
            again = True
        return told

    def _call(self, call: Callable[[], str], outage: Outage, *, again: bool) -> Published:
        try:
            message_id = call()
        except ApplicationOff as off:  # until an operator acts: no use in waiting here
            outage.not_asked()
            return Published(error=off)
        except Transient as refusal:
            outage.refused(again=again)
            return Published(error=refusal, again=True)
        except TargetGone as gone:
            outage.answered()
            return Published(error=gone)
        except ProviderError as error:
            outage.not_asked()
            return Published(error=error)
        except Exception as fault:
            outage.not_asked()
            logger.exception("a provider call failed in our own code")
            return Published(error=Transient(f"a fault in the code: {fault!r}"[:500]))
        outage.answered()
        return Published(message_id=message_id)


def _measure(channel: str, told: Published, seconds: float) -> None:
    """What a call came to; one that ended before it reached the provider was none."""
    if told.error is not None and not isinstance(told.error, Transient | TargetGone | Rejected):
        return
    metrics.add(PROVIDER_CALLS[channel])
    metrics.add(PROVIDER_LATENCY[channel], seconds * 1000)
    if isinstance(told.error, Transient):
        metrics.add((PROVIDER_THROTTLES if told.error.throttled else PROVIDER_ERRORS)[channel])
