"""Limits how many long polls of one API key may wait at the same time, over all execution environments.

A waiting poll occupies an environment; without a limit, one API key could occupy all environments of the function. Each
key has a number of slots. A poll takes a slot before it waits and frees it afterwards. A slot is a lease: it becomes
free when the request that took it can no longer run, so that a crash costs a slot for less than half a minute and needs
no repair.

All environments share one store. If it is unavailable, polls return without waiting: they then occupy no environment,
and dashboards continue with short polls.
"""

import threading
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, kw_only=True)
class Slot:
    """A slot that a waiting poll has taken."""

    # The id of the API key.
    caller: str
    # The number of the slot, below the limit.
    number: int
    # A token that is unique to this poll.
    token: str


class PollSlots(Protocol):
    """The interface of the store of slots. Methods raise Retry (down, slow) or Stop (no table, no permission)."""

    def take(self, caller: str, limit: int, *, now_ms: int, until_ms: int) -> Slot | None:
        """Take one of the caller's slots below the limit. Returns None if all are taken.

        Args:
            caller: The id of the API key.
            limit: The number of slots that the key has.
            now_ms: The current time in milliseconds since the epoch.
            until_ms: The end of the lease in milliseconds since the epoch.
        """
        ...

    def free(self, slot: Slot) -> None:
        """Free the slot. The call has no effect if its lease has expired and another poll has taken it."""
        ...


class InMemoryPollSlots:
    """A store of slots in a dictionary, for unit tests. Thread-safe."""

    def __init__(self) -> None:
        # The taken slots: (caller, number) → (token, until_ms).
        self.taken: dict[tuple[str, int], tuple[str, int]] = {}
        self.failing: Exception | None = None
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
