"""The stores of the use of API keys keep their contract."""

from typing import Any

import pytest

from masscomm.http.rate_limits import KeyUsage
from masscomm.stores.key_usage.dynamodb import DynamoDbKeyUsage
from masscomm.stores.key_usage.in_memory import InMemoryKeyUsage
from tests.support.contracts.key_usage import ConcurrentKeyUsageContract, KeyUsageContract
from tests.support.servers.dynamodb_table import new_table


class TestInMemoryKeyUsage(KeyUsageContract, ConcurrentKeyUsageContract):
    @pytest.fixture
    def usage(self) -> KeyUsage:
        return InMemoryKeyUsage()


class TestMotoKeyUsage(KeyUsageContract):
    @pytest.fixture
    def usage(self, moto_dynamodb: Any) -> KeyUsage:
        return DynamoDbKeyUsage(table=new_table(moto_dynamodb, "key_usage"), client=moto_dynamodb)
