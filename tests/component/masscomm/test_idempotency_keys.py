from typing import Any
from uuid import uuid4

import pytest

from local.devstack.config import StackConfig
from masscomm.errors import Stop
from masscomm.stores.idempotency_keys.dynamodb import DynamoDbIdempotencyKeys
from masscomm.stores.idempotency_keys.port import IdempotencyKeys
from tests.support.contracts.idempotency_keys import NOW, ConcurrentIdempotencyKeysContract, IdempotencyKeysContract
from tests.support.servers.dynamodb_table import dynamodb, functions_client, new_table

__all__ = ["functions_client"]


class TestDynamoDbIdempotencyKeys(IdempotencyKeysContract, ConcurrentIdempotencyKeysContract):
    @pytest.fixture
    def keys(self, localstack: StackConfig, functions_client: Any) -> IdempotencyKeys:
        return DynamoDbIdempotencyKeys(
            table=new_table(dynamodb(localstack), "idempotency_keys"), client=functions_client
        )


def test_a_table_that_does_not_exist_is_the_installations_fault(localstack: StackConfig) -> None:
    keys = DynamoDbIdempotencyKeys(table=f"no-{uuid4()}", client=dynamodb(localstack))
    with pytest.raises(Stop):
        keys.find("7#k", now_ms=NOW)
