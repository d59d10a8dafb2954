"""The store on LocalStack's DynamoDB, under the contract of the one in memory."""

import pytest

from devstack.settings import StackSettings
from masscomm.waiting import WaitingStore
from masscomm.waiting_dynamodb import DynamoDbWaitingStore
from tests.dynamodb_table import dynamodb, new_table
from tests.waiting_contract import WaitingStoreContract


class TestDynamoDbWaitingStore(WaitingStoreContract):
    @pytest.fixture
    def store(self, localstack: StackSettings) -> WaitingStore:
        client = dynamodb(localstack)
        return DynamoDbWaitingStore(table=new_table(client, "waiting"), client=client)
