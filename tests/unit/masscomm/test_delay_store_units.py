"""What the records of the delay store cost in DynamoDB's write units: one for each kB of each written item.

Source: Amazon DynamoDB developer guide, "DynamoDB read and write operations" (an update costs the larger of both items,
a deletion the deleted one) and "DynamoDB item sizes and formats".
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from math import ceil
from random import Random
from typing import Any

import pytest

from functions.webhook_sender.messages import Message
from functions.webhook_sender.recording import Recording
from functions.webhook_sender.storing import MAX_RESULTS, Result, Storing
from masscomm.clock import FixedClock
from masscomm.domain.records import EventOccurred
from masscomm.domain.webhooks import Attempt, AttemptResult, EndpointKey
from masscomm.kafka.event import KafkaRecord
from masscomm.stores.delayed_records.dynamodb import DynamoDbDelayStore
from masscomm.stores.delayed_records.port import DelayedRecord
from masscomm.stores.sent_messages.dynamodb import DynamoDbSentMessages
from masscomm.stores.webhook_dead_letters.in_memory import InMemoryWebhookDeadLetters
from tests.support.contracts.delay_store import delayed_record, due
from tests.support.harness.chain import NOW
from tests.support.servers.dynamodb_table import new_table


class MeteredDynamoDb:
    """Counts the write units of the requests of a client."""

    def __init__(self, client: Any) -> None:
        self.client, self.units = client, 0

    def __getattr__(self, name: str) -> Any:
        call = getattr(self.client, name)
        return partial(self._write, call) if name in ("put_item", "update_item", "delete_item") else call

    def _write(self, call: Any, **request: Any) -> Any:
        names = ("record_id", "part") if "record_id" in request.get("Item", {}) else ("due_bucket", "id")
        key = request.get("Key") or {name: request["Item"][name] for name in names}
        before = self._bytes(request["TableName"], key)
        answer = call(**request)
        self.units += max(1, ceil(max(before, self._bytes(request["TableName"], key)) / 1024))
        return answer

    def _bytes(self, table: str, key: Any) -> int:
        item = self.client.get_item(TableName=table, Key=key).get("Item", {})
        return sum(len(name.encode()) + _bytes(value) for name, value in item.items())


def _bytes(value: dict[str, Any]) -> int:
    ((kind, content),) = value.items()
    return len(content.encode()) if kind == "S" else len(content) if kind == "B" else len(content) // 2 + 2


@pytest.fixture
def metered(moto_dynamodb: Any) -> MeteredDynamoDb:
    return MeteredDynamoDb(moto_dynamodb)


@pytest.fixture
def store(metered: MeteredDynamoDb) -> DynamoDbDelayStore:
    return DynamoDbDelayStore(table=new_table(metered.client, "waiting"), client=metered)  # type: ignore[arg-type]


def release(store: DynamoDbDelayStore) -> None:
    for each in due(store, NOW):
        assert isinstance(each, DelayedRecord)
        assert store.claim(each, NOW)
        store.done(each)


@dataclass(frozen=True)
class _Item:
    value: Any
    record: KafkaRecord


@dataclass(frozen=True)
class _Value:
    events: list[EventOccurred]
    attempt: int = 0


def results(endpoints: int) -> list[Result]:
    """Return the results of a full record, each of another event."""
    random = Random(1)  # noqa: S311 - no secret
    keys = [EndpointKey.new(4_711, random.randbytes(32)) for _ in range(endpoints)]
    record = KafkaRecord(topic="webhook", partition=3, offset=2**40, key=None, value=b"", timestamp_ms=NOW)
    found = []
    for number in range(MAX_RESULTS):
        id_ = "-".join(random.randbytes(count).hex() for count in (4, 2, 2, 2, 6))
        event = EventOccurred(event_id=id_, type="match.goal", club_id=4_711, occurred_at=NOW, data="{}")
        item: Any = _Item(_Value([event]), record)
        message = Message(item, number, 0, keys[number % endpoints])
        attempt = Attempt(at_ms=NOW + 7 * number, duration_ms=random.randint(30, 80), status=200)
        found.append(Result(message, AttemptResult.DELIVERED, attempt))
    return found


@pytest.mark.kills(guard="delay_store.expiring_parts")
@pytest.mark.parametrize("endpoints", [1, 50, 160])
def test_a_result_of_a_full_record_costs_little(
    store: DynamoDbDelayStore, metered: MeteredDynamoDb, endpoints: int
) -> None:
    """At most 0.05 write units a message, as of up to 160 endpoints: 10,000 in 64 buckets."""
    clock = FixedClock(NOW)
    Recording(
        sent_messages=DynamoDbSentMessages(table=new_table(metered.client, "delivery_ledger"), client=metered),  # type: ignore[arg-type]
        storing=Storing.of(store, InMemoryWebhookDeadLetters(), clock),
        clock=clock,
        pool=ThreadPoolExecutor(1),
    ).record(results(endpoints))
    release(store)
    assert metered.units / MAX_RESULTS <= 0.05


@pytest.mark.kills(guard="delay_store.apart")
def test_the_claim_of_a_large_record_costs_one_unit(store: DynamoDbDelayStore, metered: MeteredDynamoDb) -> None:
    store.put(delayed_record(NOW, value=Random(1).randbytes(100_000)), NOW)  # noqa: S311 - no secret
    (found,) = due(store, NOW)
    assert isinstance(found, DelayedRecord)
    before = metered.units
    assert store.claim(found, NOW)
    assert metered.units - before == 1
