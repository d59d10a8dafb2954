"""The store on LocalStack's DynamoDB, under the contract of the one in memory."""

from typing import Any

import pytest

from devstack.settings import StackSettings
from masscomm.waiting import WaitingStore
from masscomm.waiting_dynamodb import DynamoDbWaitingStore
from tests.dynamodb_table import dynamodb, functions_client, new_table
from tests.waiting_contract import WaitingStoreContract

__all__ = ["functions_client"]


class TestDynamoDbWaitingStore(WaitingStoreContract):
    @pytest.fixture
    def store(self, localstack: StackSettings, functions_client: Any) -> WaitingStore:
        table = new_table(dynamodb(localstack), "waiting")
        return DynamoDbWaitingStore(table=table, client=functions_client)
