from typing import Any

import pytest

from local.devstack.config import StackConfig
from masscomm.stores.api_keys.dynamodb import ApiKeys
from masscomm.stores.api_keys.port import KeyStore
from tests.support.contracts.api_keys import ConcurrentKeyStoreContract
from tests.support.servers.dynamodb_table import dynamodb, functions_client, new_table

__all__ = ["functions_client"]


class TestDynamoDbApiKeys(ConcurrentKeyStoreContract):
    @pytest.fixture
    def keys(self, localstack: StackConfig, functions_client: Any) -> KeyStore:
        client = dynamodb(localstack)
        return ApiKeys(functions_client, new_table(client, "api_keys"), new_table(client, "idempotency_keys"))
