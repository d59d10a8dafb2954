"""The stores of the use of API keys keep their contract."""

from collections.abc import Iterator

import boto3
import pytest
from moto import mock_aws

from devstack.service import AWS_CREDENTIALS
from emulators.local import REGION
from masscomm.http.rate_limits import KeyUsage
from masscomm.stores.key_usage import InMemoryKeyUsage
from masscomm.stores.key_usage_dynamodb import DynamoDbKeyUsage
from tests.support.contracts.key_usage import ConcurrentKeyUsageContract, KeyUsageContract
from tests.support.servers.dynamodb_table import new_table


class TestInMemoryKeyUsage(KeyUsageContract, ConcurrentKeyUsageContract):
    @pytest.fixture
    def usage(self) -> KeyUsage:
        return InMemoryKeyUsage()


class TestMotoKeyUsage(KeyUsageContract):
    @pytest.fixture
    def usage(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[KeyUsage]:
        for name, value in AWS_CREDENTIALS.items():
            monkeypatch.setenv(name, value)
        with mock_aws():
            client = boto3.client("dynamodb", region_name=REGION)
            yield DynamoDbKeyUsage(table=new_table(client, "key_usage"), client=client)
