"""The delay store in memory, for unit tests."""

from collections.abc import Iterator
from dataclasses import replace
from uuid import uuid4

from masscomm.domain.sends import SendKey
from masscomm.domain.time_limits import CLAIM_S
from masscomm.observability.unreadable_items import UnreadableItem
from masscomm.stores.delayed_records.port import (
    RELEASED_AGAIN,
    ControlledSend,
    DelayedRecord,
    Prepared,
    StoreKey,
    key_of,
    unreadable,
)
from masscomm.stores.in_memory import InMemoryStore


class InMemoryDelayStore(InMemoryStore):
    """A delay store in a dictionary, for unit tests.

    Attributes:
        items: The copies by their keys.
        unreadable: Keys of copies that are read as damaged.
    """

    def __init__(self) -> None:
        super().__init__()
        self.items: dict[StoreKey, DelayedRecord] = {}
        self.unreadable: set[StoreKey] = set()
        self.changed: dict[SendKey, int] = {}
        self._claimed_until: dict[StoreKey, float] = {}
        # The prepared records by the ids of their copies.
        self._contents: dict[str, DelayedRecord] = {}

    def put(self, item: DelayedRecord, now_ms: int) -> None:
        kept = replace(item, due_ms=max(item.due_ms, now_ms))
        if item.prepared is not None:
            kept = replace(self._contents[item.prepared.copy], due_ms=kept.due_ms)
        self.items.setdefault(key_of(kept), replace(kept, key=key_of(kept)))

    def prepare(self, item: DelayedRecord, now_ms: int) -> DelayedRecord:
        prepared = Prepared(str(uuid4()), 2)
        content = replace(item, due_ms=max(item.due_ms, now_ms), prepared=prepared)
        self._contents[prepared.copy] = content
        return replace(content, value=b"", headers=())

    def put_again(self, item: DelayedRecord, now_ms: int) -> None:
        if key_of(item) not in self.items and item.prepared is not None and item.prepared.copy in self._contents:
            self.put(item, now_ms)

    def due(self, now_ms: int, *, critical: bool) -> Iterator[DelayedRecord | UnreadableItem]:
        for key, item in sorted(self.items.items()):
            if item.due_ms <= now_ms and item.critical is critical:
                yield unreadable(key, "damaged") if key in self.unreadable else item

    def claim(self, item: DelayedRecord, now_ms: int) -> bool:
        key = item.key or key_of(item)
        with self._lock:
            if key not in self.items or self._claimed_until.get(key, now_ms) > now_ms:
                return False
            self._claimed_until[key] = now_ms + CLAIM_S * 1000
            return True

    def done(self, item: DelayedRecord) -> None:
        key = item.key or key_of(item)
        self.items.pop(key, None)
        self._claimed_until.pop(key, None)
        if item.prepared is not None and item.topic not in RELEASED_AGAIN:
            self._contents.pop(item.prepared.copy, None)

    def of_send(self, send: SendKey, delay_reason: str | None = None) -> Iterator[DelayedRecord | UnreadableItem]:
        for key, item in sorted(self.items.items()):
            if item.send == send and delay_reason in (None, item.delay_reason):
                yield unreadable(key, "damaged") if key in self.unreadable else item

    def find(self, key: StoreKey) -> DelayedRecord | None:
        return None if key in self.unreadable else self.items.get(key)

    def put_controlled(self, controlled: ControlledSend) -> None:
        self.changed[controlled.send] = controlled.changed_at_ms

    def controlled(self) -> Iterator[ControlledSend | UnreadableItem]:
        yield from [ControlledSend(send, changed_at_ms) for send, changed_at_ms in sorted(self.changed.items())]

    def done_controlled(self, controlled: ControlledSend) -> None:
        if self.changed.get(controlled.send) == controlled.changed_at_ms:
            del self.changed[controlled.send]
