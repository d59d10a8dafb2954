from typing import Any

import pytest

from devstack.config import StackConfig
from masscomm.stores.api_keys import ApiKeys, KeyStore
from tests.support.contracts.api_keys import KeyStoreContract
from tests.support.servers.dynamodb_table import dynamodb, functions_client, new_table

__all__ = ["functions_client"]


class TestDynamoDbApiKeys(KeyStoreContract):
    @pytest.fixture
    def keys(self, localstack: StackConfig, functions_client: Any) -> KeyStore:
        return ApiKeys(functions_client, new_table(dynamodb(localstack), "api_keys"))
