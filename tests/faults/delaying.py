"""Faults of the delay store: records stored twice, and unreadable items."""

import time
import zlib
from dataclasses import replace
from typing import Any

from masscomm.domain.lanes import Lane
from masscomm.stores.delayed_records.dynamodb import DynamoDbDelayStore
from masscomm.stores.delayed_records.port import DelayedRecord, key_of
from tests.support.fault_stack.bench import Bench
from tests.support.fault_stack.cell import Send
from tests.support.servers import dynamodb_table
from tests.support.until import until

AHEAD_MS = 6_000
RESCHEDULE_MS = 2_000


def twice_among_unreadable(bench: Bench, _: Send) -> None:
    """Each delayed record is stored again for a later time, while the store also has unreadable items that are due."""
    users = bench.population.grow(60)
    client = dynamodb_table.dynamodb(bench.stack.config)
    store = DynamoDbDelayStore(client=client)
    before = {item.key for item in store.scan()}
    now_ms = time.time_ns() // 1_000_000
    rows = [row for lane in ("recheck", f"recheck.{Lane.CRITICAL}") for row in _unreadable(lane, now_ms)]
    for row in rows:
        client.put_item(TableName="waiting", Item=row)
    bench.emit(users, chunk=20, send_at=now_ms + AHEAD_MS)

    def delayed() -> list[DelayedRecord]:
        return [item for item in store.scan() if item.key not in before]

    until("its chunks are delayed", lambda: len(delayed()) == 3)
    for item in delayed():
        store.put(replace(item, due_ms=item.due_ms + RESCHEDULE_MS, key=None), now_ms)
    until("each copy is released", lambda: not delayed())
    for row in rows:
        client.delete_item(TableName="waiting", Key={name: row[name] for name in ("due_bucket", "id")})


def _unreadable(topic: str, now_ms: int) -> list[dict[str, Any]]:
    """Return a damaged item and an item without its parts, with their bucket's mark."""
    item = DelayedRecord(id=f"unreadable.{topic}", due_ms=now_ms, topic=topic, value=b"", delay_reason="send_at")
    bucket, key = key_of(item)
    lane = bucket.partition("#")[0]
    common = {"due_ms": {"N": str(now_ms)}, "topic": {"S": topic}, "why": {"S": "send_at"}, "copy": {"S": "gone"}}
    whole = {"B": zlib.compress(b"[]\n")}
    return [
        {"due_bucket": {"S": f"minutes.{lane}"}, "id": {"S": bucket}},
        {"due_bucket": {"S": bucket}, "id": {"S": key}, **common, "value": {"B": b"damaged"}, "parts": {"N": "1"}},
        {"due_bucket": {"S": bucket}, "id": {"S": f"{key}.2"}, **common, "value": whole, "parts": {"N": "2"}},
    ]
