"""Publishing with bounded concurrency, and again while time remains where the provider is busy or down."""

import math
import random
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from aws_lambda_powertools import Logger

from masscomm.channels.provider import CALL_S, ApplicationOff, ProviderError, Transient
from masscomm.clock import Clock

logger = Logger()

_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 5.0


@dataclass(frozen=True, kw_only=True)
class Published:
    """What the provider finally said to one call: a message id, or the error it stays with."""

    message_id: str | None = None
    error: ProviderError | None = None


@dataclass(frozen=True, kw_only=True)
class Publisher:
    """Makes a record's provider calls; workers: how many at once; call_s: the longest that one can take.

    No call begins that could end after the invocation or the record's lease: what is published then is known to nobody
    or to another, and is published again.
    """

    clock: Clock
    workers: int
    call_s: float = CALL_S
    _random: random.Random = field(default_factory=random.Random)

    def publish_all(
        self,
        calls: Iterable[Callable[[], str]],
        remaining_s: Callable[[], float],
        patience_s: float | None = None,
    ) -> list[Published]:
        """Make every call, in any order; the answers stand in the calls' order.

        remaining_s: seconds until every call must have ended. patience_s: seconds after which none is repeated, as
        long as the time allows where it is None. A transient error stays only where either is used up. A fault in the
        code is such an error, at once: it concerns one recipient, and what was published to the others must not be
        forgotten over it.
        """
        until = self.clock.monotonic() + (math.inf if patience_s is None else patience_s)
        with ThreadPoolExecutor(self.workers) as pool:
            return list(pool.map(lambda call: self._publish(call, remaining_s, until), calls))

    def _publish(self, call: Callable[[], str], remaining_s: Callable[[], float], until: float) -> Published:
        pause = _FIRST_PAUSE_S
        while True:
            if remaining_s() < self.call_s:
                return Published(error=Transient("no time was left for another call"))
            try:
                return Published(message_id=call())
            except ApplicationOff as error:  # until an operator acts: no use in waiting here
                return Published(error=error)
            except Transient as error:
                # Decorrelated jitter: pauses grow, and no two callers stay in step.
                pause = self._random.uniform(_FIRST_PAUSE_S, min(_LONGEST_PAUSE_S, pause * 3))
                if remaining_s() < pause + self.call_s or self.clock.monotonic() + pause > until:
                    return Published(error=error)
                self.clock.sleep(pause)
            except ProviderError as error:
                return Published(error=error)
            except Exception as error:
                logger.exception("a provider call failed in our own code")
                return Published(error=Transient(f"a fault in the code: {error!r}"[:500]))
