"""webhook_sender is killed between a POST and the end of its batch, with the real DynamoDB: the message is repeated
under the same id, and none is lost.
"""

import json
import multiprocessing
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from functions.webhook_sender import handler as webhook_sender
from local.devstack.config import StackConfig
from local.devstack.service import AWS_CREDENTIALS
from local.emulators.local import REGION
from masscomm.channels.kept_alive_http import KeptAliveHttp
from masscomm.domain.records import EventOccurred, WebhookRequested
from masscomm.domain.signing_keys import KeySet
from masscomm.domain.webhook_signatures import secret_of
from masscomm.domain.webhooks import Endpoint, EndpointKey
from masscomm.kafka import topics
from masscomm.kafka.bundled_schema import schema_header
from masscomm.stores.webhook_deliveries.dynamodb import DynamoDbWebhookDeliveries
from masscomm.stores.webhook_endpoints.dynamodb import DynamoDbWebhookEndpoints
from tests.support.harness.chain import NOW, Chain, event
from tests.support.harness.webhook_receiver import Receiver, receiving
from tests.support.harness.webhooks import KEYS_TEXT
from tests.support.inputs.api_gateway_events import lambda_context
from tests.support.servers.dynamodb_table import dynamodb, new_table

KEY = EndpointKey(7, "ep_7_aaaaaaaaaaaaaaaaaaaa")
TABLES = {
    "WEBHOOK_ENDPOINTS_TABLE": "webhook_endpoints",
    "WEBHOOK_DELIVERIES_TABLE": "webhook_deliveries",
    "AUDIT_LOG_TABLE": "audit_log",
}


@pytest.fixture
def endpoint(localstack: StackConfig, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Receiver, Any]]:
    """Yield the receiver of the endpoint, and the client of its tables, whose names are in the environment."""
    client = dynamodb(localstack)
    settings = {setting: new_table(client, name) for setting, name in TABLES.items()}
    settings |= {**AWS_CREDENTIALS, "AWS_REGION": REGION, "AWS_ENDPOINT_URL": localstack.aws_url}
    settings |= {"WEBHOOK_KEYS": KEYS_TEXT, "WEBHOOK_LOOPBACK": "1"}
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    with receiving() as receiver:
        store = DynamoDbWebhookEndpoints(table=settings["WEBHOOK_ENDPOINTS_TABLE"], client=client)
        store.create(Endpoint(key=KEY, url=receiver.url, created_at_ms=1, key_id="1"))
        yield receiver, client


def batch(count: int) -> dict[str, Any]:
    """Return the aws:kafka event with one record of messages."""
    events = [
        EventOccurred(event_id=f"e{number}", type="match.goal", club_id=7, occurred_at=NOW, data="{}")
        for number in range(count)
    ]
    request = WebhookRequested(
        record_id="r",
        bucket=1,
        partition=0,
        range_start=0,
        range_end=256,
        timestamp=NOW,
        events=events,
        offsets=list(range(count)),
        produced_at=[NOW] * count,
        endpoints=[KEY.id],
        event_index=list(range(count)),
        endpoint_index=[0] * count,
    )
    return event(Chain().encoded(request, topics.WEBHOOK, headers=[schema_header(WebhookRequested)]))


def invoke(given: dict[str, Any], *, killed_after_a_post: bool) -> None:
    """Process a batch, in a process of its own."""
    if killed_after_a_post:
        post = KeptAliveHttp.post

        async def last(self: KeptAliveHttp, *arguments: Any, **options: Any) -> None:
            await post(self, *arguments, **options)
            os.kill(os.getpid(), signal.SIGKILL)

        KeptAliveHttp.post = last  # type: ignore[assignment,method-assign]
    answered = webhook_sender.handler(given, lambda_context())
    assert answered == {"batchItemFailures": []}


def in_a_process(given: dict[str, Any], *, killed_after_a_post: bool = False) -> int | None:
    process = multiprocessing.get_context("spawn").Process(
        target=invoke, args=(given,), kwargs={"killed_after_a_post": killed_after_a_post}
    )
    process.start()
    process.join(60)
    return process.exitcode


@pytest.mark.guarantee("events.at_least_once")
def test_a_killed_sender_repeats_messages_under_their_ids(endpoint: tuple[Receiver, Any]) -> None:
    receiver, _ = endpoint
    given = batch(20)
    assert in_a_process(given, killed_after_a_post=True) == -signal.SIGKILL
    first = {each.headers["webhook-id"]: each.body for each in receiver.received}
    assert first
    assert in_a_process(given) == 0
    bodies = {each.headers["webhook-id"]: each.body for each in receiver.received}
    assert len(bodies) == 20
    assert all(bodies[id_] == body for id_, body in first.items())
    assert {json.loads(body)["event_id"] for body in bodies.values()} == {f"e{number}" for number in range(20)}
    # At most the calls in flight are repeated: those of one endpoint.
    assert len(receiver.received) - 20 <= 8
    secret = secret_of(KeySet.read(KEYS_TEXT), key_id="1", endpoint_id=KEY.id, version=1)
    assert all(each.is_signed(secret) for each in receiver.received)


def test_an_unreachable_endpoint_leaves_pending_deliveries(endpoint: tuple[Receiver, Any]) -> None:
    """The sweep of webhook_delivery finds them, under the ids of the messages."""
    _, client = endpoint
    store = DynamoDbWebhookEndpoints(table=os.environ["WEBHOOK_ENDPOINTS_TABLE"], client=client)
    found = store.find(KEY)
    assert found is not None
    store.delete(KEY)
    store.create(Endpoint(key=KEY, url="http://127.0.0.1:1024/", created_at_ms=1, key_id="1"))
    assert in_a_process(batch(3)) == 0
    deliveries = DynamoDbWebhookDeliveries(table=os.environ["WEBHOOK_DELIVERIES_TABLE"], client=client)
    assert [queue.endpoint for queue in deliveries.queues()] == [KEY]
    found_deliveries = deliveries.page(KEY, limit=10).deliveries
    assert len(found_deliveries) == 3
    failing = store.find(KEY)
    assert failing is not None
    assert failing.failing_since_ms is not None
