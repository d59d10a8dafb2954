"""Tables of DynamoDB in memory that count the units of requests: what stores cost, by their own requests."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from lab.capacity.workload import item_bytes, waiting_record
from masscomm.clock import FixedClock
from masscomm.domain.fallbacks import DELAY_REASON, FallbackState, Verdict
from masscomm.domain.pace import PaceBook
from masscomm.domain.sends import Send, SendKey
from masscomm.domain.statuses import Status
from masscomm.kafka import topics
from masscomm.stores.delayed_records.dynamodb import DynamoDbDelayStore
from masscomm.stores.delayed_records.port import DelayedRecord
from masscomm.stores.sends.dynamodb import DynamoDbSends

_KEY = ("send_id", "part", "due_bucket", "id")
_NOW_MS = 1_790_000_000_000
_SEND = Send(key=SendKey(1_000_000, "00000000-0000-0000-0000-000000000001"))


@dataclass
class CountedTable:
    """A client of DynamoDB. Conditions are not checked.

    Attributes:
        reads, writes: The units of all requests.
        largest: The bytes of the largest item that was put.
    """

    reads: int = 0
    writes: int = 0
    largest: int = 0
    _items: dict[tuple[Any, ...], Mapping[str, Any]] = field(default_factory=dict)

    def get_item(self, *, Key: Mapping[str, Any], **_: Any) -> dict[str, Any]:
        found = self._items.get(_key_of(Key))
        self.reads += max(1, ceil(item_bytes(found or {}) / 4_096))
        return {} if found is None else {"Item": found}

    def put_item(self, *, Item: Mapping[str, Any], **_: Any) -> dict[str, Any]:
        self._items[_key_of(Item)] = Item
        self.largest = max(self.largest, item_bytes(Item))
        self.writes += ceil(item_bytes(Item) / 1_024)
        return {}

    def update_item(self, *, Key: Mapping[str, Any], **_: Any) -> dict[str, Any]:
        self.writes += max(1, ceil(item_bytes(self._items[_key_of(Key)]) / 1_024))
        return {}

    def delete_item(self, *, Key: Mapping[str, Any], **_: Any) -> dict[str, Any]:
        found = self._items.pop(_key_of(Key), {})
        self.writes += max(1, ceil(item_bytes(found) / 1_024))
        return {"Attributes": found}


def fallbacks(recipients: int) -> CountedTable:
    """Return the requests of a record with so many recipients whose pushes are sent: it waits and is decided about."""
    table = CountedTable()
    sends, send = DynamoDbSends(client=_client(table), clock=FixedClock(_NOW_MS)), _SEND.key
    positions = range(recipients)
    item = _waits(table, recipients, DELAY_REASON)
    sends.fallback(send, item.id)  # delivery, before publishing
    sends.fallback(send, item.id)  # receipts
    ended = FallbackState(statuses=dict.fromkeys(positions, Status.SENT))
    sends.set_fallback(send, item.id, ended)
    known = sends.fallback(send, item.id)  # preference_checker
    sends.set_fallback(send, item.id, known.deciding(item.id, dict.fromkeys(positions, Verdict.NOT_NEEDED)))
    return table


def pace(recipients: int, minutes: int) -> CountedTable:
    """Return the requests of a record whose recipients are released in so many minutes: each part but the first one
    waits, and takes its places again when it is released.
    """
    table = CountedTable()
    sends = DynamoDbSends(client=_client(table), clock=FixedClock(_NOW_MS))
    for minute in range(minutes):
        if minute:
            _waits(table, recipients // minutes, "pace")
        before = sends.pace(_SEND.key)
        after = PaceBook(minute=29_833_333 + minute, released=recipients, planned=recipients, revision=before.revision)
        sends.set_pace(_SEND, after, before)
    return table


def _waits(table: CountedTable, recipients: int, reason: str) -> DelayedRecord:
    """Put a record into the delay store, and release it. Return it."""
    store = DynamoDbDelayStore(client=_client(table))
    value = waiting_record(recipients)
    item = DelayedRecord(
        id=f"{recipients:08}-0000-4000-8000-000000000000",
        due_ms=_NOW_MS,
        topic=topics.RECHECK,
        value=value,
        delay_reason=reason,
        send=_SEND.key,
    )
    store.put(item, _NOW_MS)
    store.claim(item, _NOW_MS)
    store.done(item)
    return item


def _client(table: CountedTable) -> Any:
    return table


def _key_of(values: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(values[name]["S"] for name in _KEY if name in values)
