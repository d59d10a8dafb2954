"""The stores of events and of categories in memory and on moto."""

import zlib
from typing import Any

import pytest

from masscomm.errors import Retry
from masscomm.stores.batch_marks.dynamodb import DynamoDbBatchMarks
from masscomm.stores.batch_marks.in_memory import InMemoryBatchMarks
from masscomm.stores.batch_marks.port import BatchMark, BatchMarks
from masscomm.stores.categories.dynamodb import DynamoDbCategories
from masscomm.stores.categories.in_memory import InMemoryCategories
from masscomm.stores.categories.port import Categories
from masscomm.stores.event_ids.dynamodb import DynamoDbEventIds
from masscomm.stores.event_ids.in_memory import InMemoryEventIds
from masscomm.stores.event_ids.port import EventIds, EventKey
from masscomm.stores.event_types.dynamodb import DynamoDbEventTypes
from masscomm.stores.event_types.in_memory import InMemoryEventTypes
from masscomm.stores.event_types.port import EventTypes
from masscomm.stores.key_queues.dynamodb import DynamoDbKeyQueues
from masscomm.stores.key_queues.in_memory import InMemoryKeyQueues
from masscomm.stores.key_queues.port import KeyQueues
from masscomm.stores.saved_audiences.dynamodb import DynamoDbSavedAudiences
from masscomm.stores.saved_audiences.in_memory import InMemorySavedAudiences
from masscomm.stores.saved_audiences.port import SavedAudiences
from masscomm.stores.schedules.dynamodb import DynamoDbSchedules
from masscomm.stores.schedules.in_memory import InMemorySchedules
from masscomm.stores.schedules.port import Schedules
from masscomm.stores.sent_messages.dynamodb import DynamoDbSentMessages
from masscomm.stores.sent_messages.in_memory import InMemorySentMessages
from masscomm.stores.sent_messages.port import Partition, RecordPosition, Sent, SentMessages
from masscomm.stores.subscriptions.dynamodb import DynamoDbSubscriptions
from masscomm.stores.subscriptions.in_memory import InMemorySubscriptions
from masscomm.stores.subscriptions.port import Subscriptions
from masscomm.stores.webhook_sources.dynamodb import DynamoDbWebhookSources
from masscomm.stores.webhook_sources.in_memory import InMemoryWebhookSources
from masscomm.stores.webhook_sources.port import WebhookSources
from tests.support.contracts.categories import CategoriesContract
from tests.support.contracts.event_stores import (
    AT_S,
    BATCH,
    BatchMarksContract,
    EventIdsContract,
    EventTypesContract,
    KeyQueuesContract,
    SentMessagesContract,
    SubscriptionsContract,
    WebhookSourcesContract,
)
from tests.support.contracts.saved_audiences import SavedAudiencesContract
from tests.support.contracts.schedules import SchedulesContract
from tests.support.servers.dynamodb_table import new_table


class TestInMemoryEventTypes(EventTypesContract):
    @pytest.fixture
    def event_types(self) -> EventTypes:
        return InMemoryEventTypes()


class TestMotoEventTypes(EventTypesContract):
    @pytest.fixture
    def event_types(self, moto_dynamodb: Any) -> EventTypes:
        return DynamoDbEventTypes(table=new_table(moto_dynamodb, "event_types"), client=moto_dynamodb)


class TestInMemoryCategories(CategoriesContract):
    @pytest.fixture
    def categories(self) -> Categories:
        return InMemoryCategories()


class TestMotoCategories(CategoriesContract):
    @pytest.fixture
    def categories(self, moto_dynamodb: Any) -> Categories:
        return DynamoDbCategories(table=new_table(moto_dynamodb, "categories"), client=moto_dynamodb)


class TestInMemorySavedAudiences(SavedAudiencesContract):
    @pytest.fixture
    def audiences(self) -> SavedAudiences:
        return InMemorySavedAudiences()


class TestMotoSavedAudiences(SavedAudiencesContract):
    @pytest.fixture
    def audiences(self, moto_dynamodb: Any) -> SavedAudiences:
        return DynamoDbSavedAudiences(table=new_table(moto_dynamodb, "categories"), client=moto_dynamodb)


class TestInMemorySchedules(SchedulesContract):
    @pytest.fixture
    def schedules(self) -> Schedules:
        return InMemorySchedules()


class TestMotoSchedules(SchedulesContract):
    @pytest.fixture
    def schedules(self, moto_dynamodb: Any) -> Schedules:
        return DynamoDbSchedules(table=new_table(moto_dynamodb, "categories"), client=moto_dynamodb)


class TestInMemorySubscriptions(SubscriptionsContract):
    @pytest.fixture
    def subscriptions(self) -> Subscriptions:
        return InMemorySubscriptions()


class TestMotoSubscriptions(SubscriptionsContract):
    @pytest.fixture
    def subscriptions(self, moto_dynamodb: Any) -> Subscriptions:
        return DynamoDbSubscriptions(table=new_table(moto_dynamodb, "subscriptions"), client=moto_dynamodb)


class TestInMemoryEventIds(EventIdsContract):
    @pytest.fixture
    def event_ids(self) -> EventIds:
        return InMemoryEventIds()


class TestMotoEventIds(EventIdsContract):
    @pytest.fixture
    def event_ids(self, moto_dynamodb: Any) -> EventIds:
        return DynamoDbEventIds(table=new_table(moto_dynamodb, "event_ids"), client=moto_dynamodb)


class TestInMemoryWebhookSources(WebhookSourcesContract):
    @pytest.fixture
    def sources(self) -> WebhookSources:
        return InMemoryWebhookSources()


class TestMotoWebhookSources(WebhookSourcesContract):
    @pytest.fixture
    def sources(self, moto_dynamodb: Any) -> WebhookSources:
        return DynamoDbWebhookSources(table=new_table(moto_dynamodb, "webhook_sources"), client=moto_dynamodb)


class BusyDynamoDb:
    """A DynamoDB that leaves the last item of each write unwritten, for a number of requests."""

    def __init__(self, times: int) -> None:
        self.times = times
        self.written: list[Any] = []

    def batch_write_item(self, RequestItems: Any) -> Any:
        ((table, puts),) = RequestItems.items()
        left = puts[-1:] if self.times > 0 else []
        self.times -= 1
        self.written += [put["PutRequest"]["Item"]["id"]["S"] for put in puts if put not in left]
        return {"UnprocessedItems": {table: left} if left else {}}


def test_an_unwritten_item_is_written_again() -> None:
    client = BusyDynamoDb(1)
    store = DynamoDbEventIds(table="t", client=client)  # type: ignore[arg-type]
    store.record({EventKey(7, "a"): "one", EventKey(7, "b"): "two"}, 1)
    assert client.written == ["7#a", "7#b"]


@pytest.mark.kills(guard="dynamodb.unwritten_item")
def test_an_item_that_stays_unwritten_is_a_retry() -> None:
    store = DynamoDbEventIds(table="t", client=BusyDynamoDb(9))  # type: ignore[arg-type]
    with pytest.raises(Retry, match="has not written"):
        store.record({EventKey(7, "a"): "one"}, 1)


class TestInMemorySentMessages(SentMessagesContract):
    @pytest.fixture
    def sent_messages(self) -> SentMessages:
        return InMemorySentMessages()


class TestMotoSentMessages(SentMessagesContract):
    @pytest.fixture
    def sent_messages(self, moto_dynamodb: Any) -> SentMessages:
        return DynamoDbSentMessages(table=new_table(moto_dynamodb, "delivery_ledger"), client=moto_dynamodb)


class TestInMemoryKeyQueues(KeyQueuesContract):
    @pytest.fixture
    def queues(self) -> KeyQueues:
        return InMemoryKeyQueues()


class TestMotoKeyQueues(KeyQueuesContract):
    @pytest.fixture
    def queues(self, moto_dynamodb: Any) -> KeyQueues:
        return DynamoDbKeyQueues(table=new_table(moto_dynamodb, "delivery_ledger"), client=moto_dynamodb)


class TestInMemoryBatchMarks(BatchMarksContract):
    @pytest.fixture
    def batch_marks(self) -> BatchMarks:
        return InMemoryBatchMarks()


class TestMotoBatchMarks(BatchMarksContract):
    @pytest.fixture
    def batch_marks(self, moto_dynamodb: Any) -> BatchMarks:
        return DynamoDbBatchMarks(table=new_table(moto_dynamodb, "delivery_ledger"), client=moto_dynamodb)


@pytest.mark.parametrize("value", [b"", b"no mark", zlib.compress(b"[1]"), zlib.compress(b'{"done": [1]}')])
def test_a_malformed_mark_has_no_progress(moto_dynamodb: Any, value: bytes) -> None:
    table = new_table(moto_dynamodb, "delivery_ledger")
    marks = DynamoDbBatchMarks(table=table, client=moto_dynamodb)
    marks.begin(BATCH, AT_S)
    key = {"record_id": {"S": "build/3"}, "part": {"S": f"batch#41#{BATCH.timestamp_ms}"}}
    values = {":mark": {"B": value}}
    moto_dynamodb.update_item(
        TableName=table, Key=key, UpdateExpression="SET mark = :mark", ExpressionAttributeValues=values
    )
    assert marks.begin(BATCH, AT_S) == BatchMark(invocations=2, crashed=True)


@pytest.mark.parametrize("value", [b"", b"no rows", zlib.compress(b"[1]"), zlib.compress(b'[[1, 2, "-"]]')])
def test_a_malformed_item_has_no_sent_messages(moto_dynamodb: Any, value: bytes) -> None:
    table = new_table(moto_dynamodb, "delivery_ledger")
    item = {"record_id": {"S": "webhook/3"}, "part": {"S": "sent"}, "sent": {"B": value}}
    moto_dynamodb.put_item(TableName=table, Item=item)
    assert DynamoDbSentMessages(table=table, client=moto_dynamodb).find(Partition("webhook", 3)) == Sent()


def test_an_item_of_version_0_1_has_its_sent_messages(moto_dynamodb: Any) -> None:
    table = new_table(moto_dynamodb, "delivery_ledger")
    rows = zlib.compress(b'[[41, 1700000000000, "5"]]')
    item = {"record_id": {"S": "webhook/3"}, "part": {"S": "sent"}, "sent": {"B": rows}}
    moto_dynamodb.put_item(TableName=table, Item=item)
    found = DynamoDbSentMessages(table=table, client=moto_dynamodb).find(Partition("webhook", 3))
    assert found == Sent(settled={RecordPosition(41, 1_700_000_000_000): {0, 2}})
