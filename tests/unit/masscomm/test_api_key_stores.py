"""The stores of API keys keep their contract."""

from dataclasses import dataclass, replace
from typing import Any

import pytest

from masscomm.stores.api_keys.dynamodb import ApiKeys
from masscomm.stores.api_keys.in_memory import InMemoryApiKeys
from masscomm.stores.api_keys.port import KeyStore, every_key
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
