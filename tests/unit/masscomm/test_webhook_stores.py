"""The stores of webhooks in memory and on moto."""

from collections.abc import Sequence
from typing import Any

import pytest

from masscomm.domain.webhooks import MAX_ENDPOINTS, Endpoint
from masscomm.errors import Retry
from masscomm.stores.webhook_endpoints.dynamodb import DynamoDbWebhookEndpoints
from masscomm.stores.webhook_endpoints.in_memory import InMemoryWebhookEndpoints
from masscomm.stores.webhook_endpoints.port import TooManyEndpoints, WebhookEndpoints
from masscomm.stores.webhook_tokens.dynamodb import DynamoDbWebhookTokens
from masscomm.stores.webhook_tokens.in_memory import InMemoryWebhookTokens
from masscomm.stores.webhook_tokens.port import WebhookTokens
from tests.support.contracts.webhook_stores import (
    KEY,
    ConcurrentWebhookEndpointsContract,
    WebhookEndpointsContract,
    WebhookTokensContract,
    endpoint,
    numbered,
)
from tests.support.servers.dynamodb_table import new_table


class TestInMemoryWebhookEndpoints(WebhookEndpointsContract, ConcurrentWebhookEndpointsContract):
    @pytest.fixture
    def endpoints(self) -> WebhookEndpoints:
        return InMemoryWebhookEndpoints()


class TestInMemoryWebhookTokens(WebhookTokensContract):
    @pytest.fixture
    def tokens(self) -> WebhookTokens:
        return InMemoryWebhookTokens()


class TestMotoWebhookTokens(WebhookTokensContract):
    @pytest.fixture
    def tokens(self, moto_dynamodb: Any) -> WebhookTokens:
        return DynamoDbWebhookTokens(table=new_table(moto_dynamodb, "webhook_endpoints"), client=moto_dynamodb)


class TestMotoWebhookEndpoints(WebhookEndpointsContract):
    @pytest.fixture
    def endpoints(self, moto_dynamodb: Any) -> WebhookEndpoints:
        return DynamoDbWebhookEndpoints(table=new_table(moto_dynamodb, "webhook_endpoints"), client=moto_dynamodb)

    @pytest.mark.kills(guard="webhooks.counted_endpoints")
    def test_a_creation_after_the_count_is_counted(
        self, endpoints: DynamoDbWebhookEndpoints, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Another request creates the last endpoint between the count and the write."""
        for number in range(MAX_ENDPOINTS - 1):
            endpoints.create(numbered(number))
        of_club, between = endpoints.of_club, iter([numbered(98)])

        def counted(club_id: int) -> Sequence[Endpoint]:
            found = of_club(club_id)
            for other in between:
                assert endpoints.create(other) is None
            return found

        monkeypatch.setattr(endpoints, "of_club", counted)
        with pytest.raises(TooManyEndpoints):
            endpoints.create(numbered(99))
        assert len(of_club(7)) == MAX_ENDPOINTS

    def test_a_damaged_endpoint_is_a_retry(self, endpoints: DynamoDbWebhookEndpoints) -> None:
        endpoints.create(endpoint())
        endpoints._client.update_item(
            TableName=endpoints._table,
            Key={"club": {"S": "7"}, "id": {"S": KEY.id}},
            UpdateExpression="REMOVE created_at_ms",
        )
        with pytest.raises(Retry):
            endpoints.find(KEY)
