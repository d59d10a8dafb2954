"""Tables of schemas/dynamodb on LocalStack, one for each test."""

import json
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

import schemas
from local.devstack.config import StackConfig
from local.devstack.service import AWS_CREDENTIALS
from masscomm.aws.client import DynamoDb
from masscomm.aws.request import Limits
from tests.support.servers.localstack_client import localstack_client

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


def dynamodb(localstack: StackConfig) -> "DynamoDBClient":
    client: DynamoDBClient = localstack_client(localstack.aws_url, "dynamodb")
    return client


def new_table(client: "DynamoDBClient", definition: str) -> str:
    """Make an empty table of schemas/dynamodb/<definition>.json. Returns its unique name."""
    document = json.loads((Path(next(iter(schemas.__path__))) / "dynamodb" / f"{definition}.json").read_text())
    name = f"{definition}-{uuid4()}"
    client.create_table(**document["table"] | {"TableName": name})
    client.get_waiter("table_exists").wait(TableName=name, WaiterConfig={"Delay": 1})
    return name


@pytest.fixture
def functions_client(localstack: StackConfig, monkeypatch: pytest.MonkeyPatch) -> DynamoDb:
    for name, value in {"AWS_ENDPOINT_URL": localstack.aws_url, **AWS_CREDENTIALS}.items():
        monkeypatch.setenv(name, value)
    return DynamoDb(Limits(connect_s=1, read_s=3, attempts=2))
