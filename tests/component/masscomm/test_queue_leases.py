from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from functions.preference_checker.broadcast_queues import BroadcastQueues, QueueLeaseStore
from functions.preference_checker.queue_leases_dynamodb import DynamoDbQueueLeaseStore
from local.devstack.config import StackConfig
from masscomm.clock import SystemClock
from masscomm.domain.lanes import Lane
from masscomm.errors import Retry, Stop
from tests.support.contracts.queue_leases import NOW, QueueLeaseStoreContract, lease
from tests.support.servers.dynamodb_table import dynamodb, functions_client, new_table

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

__all__ = ["functions_client"]


@pytest.fixture
def table(localstack: StackConfig) -> str:
    return new_table(dynamodb(localstack), "broadcast_queues")


class TestDynamoDbQueueLeaseStore(QueueLeaseStoreContract):
    @pytest.fixture
    def store(self, table: str, functions_client: Any) -> QueueLeaseStore:
        return DynamoDbQueueLeaseStore(table=table, client=functions_client)

    @pytest.mark.parametrize(
        "item",
        [
            {},
            {"version": {"S": "x"}, "uses": {"M": {}}},
            {"version": {"N": "1"}, "uses": {"S": "bulk"}},
        ],
    )
    def test_malformed_item_is_a_retry(
        self, store: QueueLeaseStore, table: str, localstack: StackConfig, item: dict[str, Any]
    ) -> None:
        dynamodb(localstack).put_item(TableName=table, Item={"id": {"S": "broadcasts"}, **item})
        with pytest.raises(Retry):
            store.read()

    @pytest.mark.kills(guard="queues.unreadable_lease")
    @pytest.mark.parametrize(
        "damage", [{"S": "7"}, {"M": {"club_id": {"N": "7"}}}, {"M": {"club_id": {"N": "1.5"}, "used_ms": {"N": "1"}}}]
    )
    def test_an_unreadable_lease_hides_no_other_and_is_replaced(
        self, store: QueueLeaseStore, table: str, localstack: StackConfig, damage: dict[str, Any]
    ) -> None:
        good = {"M": {"club_id": {"N": "7"}, "used_ms": {"N": str(NOW)}}}
        item: dict[str, Any] = {"version": {"N": "1"}, "uses": {"M": {"bulk": damage, "bulk2": good}}}
        dynamodb(localstack).put_item(TableName=table, Item={"id": {"S": "broadcasts"}, **item})
        assert dict(store.read().by_lane) == {Lane.BULK_2: lease(7)}
        assert BroadcastQueues(store).of(8, SystemClock()) is Lane.BULK
        assert store.read().by_lane[Lane.BULK].club_id == 8

    def test_removed_queue_is_ignored(self, store: QueueLeaseStore, table: str, localstack: StackConfig) -> None:
        of = {"M": {"club_id": {"N": "7"}, "used_ms": {"N": str(NOW)}}}
        item: dict[str, Any] = {"version": {"N": "1"}, "uses": {"M": {"bulk99": of, "bulk": of}}}
        dynamodb(localstack).put_item(TableName=table, Item={"id": {"S": "broadcasts"}, **item})
        assert dict(store.read().by_lane) == {Lane.BULK: lease(7)}


def test_absent_table_is_requested_once(localstack: StackConfig) -> None:
    client: DynamoDBClient = dynamodb(localstack)
    store = DynamoDbQueueLeaseStore(table=f"no-{uuid4()}", client=client)
    for ask in (store.read, lambda: store.replace(0, {}, NOW)):
        with pytest.raises(Stop):
            ask()
