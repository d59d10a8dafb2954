"""First decisions on LocalStack's DynamoDB, under the contract of those in memory."""

import json
from pathlib import Path
from uuid import uuid4

import boto3
import pytest

import schemas
from devstack.service import AWS_CREDENTIALS
from devstack.settings import REGION, StackSettings
from masscomm.clock import FixedClock
from masscomm.decisions import DecisionLog
from masscomm.decisions_dynamodb import DynamoDbDecisionLog
from masscomm.errors import DeadLetter, Stop
from tests.decision_log_contract import DecisionLogContract

DEFINITION = Path(next(iter(schemas.__path__))) / "dynamodb" / "decisions.json"


class TestDynamoDbDecisionLog(DecisionLogContract):
    @pytest.fixture
    def log(self, localstack: StackSettings) -> DecisionLog:
        client = boto3.client(
            "dynamodb",
            endpoint_url=localstack.aws_url,
            region_name=REGION,
            aws_access_key_id=AWS_CREDENTIALS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=AWS_CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        )
        name = f"decisions-{uuid4()}"
        client.create_table(**json.loads(DEFINITION.read_text())["table"] | {"TableName": name})
        client.get_waiter("table_exists").wait(TableName=name, WaiterConfig={"Delay": 1})
        return DynamoDbDecisionLog(clock=FixedClock(), table=name, client=client)

    def test_what_no_item_holds_is_a_bad_record_and_stops_nobody_else(self, log: DecisionLog) -> None:
        with pytest.raises(DeadLetter):
            log.first("r", b"x" * 400_000)

    def test_a_table_that_is_not_there_stops(self, localstack: StackSettings) -> None:
        client = boto3.client(
            "dynamodb",
            endpoint_url=localstack.aws_url,
            region_name=REGION,
            aws_access_key_id=AWS_CREDENTIALS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=AWS_CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        )
        with pytest.raises(Stop):
            DynamoDbDecisionLog(clock=FixedClock(), table=f"no-{uuid4()}", client=client).first("r", b"x")
