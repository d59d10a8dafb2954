from typing import Any
from uuid import uuid4

import pytest

from local.devstack.config import StackConfig
from masscomm.errors import Stop
from masscomm.http.rate_limits import KeyUsage
from masscomm.stores.key_usage.dynamodb import DynamoDbKeyUsage
from tests.support.contracts.key_usage import WINDOW, ConcurrentKeyUsageContract, KeyUsageContract
from tests.support.servers.dynamodb_table import dynamodb, functions_client, new_table

__all__ = ["functions_client"]


class TestDynamoDbKeyUsage(KeyUsageContract, ConcurrentKeyUsageContract):
    @pytest.fixture
    def usage(self, localstack: StackConfig, functions_client: Any) -> KeyUsage:
        return DynamoDbKeyUsage(table=new_table(dynamodb(localstack), "key_usage"), client=functions_client)


def test_a_table_that_does_not_exist_is_the_installations_fault(localstack: StackConfig) -> None:
    with pytest.raises(Stop):
        DynamoDbKeyUsage(table=f"no-{uuid4()}", client=dynamodb(localstack)).take(WINDOW, 1)
