"""The stores of API keys keep their contract."""

from collections.abc import Iterator

import boto3
import pytest
from moto import mock_aws

from devstack.service import AWS_CREDENTIALS
from emulators.local import REGION
from masscomm.stores.api_keys import ApiKeys, InMemoryApiKeys, KeyStore
from tests.support.contracts.api_keys import KeyStoreContract
from tests.support.servers.dynamodb_table import new_table


class TestInMemoryApiKeys(KeyStoreContract):
    @pytest.fixture
    def keys(self) -> KeyStore:
        return InMemoryApiKeys()


class TestMotoApiKeys(KeyStoreContract):
    @pytest.fixture
    def keys(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[KeyStore]:
        for name, value in AWS_CREDENTIALS.items():
            monkeypatch.setenv(name, value)
        with mock_aws():
            client = boto3.client("dynamodb", region_name=REGION)
            yield ApiKeys(client, new_table(client, "api_keys"), new_table(client, "idempotency_keys"))
