"""Limits how many requests of one kind, of more than a second of the processor, a caller has at the same time."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from masscomm.clock import Clock
from masscomm.domain.limits import COSTLY_REQUESTS
from masscomm.domain.time_limits import COSTLY_RETRY_AFTER_S
from masscomm.http.problem import Problem
from masscomm.http.rest import Request
from masscomm.stores.request_slots.port import Kind, RequestSlots, holding
from masscomm.texts import Text


@dataclass(frozen=True, kw_only=True)
class CostlyRequests:
    """The costly requests of all callers, which share one store of slots."""

    slots: RequestSlots
    clock: Clock

    @contextmanager
    def one(self, kind: Kind, request: Request) -> Iterator[None]:
        """Hold one of the caller's slots of a kind.

        Raises:
            Problem: With status 429 if all of them are taken.
            Retry, Stop: The store does not answer, or is missing. Uncounted requests could occupy every environment.
        """
        now_ms, remaining_s = self.clock.now_ms(), request.remaining_s()
        caller = request.caller
        with holding(self.slots, kind, caller, COSTLY_REQUESTS, now_ms=now_ms, remaining_s=remaining_s) as has_slot:
            if not has_slot:  # guard: costly_requests.limit
                detail = Text.REQUESTS_RUNNING.filled(requests=COSTLY_REQUESTS)
                raise Problem(429, detail, retry_after_s=COSTLY_RETRY_AFTER_S)
            yield
