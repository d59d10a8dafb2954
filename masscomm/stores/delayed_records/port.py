"""The delay store: records that are kept until the time at which they are released (produced to their topic).

It serves send_at, the retries of delivery and receipts, quiet hours, and records of failed invocations. Functions put
records into the store. functions/scheduler looks for due records every minute and releases them. If it fails between
releasing and removing a record, the record is released twice, with the same id.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b
from typing import NamedTuple, Protocol

from masscomm.domain.ids import is_record_id
from masscomm.domain.lanes import Lane
from masscomm.domain.limits import MAX_RECORD_ID_BYTES
from masscomm.domain.sends import SendKey
from masscomm.kafka import topics
from masscomm.observability.unreadable_items import UnreadableItem

MINUTE_MS = 60_000
# The number of partitions (shards) for one minute, so that popular times such as 08:00 do not make a hot partition.
SHARDS = 8

# The topics to which a prepared record may be released twice: the content stays until it expires, because to delete it
# costs as much as to store it.
RELEASED_AGAIN = frozenset({topics.WEBHOOK_OUTCOME})

# The table of the store, and the attributes of its keys.
TABLE = "waiting"
_KEY = ("due_bucket", "id")

# The store's key of one copy of a record: (bucket, key in the bucket).
type StoreKey = tuple[str, str]


@cache
def releasable() -> frozenset[str]:
    """Return the topics to which a record may be released. The topics send.* are excluded: a record there would be
    counted as requested again.
    """
    names = (
        *(topics.RECHECK, topics.BUILD, topics.DELIVERY, topics.AUDIENCE),
        *(topics.OUTCOME, topics.RECEIPT, topics.DEVICE_STATUS, topics.ON_FAILURE),
        *(topics.EVENT, topics.WEBHOOK, topics.WEBHOOK_BATCHED, topics.WEBHOOK_SLOW, topics.WEBHOOK_OUTCOME),
    )
    return frozenset(topics.in_lane(name, lane) for name in names for lane in Lane)


class Prepared(NamedTuple):
    """The stored content of a record that is not put yet: the id of its copy, and the number of its items with the
    copy's own.
    """

    copy: str
    parts: int


@dataclass(frozen=True, kw_only=True)
class DelayedRecord:
    """A record that the scheduler releases at due_ms.

    Attributes:
        id: The id, derived from the record, so that the same record is stored once.
        due_ms: The time of the release in ms since the epoch.
        topic: The topic's name with the suffix of its lane.
        value: The value as it is produced.
        delay_reason: The reason of the delay, which becomes a header of the released record.
        record_key: The key with which it is produced; None: its id.
        send: The send of the record, by which its copies are found when the send is controlled.
        key: The store's key of this copy; the store sets it when it reads the copy.
        prepared: Where the store keeps the content of a prepared record.

    Raises:
        ValueError: Records of this topic are never released, or the id cannot be a key.
    """

    id: str
    due_ms: int
    topic: str
    value: bytes
    delay_reason: str
    headers: tuple[tuple[str, bytes], ...] = ()
    record_key: str | None = None
    send: SendKey | None = None
    key: StoreKey | None = field(default=None, compare=False, repr=False)
    prepared: Prepared | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.topic not in releasable():
            raise ValueError(f"nothing is released to {self.topic}")
        if not is_record_id(self.id):
            raise ValueError(f"the id is empty or longer than {MAX_RECORD_ID_BYTES} bytes")

    @property
    def critical(self) -> bool:
        """Return whether the record belongs to the critical lane, whose records are released first."""
        return is_critical(self.topic)


class ControlledSend(NamedTuple):
    """A send whose control changed at a time (ms since the epoch), so that some of its delayed records are due."""

    send: SendKey
    changed_at_ms: int


def is_critical(topic: str) -> bool:
    """Return whether the topic belongs to the critical lane, whose records are released first."""
    return topic.endswith(f".{Lane.CRITICAL}")


def key_of(item: DelayedRecord) -> StoreKey:
    """Return the key of a copy: the bucket (lane, due minute, shard by id), and the key in the bucket (due time, id).

    A record that is stored again for another time has another key.
    """
    shard = blake2b(item.id.encode(), digest_size=1).digest()[0] % SHARDS
    bucket = f"{lane_key(critical=item.critical)}#{item.due_ms // MINUTE_MS:010d}#{shard}"
    return bucket, f"{item.due_ms:015d}#{item.id}"


def text_of_key(key: StoreKey) -> str:
    """Return the key of a copy as records carry it."""
    return "/".join(key)


def key_in(text: str) -> StoreKey:
    """Return the key of a copy in a record."""
    bucket, _, id_ = text.partition("/")
    return bucket, id_


def record_id_in(key: StoreKey) -> str:
    """Return the id of the copy with this key."""
    return key[1].partition("#")[2]


def unreadable(key: StoreKey, error: str) -> UnreadableItem:
    """Return an item of the store that cannot be read, under its key."""
    return UnreadableItem(store=TABLE, key=dict(zip(_KEY, key, strict=True)), error=error)


def lane_key(*, critical: bool) -> str:
    """Return the prefix of the names of a lane's buckets. All lanes except critical share the prefix `bulk`."""
    return Lane.CRITICAL if critical else "bulk"


class DelayStore(Protocol):
    """The interface of the delay store. A copy is identified by (record id, due time). Every method raises Retry
    (store not reachable) or Stop.

    Storing a record twice for the same time changes nothing. Storing it for another time may create a second copy. Each
    copy is complete, is claimed and removed separately, and is released under the same id.
    """

    def put(self, item: DelayedRecord, now_ms: int) -> None:
        """Store the record, due at `now_ms` at the earliest. A copy with the same id and time stays unchanged."""
        ...

    def prepare(self, item: DelayedRecord, now_ms: int) -> DelayedRecord:
        """Store the content of a record, due at `now_ms` at the earliest, and return the record without it. It is
        released only if it is put soon, with the same `now_ms`.
        """
        ...

    def put_again(self, item: DelayedRecord, now_ms: int) -> None:
        """Put a prepared record that may have been put, within DELAYED_KEPT_S after it was due: nothing changes if it
        is stored or, except to the topics RELEASED_AGAIN, was released.
        """
        ...

    def due(self, now_ms: int, *, critical: bool) -> Iterator[DelayedRecord | UnreadableItem]:
        """Yield every due copy in the lane, oldest minute first, also copies that another run of the scheduler has
        claimed.
        """
        ...

    def claim(self, item: DelayedRecord, now_ms: int) -> bool:
        """Claim the copy for CLAIM_S seconds; return False if another run of the scheduler has claimed or released
        it.
        """
        ...

    def done(self, item: DelayedRecord) -> None:
        """Remove the copy."""
        ...

    def of_send(self, send: SendKey, delay_reason: str | None = None) -> Iterator[DelayedRecord | UnreadableItem]:
        """Yield the copies of a send, due or not, which the store has had for some seconds. With a delay reason, yield
        only those with this reason.
        """
        ...

    def find(self, key: StoreKey) -> DelayedRecord | None:
        """Return the copy with this key, due or not; None if it is damaged, or is not stored any more."""
        ...

    def put_controlled(self, controlled: ControlledSend) -> None:
        """Store that the control of a send changes."""
        ...

    def controlled(self) -> Iterator[ControlledSend | UnreadableItem]:
        """Yield the stored sends, each with the time of its last change."""
        ...

    def done_controlled(self, controlled: ControlledSend) -> None:
        """Remove a stored send, unless its control has changed again."""
        ...
