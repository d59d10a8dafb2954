"""Requests that wait for a change: how long, and how many of one API key at the same time (request_slots.py)."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Self

from masscomm import environment
from masscomm.clock import Clock
from masscomm.domain.time_limits import STREAM_POLL_S, STREAM_RESERVE_S, STREAM_RETRY_AFTER_S, STREAM_WAIT_S
from masscomm.errors import Retry
from masscomm.http import parameters as parse
from masscomm.http.problem import Problem
from masscomm.observability import logs, metrics
from masscomm.observability.metric_names import POLLS_UNCOUNTED
from masscomm.stores.request_slots.port import Kind, RequestSlots, holding
from masscomm.texts import Text

# The default of METRICS_OPEN_POLLS: how many requests of one API key may wait at the same time.
OPEN_POLLS = 5

logger = logs.logger("masscomm")

parse_wait = parse.whole_number(0, STREAM_WAIT_S)


@dataclass(frozen=True)
class Waiting:
    """Requests that wait. All environments share `slots`; `open_polls` is the limit for each API key."""

    clock: Clock
    slots: RequestSlots
    open_polls: int = OPEN_POLLS

    @classmethod
    def from_environment(cls, clock: Clock) -> Self:
        """Return the waiting requests with their slots in DynamoDB. Raises Stop if a variable is missing or invalid."""
        from masscomm.stores.request_slots.dynamodb import DynamoDbRequestSlots

        open_polls = environment.whole_number("METRICS_OPEN_POLLS", OPEN_POLLS)
        return cls(clock, DynamoDbRequestSlots.from_environment(), open_polls)

    def until[T](
        self,
        moved: Callable[[T], bool],
        read: Callable[[], T],
        *,
        wait: int | None,
        caller: str,
        remaining_s: float,
        poll_s: float = STREAM_POLL_S,
    ) -> T:
        """Return the first state that has moved, or the last state when the wait ends. A request whose first state
        has moved, or that may not wait, needs no slot.

        Args:
            moved: Returns whether a state is the one that the request waits for.
            read: Returns the present state. It must be cheap: it is called each `poll_s` seconds.
            wait: The maximum wait in seconds; None: the longest.
            caller: The id of the API key.
            remaining_s: The remaining time of the invocation in seconds.
            poll_s: The interval of the calls.

        Raises:
            Problem: With status 429 if all of the key's slots are taken.
            Stop: The store of slots is missing or not permitted.
        """
        wait_s = min(STREAM_WAIT_S if wait is None else wait, remaining_s - STREAM_RESERVE_S)
        state = read()
        if moved(state) or wait_s <= 0:
            return state
        with self._slot(caller, remaining_s) as may_wait:
            deadline = self.clock.monotonic() + wait_s
            while may_wait and not moved(state) and (left := deadline - self.clock.monotonic()) > 0:
                self.clock.sleep(min(poll_s, left))
                state = read()
            return state

    @contextmanager
    def _slot(self, caller: str, remaining_s: float) -> Iterator[bool]:
        """Hold a slot while the request waits; yield whether it may wait. Raises Problem with status 429, or Stop."""
        now_ms = self.clock.now_ms()
        with ExitStack() as held:
            try:
                has_slot = held.enter_context(
                    holding(self.slots, Kind.POLL, caller, self.open_polls, now_ms=now_ms, remaining_s=remaining_s)
                )
            except Retry as error:
                # If waiting requests cannot be counted, no request may wait: they would occupy every environment.
                logger.warning("open polls are not counted, this one is answered at once", error=str(error))
                metrics.add(POLLS_UNCOUNTED)
                yield False
                return
            if not has_slot:
                raise Problem(
                    429,
                    Text.POLLS_WAITING.filled(polls=self.open_polls),
                    retry_after_s=STREAM_RETRY_AFTER_S,
                )
            yield True
