"""The store of webhook dead letters on DynamoDB Local."""

from typing import Any

import pytest

from local.devstack.config import StackConfig
from masscomm.stores.webhook_dead_letters.dynamodb import DynamoDbWebhookDeadLetters
from masscomm.stores.webhook_dead_letters.port import WebhookDeadLetters
from tests.support.contracts.webhook_dead_letters import BOUND, WebhookDeadLettersContract
from tests.support.servers.dynamodb_table import dynamodb, functions_client, new_table

__all__ = ["functions_client"]


class TestDynamoDbWebhookDeadLetters(WebhookDeadLettersContract):
    @pytest.fixture
    def dead_letters(self, localstack: StackConfig, functions_client: Any) -> WebhookDeadLetters:
        table = new_table(dynamodb(localstack), "webhook_dead_letters")
        return DynamoDbWebhookDeadLetters(bound=BOUND, table=table, client=functions_client)
