"""The store on LocalStack's DynamoDB, under the contract of the one in memory."""

import json
from pathlib import Path
from uuid import uuid4

import boto3
import pytest

import schemas
from devstack.service import AWS_CREDENTIALS
from devstack.settings import REGION, StackSettings
from masscomm.waiting import WaitingStore
from masscomm.waiting_dynamodb import DynamoDbWaitingStore
from tests.waiting_contract import WaitingStoreContract

DEFINITION = Path(next(iter(schemas.__path__))) / "dynamodb" / "waiting.json"


class TestDynamoDbWaitingStore(WaitingStoreContract):
    @pytest.fixture
    def store(self, localstack: StackSettings) -> WaitingStore:
        client = boto3.client(
            "dynamodb",
            endpoint_url=localstack.aws_url,
            region_name=REGION,
            aws_access_key_id=AWS_CREDENTIALS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=AWS_CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        )
        name = f"waiting-{uuid4()}"
        client.create_table(**json.loads(DEFINITION.read_text())["table"] | {"TableName": name})
        client.get_waiter("table_exists").wait(TableName=name, WaiterConfig={"Delay": 1})
        return DynamoDbWaitingStore(table=name, client=client)
