"""What must wait before it goes on: a record as it will be released, and when.

One mechanism for send_at, for back-off beyond one invocation and for what a mapping gave up on. Whoever has something
to wait puts it here; functions/scheduler sweeps every minute and releases what is due. A release may happen twice (a
sweep that dies between producing and telling): the record has the same id both times.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from hashlib import blake2b
from typing import Protocol

from masscomm import topics
from masscomm.topics import Lane

# How long a sweep keeps a record to itself; longer than an invocation lasts.
CLAIM_S = 90
MINUTE_MS = 60_000


@cache
def releasable() -> frozenset[str]:
    """The topics a record may be released to: never send.*, where it would be counted as requested again."""
    names = (topics.RECHECK, topics.BUILD, topics.DELIVERY, topics.RECEIPT)
    return frozenset(topics.in_lane(name, lane) for name in names for lane in Lane)


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """A record that waits.

    id: the released record's own, so that the same thing waits once; due_ms: ms since the epoch; topic: with its
    lane's ending; value: as it will be produced; why: what is waited for.

    Raises ValueError where the topic is none that may be released to.
    """

    id: str
    due_ms: int
    topic: str
    value: bytes
    why: str
    headers: tuple[tuple[str, bytes], ...] = ()

    def __post_init__(self) -> None:
        if self.topic not in releasable():
            raise ValueError(f"nothing is released to {self.topic}")

    @property
    def critical(self) -> bool:
        """Whether it is of the lane that goes first."""
        return self.topic.endswith(f".{Lane.CRITICAL}")


def jittered(due_ms: int, item_id: str, spread_ms: int) -> int:
    """A moment in [due_ms, due_ms + spread_ms) that follows from the id: what failed together comes back apart."""
    share = int.from_bytes(blake2b(item_id.encode(), digest_size=8).digest()) / 2**64
    return due_ms + int(share * spread_ms)


class WaitingStore(Protocol):
    """Where records wait. Errors of every method: Retry (cannot be reached), Stop (misconfigured)."""

    def put(self, item: Waiting, now_ms: int) -> None:
        """Keep it; one with its id that waits already stays as it is."""
        ...

    def due(self, now_ms: int) -> Iterator[Waiting]:
        """Everything due by now, of however long ago, also what another sweep has claimed."""
        ...

    def claim(self, item: Waiting, now_ms: int) -> bool:
        """Keep it from other sweeps for CLAIM_S; False where another has it, or has released it."""
        ...

    def done(self, item: Waiting) -> None:
        """Forget it."""
        ...


class InMemoryWaitingStore:
    """The store's contract in a dictionary, for unit tests; failing: raised by every method."""

    def __init__(self) -> None:
        self.items: dict[str, Waiting] = {}
        self.failing: Exception | None = None
        self._claimed_until: dict[str, float] = {}

    def put(self, item: Waiting, now_ms: int) -> None:
        self._answer()
        self.items.setdefault(item.id, replace(item, due_ms=max(item.due_ms, now_ms)))

    def due(self, now_ms: int) -> Iterator[Waiting]:
        self._answer()
        yield from sorted(
            (item for item in self.items.values() if item.due_ms <= now_ms), key=lambda item: (item.due_ms, item.id)
        )

    def claim(self, item: Waiting, now_ms: int) -> bool:
        self._answer()
        if item.id not in self.items or self._claimed_until.get(item.id, now_ms) > now_ms:
            return False
        self._claimed_until[item.id] = now_ms + CLAIM_S * 1000
        return True

    def done(self, item: Waiting) -> None:
        self._answer()
        self.items.pop(item.id, None)
        self._claimed_until.pop(item.id, None)

    def _answer(self) -> None:
        if self.failing is not None:
            raise self.failing
