"""The stores of webhooks on DynamoDB Local."""

from typing import Any

import pytest

from local.devstack.config import StackConfig
from masscomm.stores.webhook_endpoints.dynamodb import DynamoDbWebhookEndpoints
from masscomm.stores.webhook_endpoints.port import WebhookEndpoints
from tests.support.contracts.webhook_stores import (
    ConcurrentWebhookEndpointsContract,
    WebhookEndpointsContract,
)
from tests.support.servers.dynamodb_table import dynamodb, functions_client, new_table

__all__ = ["functions_client"]


class TestDynamoDbWebhookEndpoints(WebhookEndpointsContract, ConcurrentWebhookEndpointsContract):
    @pytest.fixture
    def endpoints(self, localstack: StackConfig, functions_client: Any) -> WebhookEndpoints:
        table = new_table(dynamodb(localstack), "webhook_endpoints")
        return DynamoDbWebhookEndpoints(table=table, client=functions_client)
