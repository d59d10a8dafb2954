"""The stores of events, of categories, of frequency caps and of digests on DynamoDB Local."""

from typing import Any

import pytest

from local.devstack.config import StackConfig
from masscomm.stores.categories.dynamodb import DynamoDbCategories
from masscomm.stores.categories.port import Categories
from masscomm.stores.digests.dynamodb import DynamoDbDigests
from masscomm.stores.digests.port import Digests
from masscomm.stores.event_ids.dynamodb import DynamoDbEventIds
from masscomm.stores.event_ids.port import EventIds
from masscomm.stores.event_types.dynamodb import DynamoDbEventTypes
from masscomm.stores.event_types.port import EventTypes
from masscomm.stores.frequency_caps.dynamodb import DynamoDbFrequencyCaps
from masscomm.stores.frequency_caps.port import FrequencyCaps
from masscomm.stores.key_queues.dynamodb import DynamoDbKeyQueues
from masscomm.stores.key_queues.port import KeyQueues
from masscomm.stores.saved_audiences.dynamodb import DynamoDbSavedAudiences
from masscomm.stores.saved_audiences.port import SavedAudiences
from masscomm.stores.schedules.dynamodb import DynamoDbSchedules
from masscomm.stores.schedules.port import Schedules
from masscomm.stores.sent_messages.dynamodb import DynamoDbSentMessages
from masscomm.stores.sent_messages.port import SentMessages
from masscomm.stores.subscriptions.dynamodb import DynamoDbSubscriptions
from masscomm.stores.subscriptions.port import Subscriptions
from masscomm.stores.webhook_sources.dynamodb import DynamoDbWebhookSources
from masscomm.stores.webhook_sources.port import WebhookSources
from tests.support.contracts.categories import CategoriesContract
from tests.support.contracts.digests import DigestsContract
from tests.support.contracts.event_stores import (
    EventIdsContract,
    EventTypesContract,
    KeyQueuesContract,
    SentMessagesContract,
    SubscriptionsContract,
    WebhookSourcesContract,
)
from tests.support.contracts.frequency_caps import FrequencyCapsContract
from tests.support.contracts.saved_audiences import SavedAudiencesContract
from tests.support.contracts.schedules import SchedulesContract
from tests.support.servers.dynamodb_table import dynamodb, functions_client, new_table

__all__ = ["functions_client"]


class TestDynamoDbEventTypes(EventTypesContract):
    @pytest.fixture
    def event_types(self, localstack: StackConfig, functions_client: Any) -> EventTypes:
        return DynamoDbEventTypes(table=new_table(dynamodb(localstack), "event_types"), client=functions_client)


class TestDynamoDbCategories(CategoriesContract):
    @pytest.fixture
    def categories(self, localstack: StackConfig, functions_client: Any) -> Categories:
        return DynamoDbCategories(table=new_table(dynamodb(localstack), "categories"), client=functions_client)


class TestDynamoDbSavedAudiences(SavedAudiencesContract):
    @pytest.fixture
    def audiences(self, localstack: StackConfig, functions_client: Any) -> SavedAudiences:
        return DynamoDbSavedAudiences(table=new_table(dynamodb(localstack), "categories"), client=functions_client)


class TestDynamoDbSchedules(SchedulesContract):
    @pytest.fixture
    def schedules(self, localstack: StackConfig, functions_client: Any) -> Schedules:
        return DynamoDbSchedules(table=new_table(dynamodb(localstack), "categories"), client=functions_client)


class TestDynamoDbSubscriptions(SubscriptionsContract):
    @pytest.fixture
    def subscriptions(self, localstack: StackConfig, functions_client: Any) -> Subscriptions:
        return DynamoDbSubscriptions(table=new_table(dynamodb(localstack), "subscriptions"), client=functions_client)


class TestDynamoDbEventIds(EventIdsContract):
    @pytest.fixture
    def event_ids(self, localstack: StackConfig, functions_client: Any) -> EventIds:
        return DynamoDbEventIds(table=new_table(dynamodb(localstack), "event_ids"), client=functions_client)


class TestDynamoDbSentMessages(SentMessagesContract):
    @pytest.fixture
    def sent_messages(self, localstack: StackConfig, functions_client: Any) -> SentMessages:
        return DynamoDbSentMessages(table=new_table(dynamodb(localstack), "delivery_ledger"), client=functions_client)


class TestDynamoDbKeyQueues(KeyQueuesContract):
    @pytest.fixture
    def queues(self, localstack: StackConfig, functions_client: Any) -> KeyQueues:
        return DynamoDbKeyQueues(table=new_table(dynamodb(localstack), "delivery_ledger"), client=functions_client)


class TestDynamoDbWebhookSources(WebhookSourcesContract):
    @pytest.fixture
    def sources(self, localstack: StackConfig, functions_client: Any) -> WebhookSources:
        return DynamoDbWebhookSources(table=new_table(dynamodb(localstack), "webhook_sources"), client=functions_client)


class TestDynamoDbDigests(DigestsContract):
    @pytest.fixture
    def store(self, localstack: StackConfig, functions_client: Any) -> Digests:
        return DynamoDbDigests(table=new_table(dynamodb(localstack), "frequency_caps"), client=functions_client)


class TestDynamoDbFrequencyCaps(FrequencyCapsContract):
    @pytest.fixture
    def caps(self, localstack: StackConfig, functions_client: Any) -> FrequencyCaps:
        return DynamoDbFrequencyCaps(table=new_table(dynamodb(localstack), "frequency_caps"), client=functions_client)
