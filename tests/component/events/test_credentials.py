"""Credentials from the REST API to a POST, with the KMS and the DynamoDB of LocalStack."""

import json
import os
from dataclasses import replace
from typing import Any

import pytest

from functions.operations_handler.routes.webhooks import WebhooksRoute
from local.devstack.config import StackConfig
from local.devstack.provision import create_webhook_secrets_key
from local.devstack.service import AWS_CREDENTIALS, WEBHOOK_KMS_KEY
from local.emulators.local import REGION
from masscomm.aws.kms import KmsDataKeys
from masscomm.aws.sealed_secrets import SecretBox
from masscomm.channels.signing_keys import SigningKeys
from masscomm.clock import SystemClock
from masscomm.domain.webhooks import EndpointKey
from masscomm.http.tenant import Clubs
from masscomm.stores.webhook_endpoints.dynamodb import DynamoDbWebhookEndpoints
from masscomm.stores.webhook_tokens.dynamodb import DynamoDbWebhookTokens
from masscomm.stores.webhook_tokens.port import WebhookTokens
from tests.support.contracts.data_keys import DataKeysContract
from tests.support.contracts.webhook_stores import WebhookTokensContract
from tests.support.harness.chain import Chain
from tests.support.harness.operations_api import webhooks_route
from tests.support.harness.sender_process import SenderStores, batch, in_a_process, sender_stores
from tests.support.harness.webhook_receiver import receiving
from tests.support.harness.webhooks import KEYS_TEXT
from tests.support.servers.dynamodb_table import dynamodb, functions_client, new_table
from tests.support.servers.http_server import Answer, Asked, http_server
from tests.support.servers.localstack_client import localstack_client

__all__ = ["functions_client", "sender_stores"]

SEVEN = Clubs(frozenset({7}))


@pytest.fixture
def keys(localstack: StackConfig, monkeypatch: pytest.MonkeyPatch) -> KmsDataKeys:
    settings = {**AWS_CREDENTIALS, "AWS_REGION": REGION, "AWS_ENDPOINT_URL": localstack.aws_url}
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    create_webhook_secrets_key(localstack_client(localstack.aws_url, "kms"))
    return KmsDataKeys(WEBHOOK_KMS_KEY)


class TestKmsDataKeys(DataKeysContract):
    pass


class TestDynamoDbWebhookTokens(WebhookTokensContract):
    @pytest.fixture
    def tokens(self, localstack: StackConfig, functions_client: Any) -> WebhookTokens:
        table = new_table(dynamodb(localstack), "webhook_endpoints")
        return DynamoDbWebhookTokens(table=table, client=functions_client)


@pytest.fixture
def route(sender_stores: SenderStores, keys: KmsDataKeys) -> WebhooksRoute:
    clock = SystemClock()
    return replace(
        webhooks_route(clock, 7, Chain().codec),
        endpoints=DynamoDbWebhookEndpoints(table=os.environ["WEBHOOK_ENDPOINTS_TABLE"]),
        box=SecretBox(keys),
        keys=SigningKeys(read=lambda: KEYS_TEXT, clock=clock),
        clock=clock,
        loopback=True,
    )


def created(route: WebhooksRoute, url: str, authentication: dict[str, Any]) -> EndpointKey:
    fields = {"club_id": 7, "url": url, "authentication": authentication}
    body, _ = route.create(json.dumps(fields), SEVEN, "k7", lambda *_, **__: None)
    key = EndpointKey.of_id(body["endpoint"]["id"])
    assert key is not None
    return key


def test_credentials_of_the_api_are_in_the_requests(route: WebhooksRoute, sender_stores: SenderStores) -> None:
    with receiving() as receiver:
        key = created(route, receiver.url, {"type": "bearer", "token": "abc"})
        assert in_a_process(batch(3, key)) == 0
        changed = {"authentication": {"type": "headers", "headers": {"X-Key": "def"}}}
        route.change(key.id, json.dumps(changed), SEVEN, lambda *_, **__: None)
        assert in_a_process(batch(1, key, offset=1)) == 0
    sent = [(each.headers.get("authorization"), each.headers.get("x-key")) for each in receiver.received]
    assert sent == [("Bearer abc", None)] * 3 + [(None, "def")]
    assert {row.status for row in sender_stores.results()} == {"delivered"}


def test_processes_share_an_access_token(route: WebhooksRoute, sender_stores: SenderStores) -> None:
    asked: list[Asked] = []

    def issue(request: Asked) -> Answer:
        asked.append(request)
        document = {"access_token": f"t{len(asked)}", "token_type": "Bearer", "expires_in": 3600}
        return 200, {"Content-Type": "application/json"}, json.dumps(document).encode()

    with receiving() as receiver, http_server(issue) as tokens:
        client = {"token_url": f"{tokens}/token", "client_id": "shop", "client_secret": "s"}
        key = created(route, receiver.url, {"type": "oauth2", **client})
        for offset in range(2):
            assert in_a_process(batch(20, key, offset=offset)) == 0
    assert [each.headers.get("authorization") for each in receiver.received] == ["Bearer t1"] * 40
    assert len(asked) == 1
