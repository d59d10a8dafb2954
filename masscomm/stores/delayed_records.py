"""Delayed records: each is stored with the time of its release.

One mechanism serves send_at, the retries of delivery and receipts, quiet hours and records of failed invocations. The
functions put records into the delay store; functions/scheduler sweeps it every minute and releases the records that are
due. A record can be released twice, if a sweep fails between the release and the removal: its id is the same.
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

# The header of a released record that has its delay reason.
DELAY_REASON_HEADER = "masscomm.released"
# Duration of a claim; longer than an invocation.
CLAIM_S = 90
MINUTE_MS = 60_000
# Shards of a minute: 08:00 is not one hot partition.
SHARDS = 8

# A store's key of one copy: (bucket, key in the bucket).
type StoreKey = tuple[str, str]


@cache
def releasable() -> frozenset[str]:
    """The topics a record may be released to: never send.*, where it would be counted as requested again."""
    names = (topics.RECHECK, topics.BUILD, topics.DELIVERY, topics.RECEIPT)
    return frozenset(topics.in_lane(name, lane) for name in names for lane in Lane)


@dataclass(frozen=True, kw_only=True)
class DelayedRecord:
    """A record that the scheduler releases at due_ms.

    id: derived from the record, so that the same record is stored once; due_ms: ms since the epoch; topic: with the
    suffix of its lane; value: as it will be produced; delay_reason: as the header of the released record has it;
    key: the store's key of this copy, set by the store when it reads.

    Raises:
        ValueError: records of this topic are never released, or the id cannot be a key.
    """

    id: str
    due_ms: int
    topic: str
    value: bytes
    delay_reason: str
    headers: tuple[tuple[str, bytes], ...] = ()
    key: StoreKey | None = field(default=None, compare=False, repr=False)

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
class UnreadableRecord:
    """A stored copy that cannot be released; error: for an operator."""

    key: StoreKey
    error: str


def is_critical(topic: str) -> bool:
    """Whether the topic is of the lane that goes first."""
    return topic.endswith(f".{Lane.CRITICAL}")


def key_of(item: DelayedRecord) -> StoreKey:
    """The key of a copy: bucket (lane, due minute, shard by id), and due time and id in it.

    A record that is put again for another time has another key.
    """
    shard = blake2b(item.id.encode(), digest_size=1).digest()[0] % SHARDS
    bucket = f"{lane_key(critical=item.critical)}#{item.due_ms // MINUTE_MS:010d}#{shard}"
    return bucket, f"{item.due_ms:015d}#{item.id}"


def lane_key(*, critical: bool) -> str:
    """Return the prefix of a lane's buckets: all lanes except critical have the prefix `bulk`."""
    return Lane.CRITICAL if critical else "bulk"


def jittered(due_ms: int, item_id: str, spread_ms: int) -> int:
    """Return a time in [due_ms, due_ms + spread_ms), derived from the id: it spreads records that failed together."""
    share = int.from_bytes(blake2b(item_id.encode(), digest_size=8).digest()) / 2**64
    return due_ms + int(share * spread_ms)


class DelayStore(Protocol):
    """Stores delayed records. A copy is one (id, due time). Errors of every method: Retry (unreachable), Stop.

    A second put for the same time changes nothing; a put for another time may store a second copy. Each copy is
    complete, is claimed and removed separately, and is released under the same id.
    """

    def put(self, item: DelayedRecord, now_ms: int) -> None:
        """Store the record, due at `now_ms` at the earliest; a copy of the same id and time stays unchanged."""
        ...

    def due(self, now_ms: int, *, critical: bool) -> Iterator[DelayedRecord | UnreadableRecord]:
        """Yield every copy of the lane that is due, oldest minute first, also copies that another sweep claimed."""
        ...

    def claim(self, item: DelayedRecord, now_ms: int) -> bool:
        """Claim the copy for CLAIM_S; False where another sweep has claimed or released it."""
        ...

    def done(self, item: DelayedRecord) -> None:
        """Remove the copy."""
        ...


class InMemoryDelayStore:
    """The store's contract in a dictionary, for unit tests.

    items: by key; unreadable: keys whose copies are read as damaged; failing: raised by every method.
    """

    def __init__(self) -> None:
        self.items: dict[StoreKey, DelayedRecord] = {}
        self.unreadable: set[StoreKey] = set()
        self.failing: Exception | None = None
        self._claimed_until: dict[StoreKey, float] = {}
        self._lock = Lock()

    def put(self, item: DelayedRecord, now_ms: int) -> None:
        self._answer()
        kept = replace(item, due_ms=max(item.due_ms, now_ms))
        self.items.setdefault(key_of(kept), replace(kept, key=key_of(kept)))

    def due(self, now_ms: int, *, critical: bool) -> Iterator[DelayedRecord | UnreadableRecord]:
        self._answer()
        for key, item in sorted(self.items.items()):
            if item.due_ms <= now_ms and item.critical is critical:
                yield UnreadableRecord(key=key, error="damaged") if key in self.unreadable else item

    def claim(self, item: DelayedRecord, now_ms: int) -> bool:
        self._answer()
        key = item.key or key_of(item)
        with self._lock:
            if key not in self.items or self._claimed_until.get(key, now_ms) > now_ms:
                return False
            self._claimed_until[key] = now_ms + CLAIM_S * 1000
            return True

    def done(self, item: DelayedRecord) -> None:
        self._answer()
        key = item.key or key_of(item)
        self.items.pop(key, None)
        self._claimed_until.pop(key, None)

    def _answer(self) -> None:
        if self.failing is not None:
            raise self.failing
