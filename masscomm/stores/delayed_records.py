"""What must wait before it goes on: a record as it will be released, and when.

One mechanism for send_at, for back-off beyond one invocation and for what a mapping gave up on. Whoever has something
to wait puts it here; functions/scheduler sweeps every minute and releases what is due. A release may happen twice (a
sweep that dies between producing and telling): the record has the same id both times.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import blake2b
from threading import Lock
from typing import Protocol

from masscomm.domain.ids import is_record_id
from masscomm.domain.lanes import Lane
from masscomm.domain.limits import MAX_RECORD_ID_BYTES
from masscomm.kafka import topics

# The header of a released record: the reason for its delay.
WAITED_FOR = "masscomm.released"
# How long a sweep keeps a record to itself; longer than an invocation lasts.
CLAIM_S = 90
MINUTE_MS = 60_000
# Shards of a minute: 08:00 is not one hot partition.
SHARDS = 8

# A store's key of one copy: (bucket, key in the bucket).
type Place = tuple[str, str]


@cache
def releasable() -> frozenset[str]:
    """The topics a record may be released to: never send.*, where it would be counted as requested again."""
    names = (topics.RECHECK, topics.BUILD, topics.DELIVERY, topics.RECEIPT)
    return frozenset(topics.in_lane(name, lane) for name in names for lane in Lane)


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """A record that waits.

    id: follows from the record, so that the same thing waits once; due_ms: ms since the epoch; topic: with its lane's
    ending; value: as it will be produced; why: what is waited for; place: where the store keeps this copy, set by the
    store on reading.

    Raises ValueError where the topic is none that may be released to, or the id is no key.
    """

    id: str
    due_ms: int
    topic: str
    value: bytes
    why: str
    headers: tuple[tuple[str, bytes], ...] = ()
    place: Place | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.topic not in releasable():
            raise ValueError(f"nothing is released to {self.topic}")
        if not is_record_id(self.id):
            raise ValueError(f"the id is empty or longer than {MAX_RECORD_ID_BYTES} bytes")

    @property
    def critical(self) -> bool:
        """Whether it is of the lane that goes first."""
        return is_critical(self.topic)


@dataclass(frozen=True, kw_only=True)
class Unreadable:
    """A stored copy that cannot be released; why: for a person."""

    place: Place
    why: str


def is_critical(topic: str) -> bool:
    """Whether the topic is of the lane that goes first."""
    return topic.endswith(f".{Lane.CRITICAL}")


def place_of(item: Waiting) -> Place:
    """Where a copy is kept: bucket (lane, due minute, shard by id), and due time and id in it.

    An item put again for another time has another place.
    """
    shard = blake2b(item.id.encode(), digest_size=1).digest()[0] % SHARDS
    bucket = f"{lane_key(critical=item.critical)}#{item.due_ms // MINUTE_MS:010d}#{shard}"
    return bucket, f"{item.due_ms:015d}#{item.id}"


def lane_key(*, critical: bool) -> str:
    """What the buckets of a lane begin with: bulk stands for every lane but critical."""
    return Lane.CRITICAL if critical else "bulk"


def jittered(due_ms: int, item_id: str, spread_ms: int) -> int:
    """A moment in [due_ms, due_ms + spread_ms) that follows from the id: what failed together comes back apart."""
    share = int.from_bytes(blake2b(item_id.encode(), digest_size=8).digest()) / 2**64
    return due_ms + int(share * spread_ms)


class WaitingStore(Protocol):
    """Where records wait. A copy is one (id, due time). Errors of every method: Retry (cannot be reached), Stop.

    An item put again for the same time stays as it is; put again for another time it may be stored twice. Each copy is
    whole, is claimed and removed by itself, and is released under the same id.
    """

    def put(self, item: Waiting, now_ms: int) -> None:
        """Store the item, due at the earliest now; a copy of the same id and time stays as it is."""
        ...

    def due(self, now_ms: int, *, critical: bool) -> Iterator[Waiting | Unreadable]:
        """Every copy of that lane due by now, of any age, the oldest minute first, also what another sweep claimed."""
        ...

    def claim(self, item: Waiting, now_ms: int) -> bool:
        """Keep the copy from other sweeps for CLAIM_S; False where another has it, or has released it."""
        ...

    def done(self, item: Waiting) -> None:
        """Remove the copy."""
        ...


class InMemoryWaitingStore:
    """The store's contract in a dictionary, for unit tests; failing: raised by every method.

    items: by place; unreadable: places whose copies answer as damaged.
    """

    def __init__(self) -> None:
        self.items: dict[Place, Waiting] = {}
        self.unreadable: set[Place] = set()
        self.failing: Exception | None = None
        self._claimed_until: dict[Place, float] = {}
        self._lock = Lock()

    def put(self, item: Waiting, now_ms: int) -> None:
        self._answer()
        kept = replace(item, due_ms=max(item.due_ms, now_ms))
        self.items.setdefault(place_of(kept), replace(kept, place=place_of(kept)))

    def due(self, now_ms: int, *, critical: bool) -> Iterator[Waiting | Unreadable]:
        self._answer()
        for place, item in sorted(self.items.items()):
            if item.due_ms <= now_ms and item.critical is critical:
                yield Unreadable(place=place, why="damaged") if place in self.unreadable else item

    def claim(self, item: Waiting, now_ms: int) -> bool:
        self._answer()
        place = item.place or place_of(item)
        with self._lock:
            if place not in self.items or self._claimed_until.get(place, now_ms) > now_ms:
                return False
            self._claimed_until[place] = now_ms + CLAIM_S * 1000
            return True

    def done(self, item: Waiting) -> None:
        self._answer()
        place = item.place or place_of(item)
        self.items.pop(place, None)
        self._claimed_until.pop(place, None)

    def _answer(self) -> None:
        if self.failing is not None:
            raise self.failing
