"""Limit the open long polls of each API key, over all execution environments.

A poll that waits occupies an environment: without a limit one key takes all of the function's. Each key has a number of
slots; a poll takes one before it waits and frees it afterwards. A slot is a lease: it is free again when the request
that took it can no longer run, so a crash costs a slot for less than half a minute and needs no repair.

All environments share one store. If it is unavailable, polls return without a wait: they then occupy no environment,
and dashboards continue with short polls.
"""

import threading
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, kw_only=True)
class Slot:
    """A slot that was taken."""

    # Id of the API key.
    caller: str
    # Below the limit.
    number: int
    # Unique to this poll.
    token: str


class PollSlots(Protocol):
    """The store of slots. Raises Retry (down, slow) or Stop (no table, no permission)."""

    def take(self, caller: str, limit: int, *, now_ms: int, until_ms: int) -> Slot | None:
        """Take one of the caller's slots below the limit. Returns None if all are taken.

        Args:
            caller: Id of the API key.
            limit: Number of the key's slots.
            now_ms: Milliseconds since the epoch.
            until_ms: End of the lease, in milliseconds since the epoch.
        """
        ...

    def free(self, slot: Slot) -> None:
        """Free the slot. No effect if its lease has expired and another poll has it."""
        ...


class InMemoryPollSlots:
    """The store's contract in a dictionary, for unit tests. Thread-safe."""

    def __init__(self) -> None:
        # (caller, number) → (token, until_ms)
        self.taken: dict[tuple[str, int], tuple[str, int]] = {}
        # Raised by every call while it is not None.
        self.failing: Exception | None = None
        # Number of calls.
        self.calls = 0
        self._lock = threading.Lock()

    def take(self, caller: str, limit: int, *, now_ms: int, until_ms: int) -> Slot | None:
        with self._answer():
            for number in range(limit):
                _, free_at_ms = self.taken.get((caller, number), ("", 0))
                if free_at_ms <= now_ms:
                    token = str(self.calls)
                    self.taken[caller, number] = token, until_ms
                    return Slot(caller=caller, number=number, token=token)
            return None

    def free(self, slot: Slot) -> None:
        with self._answer():
            if self.taken.get((slot.caller, slot.number), ("", 0))[0] == slot.token:
                del self.taken[slot.caller, slot.number]

    def _answer(self) -> threading.Lock:
        self.calls += 1
        if self.failing is not None:
            raise self.failing
        return self._lock
