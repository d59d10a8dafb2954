import json
import zlib
from typing import Any
from unittest.mock import patch

import pytest

from local.devstack.config import StackConfig
from masscomm.domain.send_controls import SendKey
from masscomm.domain.time_limits import CLAIM_S
from masscomm.observability.unreadable_items import UnreadableItem
from masscomm.stores.delayed_records.dynamodb import DynamoDbDelayStore
from masscomm.stores.delayed_records.port import ControlledSend, DelayedRecord, key_of
from tests.support.contracts.delay_store import HOUR, DelayStoreContract, delayed_record, due, ids, incompressible
from tests.support.harness.chain import NOW
from tests.support.servers.dynamodb_table import dynamodb, functions_client, new_table

__all__ = ["functions_client"]


@pytest.fixture
def store(localstack: StackConfig, functions_client: Any) -> DynamoDbDelayStore:
    return DynamoDbDelayStore(table=new_table(dynamodb(localstack), "waiting"), client=functions_client)


class TestDynamoDbDelayStore(DelayStoreContract):
    def damage(self, store: DynamoDbDelayStore, item: DelayedRecord) -> None:
        bucket, key = key_of(item)
        primary_key = {"due_bucket": {"S": bucket}, "id": {"S": key}}
        row = store._client.get_item(TableName=store._table, Key=primary_key)["Item"]
        if row["parts"]["N"] == "1":
            _write(store, {**row, "value": {"B": b"junk"}})
        else:
            part = {"due_bucket": {"S": f"part#{row['copy']['S']}"}, "id": {"S": "0001"}}
            store._client.delete_item(TableName=store._table, Key=part)


def _write(store: DynamoDbDelayStore, *rows: dict[str, Any]) -> None:
    for row in rows:
        store._client.put_item(TableName=store._table, Item=row)


def _all_items(store: DynamoDbDelayStore) -> list[dict[str, Any]]:
    pages = store._client.get_paginator("scan").paginate(TableName=store._table)
    return [row for page in pages for row in page["Items"]]


def _in_previous_form(item: DelayedRecord, shard: int = 3) -> list[dict[str, Any]]:
    """The rows that earlier versions wrote for an item."""
    bucket, packed = f"{item.due_ms // 60_000:010d}#{shard}", zlib.compress(item.value)
    parts = [packed[start : start + 350_000] for start in range(0, len(packed), 350_000)]
    expires = {"N": str(item.due_ms // 1000 + 30 * 86_400)}
    head = {
        "due_bucket": {"S": bucket},
        "id": {"S": item.id},
        "due_ms": {"N": str(item.due_ms)},
        "topic": {"S": item.topic},
        "value": {"B": parts[0]},
        "parts": {"N": str(len(parts))},
        "headers": {"S": json.dumps([[name, value.hex()] for name, value in item.headers])},
        "why": {"S": item.delay_reason},
        "expires_at": expires,
    }
    return [
        {"due_bucket": {"S": "minutes"}, "id": {"S": bucket}},
        *(
            {
                "due_bucket": {"S": f"part#{item.id}"},
                "id": {"S": f"{number:04d}"},
                "value": {"B": part},
                "expires_at": expires,
            }
            for number, part in enumerate(parts[1:], start=1)
        ),
        head,
    ]


@pytest.mark.guarantee("delay_store.previous_form_is_released")
@pytest.mark.kills(guard="delay_store.previous_form")
def test_items_of_the_previous_form_are_released_complete(store: DynamoDbDelayStore) -> None:
    small = delayed_record(NOW, headers=(("a", b"\xff"),))
    critical = delayed_record(NOW + 60_000, topic="recheck.critical")
    twice = delayed_record(NOW, value=incompressible("large"))
    later = DelayedRecord(
        id=twice.id, due_ms=NOW + HOUR, topic=twice.topic, value=twice.value, delay_reason=twice.delay_reason
    )
    for item in (small, critical, twice, later):
        _write(store, *_in_previous_form(item))
    store.put(twice, NOW)
    assert list(store.due(NOW + 60_000, critical=True)) == [critical]
    found = list(store.due(NOW + 60_000, critical=False))
    assert sorted(ids(found)) == sorted([small.id, twice.id, twice.id])
    assert all(each in (small, twice) for each in found)
    for each in found:
        assert isinstance(each, DelayedRecord)
        assert store.claim(each, NOW)
        assert not store.claim(each, NOW + CLAIM_S * 1000 - 1)
        store.done(each)
    # The removed copy shares its parts with this item, so the parts stay until they expire.
    assert list(store.due(NOW + HOUR, critical=False)) == [later]
    assert ids(store.due(NOW + HOUR, critical=True)) == [critical.id]


def test_marks_of_the_previous_form_go_with_their_items(store: DynamoDbDelayStore) -> None:
    bulk, critical = delayed_record(NOW), delayed_record(NOW, topic="delivery.critical")
    _write(store, *_in_previous_form(bulk), *_in_previous_form(critical))
    for each in list(store.due(NOW + HOUR, critical=False)):
        assert isinstance(each, DelayedRecord)
        store.done(each)
    assert due(store, NOW + HOUR) == [critical]
    for each in due(store, NOW + HOUR):
        assert isinstance(each, DelayedRecord)
        store.done(each)
    due(store, NOW + HOUR)
    assert _all_items(store) == []


def test_done_record_leaves_no_item(store: DynamoDbDelayStore) -> None:
    item = delayed_record(NOW, value=incompressible("large"))
    store.put(item, NOW)
    store.put(
        DelayedRecord(id=item.id, due_ms=NOW, topic=item.topic, value=incompressible("other"), delay_reason="x"), NOW
    )
    store.done(item)
    assert due(store, NOW + HOUR) == []
    assert _all_items(store) == []


@pytest.mark.kills(guard="delay_store.unreadable_item")
@pytest.mark.parametrize(
    "damage",
    [
        {"parts": {"S": "two"}},
        {"topic": {"S": "send.api"}},
        {"value": {"S": "text"}},
        {"value": {"B": zlib.compress(b"no headers")}},
        {"copy": {"N": "1"}, "parts": {"N": "2"}},
        {"due_ms": {"N": "1.5"}},
        {"why": None},
    ],
    ids=lambda damage: next(iter(damage)),
)
def test_unreadable_row_hides_no_other_row(store: DynamoDbDelayStore, damage: dict[str, Any]) -> None:
    item, other = delayed_record(NOW), delayed_record(NOW)
    store.put(item, NOW)
    store.put(other, NOW)
    (row,) = [row for row in _all_items(store) if row["id"]["S"].endswith(item.id)]
    _write(store, {name: value for name, value in {**row, **damage}.items() if value is not None})
    found = due(store, NOW)
    assert ids(found) == [other.id]
    assert [type(each) for each in found if each != other] == [UnreadableItem]
    assert [each.id for each in store.scan()] == [other.id]


def test_unreadable_control_hides_no_other(store: DynamoDbDelayStore) -> None:
    send, later = SendKey(7, "b"), SendKey(7, "c")
    for id_, changed in (("no number", {"N": "1"}), ("7#a", {"S": "now"}), (later.text, {"N": "2"})):
        row = {
            "due_bucket": {"S": "controlled"},
            "id": {"S": id_},
            "changed_at_ms": changed,
            "of_later": {"BOOL": True},
        }
        _write(store, row)
    store.put_controlled(ControlledSend(send, NOW))
    found = list(store.controlled())
    assert [each for each in found if isinstance(each, ControlledSend)] == [
        ControlledSend(send, NOW),
        ControlledSend(later, 2),
    ]
    assert [each.key["id"] for each in found if isinstance(each, UnreadableItem)] == ["7#a", "no number"]


@pytest.mark.parametrize("damage", [{"parts": {"S": "2"}}, {"copy": {"N": "1"}}], ids=["parts", "copy"])
def test_record_damaged_during_its_release_is_removed(store: DynamoDbDelayStore, damage: dict[str, Any]) -> None:
    item = delayed_record(NOW)
    store.put(item, NOW)
    (row,) = [row for row in _all_items(store) if row["id"]["S"].endswith(item.id)]
    _write(store, {**row, **damage})
    store.done(item)
    assert due(store, NOW) == []


def test_the_critical_lane_is_read_before_any_bulk_bucket(store: DynamoDbDelayStore) -> None:
    """The critical lane needs two queries, whatever the number of due bulk records."""
    for minutes in range(5):
        store.put(delayed_record(NOW + minutes * 60_000), NOW)
    store.put(delayed_record(NOW + HOUR, topic="recheck.critical"), NOW)
    with patch.object(store, "_query", wraps=store._query) as query:
        assert len(list(store.due(NOW + HOUR, critical=True))) == 1
    assert query.call_count == 1
