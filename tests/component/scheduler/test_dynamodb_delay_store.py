import zlib
from typing import Any
from unittest.mock import patch

import pytest

from local.devstack.config import StackConfig
from masscomm.domain.sends import SendKey
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
