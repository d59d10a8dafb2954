"""The stores of API keys keep their contract."""

from dataclasses import dataclass, replace
from typing import Any

import pytest

from masscomm.stores.api_keys.dynamodb import ApiKeys
from masscomm.stores.api_keys.in_memory import InMemoryApiKeys
from masscomm.stores.api_keys.port import ApiKey, KeyStore, every_key
from ops.provisioning.api_keys import list_keys, unlisted_keys
from tests.support.contracts.api_keys import KEY, KeyStoreContract
from tests.support.servers.dynamodb_table import new_table


class TestInMemoryApiKeys(KeyStoreContract):
    @pytest.fixture
    def keys(self) -> KeyStore:
        return InMemoryApiKeys()


@dataclass
class Table:
    """The table of API keys in moto."""

    client: Any
    name: str
    keys: ApiKeys

    def put_earlier(self, key: ApiKey) -> None:
        """Store a key as earlier versions did: without an entry in the index, and without an item for its id."""
        item: dict[str, Any] = {"id": {"S": key.digest}, "created_at": {"N": str(key.created_at)}}
        item |= {name: {"S": getattr(key, name)} for name in ("name", "clubs", "scopes")}
        self.client.put_item(TableName=self.name, Item=item)

    def ends(self) -> dict[str, str | None]:
        """Return the time at which DynamoDB deletes each item, by the item's id."""
        items = self.client.scan(TableName=self.name)["Items"]
        return {item["id"]["S"]: item.get("expires_at", {}).get("N") for item in items}


@pytest.fixture
def table(moto_dynamodb: Any) -> Table:
    name = new_table(moto_dynamodb, "api_keys")
    keys = ApiKeys(moto_dynamodb, name, new_table(moto_dynamodb, "idempotency_keys"))
    return Table(moto_dynamodb, name, keys)


class TestMotoApiKeys(KeyStoreContract):
    @pytest.fixture
    def keys(self, table: Table) -> KeyStore:
        return table.keys


def test_a_key_of_an_earlier_version_is_listed_by_the_upgrade(table: Table) -> None:
    """It works before, and is listed, found by its id and revoked afterwards."""
    earlier, later = replace(KEY, digest="e" * 64, created_at=4), KEY
    table.put_earlier(earlier)
    table.keys.put(later)
    assert table.keys.find(earlier.digest) == earlier
    assert table.keys.find_by_id(earlier.key_id) is None
    assert unlisted_keys(table.keys) == [f"list the API key {earlier.key_id} of shop"]
    for _ in range(2):
        list_keys(table.keys)
        assert unlisted_keys(table.keys) == []
        assert list(every_key(table.keys)) == [later, earlier]
        assert table.keys.find_by_id(earlier.key_id) == earlier
    assert table.keys.end(earlier.digest, 77)
    assert table.keys.find_by_id(earlier.key_id) == replace(earlier, expires_at=77)


def test_a_key_that_ended_before_its_listing_stays_deleted(table: Table) -> None:
    table.keys.list_earlier(KEY)
    assert (table.keys.find_by_id(KEY.key_id), list(every_key(table.keys))) == (None, [])


def test_both_items_of_a_key_end_together(table: Table) -> None:
    without = replace(KEY, digest="e" * 64)
    table.keys.put(replace(KEY, expires_at=90))
    table.keys.put(without)
    assert table.ends() == {
        KEY.digest: "90",
        f"key_id#{KEY.key_id}": "90",
        without.digest: None,
        f"key_id#{without.key_id}": None,
    }
    table.keys.end(without.digest, 80)
    assert (table.ends()[without.digest], table.ends()[f"key_id#{without.key_id}"]) == ("80", "80")


def test_no_route_of_keys_reads_the_whole_table(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    table.keys.put(KEY)
    paginator = table.client.get_paginator

    def without_scan(operation: str) -> Any:
        assert operation != "scan"
        return paginator(operation)

    monkeypatch.setattr(table.client, "get_paginator", without_scan)
    monkeypatch.setattr(table.client, "scan", None)
    assert list(every_key(table.keys)) == [KEY] == [table.keys.find_by_id(KEY.key_id)]
    assert table.keys.end(KEY.digest, 7)
