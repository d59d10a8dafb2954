"""The slots of costly requests in memory, and callers whose slots are taken."""

import pytest

from masscomm.clock import Clock
from masscomm.domain.limits import COSTLY_REQUESTS
from masscomm.operations import bootstrap
from masscomm.operations.costly_requests import CostlyRequests
from masscomm.stores.request_slots.in_memory import InMemoryRequestSlots
from masscomm.stores.request_slots.port import Kind


def use_slots(monkeypatch: pytest.MonkeyPatch, clock: Clock, slots: InMemoryRequestSlots | None = None) -> None:
    """Let the functions take the slots of costly requests in memory."""
    costly = CostlyRequests(slots=slots or InMemoryRequestSlots(), clock=clock)
    monkeypatch.setattr(bootstrap, "costly", lambda: costly)


def take_slots(slots: InMemoryRequestSlots, kind: Kind, caller: str, clock: Clock) -> None:
    """Take the slots of a caller's costly requests of one kind, as requests that run for 29 s do."""
    now_ms = clock.now_ms()
    for _ in range(COSTLY_REQUESTS):
        assert slots.take(kind, caller, COSTLY_REQUESTS, now_ms=now_ms, until_ms=now_ms + 29_000) is not None
