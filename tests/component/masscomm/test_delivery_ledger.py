"""The delivery ledger on DynamoDB, in the table that provisioning creates from its definition."""

import json
import socket
from collections.abc import Iterator, Mapping
from typing import Any, cast
from uuid import uuid4

import pytest
from botocore.exceptions import ReadTimeoutError

from local.devstack.config import StackConfig
from local.devstack.provision import SCHEMAS, create_dynamodb_tables
from masscomm.aws.client import DynamoDb
from masscomm.aws.request import Limits
from masscomm.clock import FixedClock
from masscomm.domain.time_limits import LEASE_KEPT_S, LEASE_S, LEDGER_KEPT_S
from masscomm.errors import Retry, Stop
from masscomm.stores.delivery_ledger.dynamodb import DynamoDbDeliveryLedger
from masscomm.stores.delivery_ledger.port import Lease
from tests.support.contracts.delivery_ledger import DeliveryLedgerContract, Ledgers, RoundTrips, result
from tests.support.servers.dynamodb_table import dynamodb

TABLE = json.loads((SCHEMAS / "dynamodb" / "delivery_ledger.json").read_text())["table"]["TableName"]


@pytest.fixture(scope="module")
def tables(localstack: StackConfig) -> None:
    """The tables are provisioned once, because each provisioning compares all of them: half a second."""
    create_dynamodb_tables(dynamodb(localstack))


@pytest.fixture
def aws(localstack: StackConfig, tables: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of a Lambda function, and the table."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", localstack.aws_url)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock()


class CountingClient(DynamoDb):
    """The functions' client; it loses the next `lose_answers` responses after DynamoDB has handled their requests."""

    def __init__(self) -> None:
        super().__init__(Limits(connections=8, connect_s=1, read_s=5, attempts=2))
        self.requests = self.lose_answers = 0

    def _once(self, body: bytes, headers: Mapping[str, str]) -> tuple[int, bytes]:
        self.requests += 1
        answer = super()._once(body, headers)
        if self.lose_answers:
            self.lose_answers -= 1
            raise ReadTimeoutError(endpoint_url="")
        return answer


@pytest.mark.usefixtures("aws")
class TestDynamoDbDeliveryLedger(DeliveryLedgerContract):
    @pytest.fixture
    def client(self, aws: None) -> CountingClient:
        return CountingClient()

    @pytest.fixture
    def round_trips(self, client: CountingClient) -> RoundTrips:
        return lambda: client.requests

    @pytest.fixture
    def ledgers(self, client: CountingClient, clock: FixedClock) -> Ledgers:
        return lambda owner: DynamoDbDeliveryLedger(table=TABLE, owner=owner, clock=clock, client=cast(Any, client))

    @pytest.mark.kills(guard="dynamodb.transaction_token")
    def test_transaction_without_a_response_is_repeated(
        self, ledgers: Ledgers, client: CountingClient, clock: FixedClock
    ) -> None:
        """Both attempts of a transaction have one token, so DynamoDB applies it once and the leases are fresh."""
        ids = [str(uuid4()), str(uuid4())]
        client.lose_answers = 1
        lease = Lease(valid_until=clock.monotonic() + LEASE_S, fresh=True)
        assert ledgers("a").acquire_all(ids) == dict.fromkeys(ids, lease)
        client.lose_answers = 1
        assert ledgers("a").record_all({each: [result(0)] for each in ids}) == dict.fromkeys(ids)
        assert client.requests == 4

    def test_every_item_expires_and_the_lease_after_its_slices(
        self, localstack: StackConfig, ledgers: Ledgers, clock: FixedClock, record_id: str
    ) -> None:
        client = dynamodb(localstack)
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
            "slice#0000000000": LEDGER_KEPT_S,
        }
        ttl = client.describe_time_to_live(TableName=TABLE)["TimeToLiveDescription"]
        assert ttl == {"TimeToLiveStatus": "ENABLED", "AttributeName": "expires_at"}

    def test_provisioning_again_changes_nothing(
        self, localstack: StackConfig, ledgers: Ledgers, record_id: str
    ) -> None:
        ledgers("a").record(record_id, [result(0)])
        create_dynamodb_tables(dynamodb(localstack))
        assert ledgers("a").results(record_id) == [result(0)]

    def test_absent_table_stops_the_function(self, clock: FixedClock) -> None:
        ledger = DynamoDbDeliveryLedger(table=f"no-{uuid4()}", owner="a", clock=clock)
        with pytest.raises(Stop):
            ledger.acquire("record")
        for found in (ledger.acquire_all(["a", "b"]), ledger.record_all({"a": [result(0)], "b": [result(0)]})):
            assert {type(error) for error in found.values()} == {Stop}


class TestUnreachable:
    @pytest.fixture
    def ledger(self, aws: None, monkeypatch: pytest.MonkeyPatch, clock: FixedClock) -> Iterator[DynamoDbDeliveryLedger]:
        with socket.socket() as bound:  # a bound socket that does not listen makes DynamoDB unreachable
            bound.bind(("127.0.0.1", 0))
            monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{bound.getsockname()[1]}")
            yield DynamoDbDeliveryLedger(table=TABLE, owner="a", clock=clock)

    def test_each_method_of_a_failing_ledger_is_a_retry(self, ledger: DynamoDbDeliveryLedger) -> None:
        for method in (ledger.acquire, ledger.renew, ledger.release, ledger.results):
            with pytest.raises(Retry):
                method("record")
        with pytest.raises(Retry):
            ledger.record("record", [result(0)])
        for found in (ledger.acquire_all(["a", "b"]), ledger.record_all({"a": [result(0)], "b": [result(0)]})):
            assert {type(error) for error in found.values()} == {Retry}
