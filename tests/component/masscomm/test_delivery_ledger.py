"""The delivery ledger on DynamoDB, in the table that provisioning makes of its definition."""

import json
import socket
from collections.abc import Iterator
from uuid import uuid4

import boto3
import pytest

from devstack.config import StackConfig
from devstack.provision import SCHEMAS, create_dynamodb_tables
from masscomm.clock import FixedClock
from masscomm.errors import Retry, Stop
from masscomm.stores.delivery_ledger import KEPT_S, LEASE_KEPT_S
from masscomm.stores.delivery_ledger_dynamodb import DynamoDbDeliveryLedger
from tests.support.contracts.delivery_ledger import DeliveryLedgerContract, Ledgers, result

TABLE = json.loads((SCHEMAS / "dynamodb" / "delivery_ledger.json").read_text())["table"]["TableName"]


@pytest.fixture
def aws(localstack: StackConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment in which Lambda runs a function, and the table."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", localstack.aws_url)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    create_dynamodb_tables(boto3.client("dynamodb"))


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock()


@pytest.mark.usefixtures("aws")
class TestDynamoDbDeliveryLedger(DeliveryLedgerContract):
    @pytest.fixture
    def ledgers(self, aws: None, clock: FixedClock) -> Ledgers:
        return lambda owner: DynamoDbDeliveryLedger(table=TABLE, owner=owner, clock=clock)

    def test_every_item_expires_and_the_lease_after_its_slices(
        self, ledgers: Ledgers, clock: FixedClock, record_id: str
    ) -> None:
        client = boto3.client("dynamodb")
        ledgers("a").acquire(record_id)
        ledgers("a").record(record_id, [result(0)])
        items = client.query(
            TableName=TABLE,
            KeyConditionExpression="record_id = :id",
            ExpressionAttributeValues={":id": {"S": record_id}},
        )["Items"]
        now_s = clock.now_ms() // 1000
        assert {item["part"]["S"]: int(item["expires_at"]["N"]) - now_s for item in items} == {
            "lease": LEASE_KEPT_S,
            "slice#0000000000": KEPT_S,
        }
        ttl = client.describe_time_to_live(TableName=TABLE)["TimeToLiveDescription"]
        assert ttl == {"TimeToLiveStatus": "ENABLED", "AttributeName": "expires_at"}

    def test_provisioning_again_changes_nothing(self, ledgers: Ledgers, record_id: str) -> None:
        ledgers("a").record(record_id, [result(0)])
        create_dynamodb_tables(boto3.client("dynamodb"))
        assert ledgers("a").results(record_id) == [result(0)]

    def test_a_table_that_is_not_there_stops(self, clock: FixedClock) -> None:
        ledger = DynamoDbDeliveryLedger(table=f"no-{uuid4()}", owner="a", clock=clock)
        with pytest.raises(Stop):
            ledger.acquire("record")


class TestUnreachable:
    @pytest.fixture
    def ledger(self, aws: None, monkeypatch: pytest.MonkeyPatch, clock: FixedClock) -> Iterator[DynamoDbDeliveryLedger]:
        with socket.socket() as bound:  # bound, and nobody listens
            bound.bind(("127.0.0.1", 0))
            monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{bound.getsockname()[1]}")
            yield DynamoDbDeliveryLedger(table=TABLE, owner="a", clock=clock)

    def test_each_method_of_a_failing_ledger_is_a_retry(self, ledger: DynamoDbDeliveryLedger) -> None:
        for method in (ledger.acquire, ledger.renew, ledger.release, ledger.results):
            with pytest.raises(Retry):
                method("record")
        with pytest.raises(Retry):
            ledger.record("record", [result(0)])
