"""Idempotency keys in memory and on moto, and the ids of their claims."""

from typing import Any

import pytest

from masscomm.stores.idempotency_keys.dynamodb import DynamoDbIdempotencyKeys
from masscomm.stores.idempotency_keys.in_memory import InMemoryIdempotencyKeys
from masscomm.stores.idempotency_keys.port import IdempotencyKeys, claim_id
from tests.support.contracts.idempotency_keys import ConcurrentIdempotencyKeysContract, IdempotencyKeysContract
from tests.support.servers.dynamodb_table import new_table


class TestInMemoryIdempotencyKeys(IdempotencyKeysContract, ConcurrentIdempotencyKeysContract):
    @pytest.fixture
    def keys(self) -> IdempotencyKeys:
        return InMemoryIdempotencyKeys()


class TestMotoIdempotencyKeys(IdempotencyKeysContract):
    @pytest.fixture
    def keys(self, moto_dynamodb: Any) -> IdempotencyKeys:
        return DynamoDbIdempotencyKeys(table=new_table(moto_dynamodb, "idempotency_keys"), client=moto_dynamodb)


def test_claim_id_reveals_no_key() -> None:
    digest = "cfe00dde46ef942601ffafb9e2825e802858b460e586b8305b344c1eb826357d"
    assert claim_id(7, "ada@example.org", is_test=False) == f"7#{digest}"
    assert claim_id(7, "ada@example.org", is_test=True) == f"7#test#{digest}"
