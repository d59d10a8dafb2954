"""How many long polls of one API key may be open at a time, counted over all execution environments.

A poll that waits occupies an environment: without a limit one key takes all of the function's. Each key has a number of
slots; a poll takes one before it waits and frees it afterwards. A slot is a lease: it is free again when the request
that took it can no longer run, so a crash costs a slot for less than half a minute and needs no repair.

All environments share one store. Where it does not answer, a poll is answered without waiting: it occupies nothing
then, and dashboards go on with short polls.
"""

import threading
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, kw_only=True)
class Slot:
    """A slot that was taken. caller: the key's id; number: below the limit; token: of this poll alone."""

    caller: str
    number: int
    token: str


class PollSlots(Protocol):
    """The store of slots. Errors: Retry (down, slow), Stop (there is no table, or no permission)."""

    def take(self, caller: str, limit: int, *, now_ms: int, until_ms: int) -> Slot | None:
        """One of the caller's slots below the limit, None where all are taken.

        until_ms: when it is free again if it is not freed before; both in ms since the epoch.
        """
        ...

    def free(self, slot: Slot) -> None:
        """Give a slot back; nothing where it has lapsed and is another's."""
        ...


class InMemoryPollSlots:
    """The store's contract in a dictionary, for unit tests. failing: raised by every call; taken: (caller, number) →
    (token, until_ms); calls: how often it was asked. Thread-safe."""

    def __init__(self) -> None:
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
