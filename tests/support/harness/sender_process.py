"""The webhook_sender function in a process of its own, with DynamoDB Local and endpoints on this machine."""

import multiprocessing
import os
import signal
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from functions.webhook_sender import handler as webhook_sender
from local.devstack.config import StackConfig
from local.devstack.service import AWS_CREDENTIALS, WEBHOOK_KMS_KEY
from local.emulators.local import REGION
from masscomm.channels.guarded_http import Answer
from masscomm.channels.kept_alive_http import KeptAliveHttp
from masscomm.domain.records import EventOccurred, WebhookOutcome, WebhookRequested
from masscomm.domain.webhooks import Endpoint, EndpointKey
from masscomm.kafka import topics
from masscomm.kafka.bundled_schema import schema_header, with_schema_id
from masscomm.stores.delayed_records.dynamodb import DynamoDbDelayStore
from masscomm.stores.delayed_records.port import DelayedRecord
from masscomm.stores.webhook_dead_letters.dynamodb import DynamoDbWebhookDeadLetters
from masscomm.stores.webhook_dead_letters.port import WebhookDeadLetter
from masscomm.stores.webhook_endpoints.dynamodb import DynamoDbWebhookEndpoints
from tests.support.harness.chain import NOW, Chain, event
from tests.support.harness.webhooks import KEYS_TEXT
from tests.support.inputs.api_gateway_events import lambda_context
from tests.support.servers.dynamodb_table import dynamodb, new_table

KEY = EndpointKey(7, "ep_7_aaaaaaaaaaaaaaaaaaaa")
_TABLES = {
    "WEBHOOK_ENDPOINTS_TABLE": "webhook_endpoints",
    "WEBHOOK_DEAD_LETTERS_TABLE": "webhook_dead_letters",
    "DELIVERY_LEDGER_TABLE": "delivery_ledger",
    "WAITING_TABLE": "waiting",
    "AUDIT_LOG_TABLE": "audit_log",
}


class ResultRow(NamedTuple):
    event_id: str
    status: str
    http_status: int | None
    error: str
    duration_ms: int


class SenderStores:
    """The stores of the function, whose tables' names are in the environment."""

    def __init__(self, client: Any) -> None:
        tables = {setting: os.environ[setting] for setting in _TABLES}
        self._chain = Chain()
        self._endpoints = DynamoDbWebhookEndpoints(table=tables["WEBHOOK_ENDPOINTS_TABLE"], client=client)
        self._delayed = DynamoDbDelayStore(table=tables["WAITING_TABLE"], client=client)
        self._letters = DynamoDbWebhookDeadLetters(table=tables["WEBHOOK_DEAD_LETTERS_TABLE"], client=client)

    def create(self, url: str, key: EndpointKey = KEY, **fields: Any) -> None:
        self._endpoints.create(Endpoint(key=key, url=url, created_at_ms=1, key_id="1", **fields))

    def endpoint(self, key: EndpointKey = KEY) -> Endpoint:
        found = self._endpoints.find(key)
        assert found is not None
        return found

    def let_probe(self, key: EndpointKey = KEY) -> None:
        """Let the probe of a failing endpoint be due."""
        state = self.endpoint(key)
        assert self._endpoints.replace(replace(state, probe_at_ms=1, revision=state.revision + 1))

    def due_ms(self) -> list[int]:
        return sorted(each.due_ms for each in self._stored(topics.WEBHOOK_SLOW))

    def waiting(self) -> list[WebhookRequested]:
        """Return the records that wait for webhook.slow."""
        return [
            WebhookRequested.from_avro(self._chain.codec.decode("WebhookRequested", self._value(each)))
            for each in self._stored(topics.WEBHOOK_SLOW)
        ]

    def results(self) -> list[ResultRow]:
        """Return the results of messages, in the order of their events' ids: those of a record once, as the metrics job
        counts them.
        """
        found: list[ResultRow] = []
        for each in {each.id: each for each in self._stored(topics.WEBHOOK_OUTCOME)}.values():
            record = WebhookOutcome.from_avro(self._chain.codec.decode("WebhookOutcome", self._value(each)))
            columns = zip(
                record.event_id, record.status, record.http_status, record.error, record.duration_ms, strict=True
            )
            found += [ResultRow(*row) for row in columns]
        return sorted(found)

    def dead_letters(self, key: EndpointKey = KEY) -> list[WebhookDeadLetter]:
        """Return the dead letters in the order of their events' ids."""
        page = self._letters.page(key, limit=1_000, after="", up_to="~")
        return sorted(page.letters, key=lambda each: each.event.event_id)

    def _stored(self, topic: str) -> list[DelayedRecord]:
        return [each for each in self._delayed.scan() if each.topic == topic]

    def _value(self, item: DelayedRecord) -> bytes:
        return with_schema_id(item.value, item.headers, item.topic, self._chain.codec)


@pytest.fixture
def sender_stores(localstack: StackConfig, monkeypatch: pytest.MonkeyPatch) -> SenderStores:
    client = dynamodb(localstack)
    settings = {setting: new_table(client, name) for setting, name in _TABLES.items()}
    settings |= {**AWS_CREDENTIALS, "AWS_REGION": REGION, "AWS_ENDPOINT_URL": localstack.aws_url}
    settings |= {"WEBHOOK_KEYS": KEYS_TEXT, "WEBHOOK_LOOPBACK": "1", "WEBHOOK_KMS_KEY": WEBHOOK_KMS_KEY}
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    return SenderStores(client)


def batch(
    count: int, *keys: EndpointKey, topic: str = topics.WEBHOOK, offset: int = 0, attempt: int = 0
) -> dict[str, Any]:
    """Return the aws:kafka event with one record of messages, at an offset: each event for each endpoint, after a
    number of attempts.
    """
    to = keys or (KEY,)
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
        attempt=attempt,
        events=events,
        offsets=list(range(count)),
        produced_at=[NOW] * count,
        endpoints=[each.id for each in to],
        event_index=[number for number in range(count) for _ in to],
        endpoint_index=[place for _ in range(count) for place in range(len(to))],
    )
    return event(Chain().encoded(request, topic, offset=offset, headers=[schema_header(WebhookRequested)]))


def in_a_process(given: dict[str, Any], *, killed_after: int | None = None) -> int | None:
    """Process a batch in a process of its own, which is killed after a number of requests, and return its exit code."""
    process = multiprocessing.get_context("spawn").Process(
        target=_invoke, args=(given,), kwargs={"killed_after": killed_after}
    )
    process.start()
    process.join(60)
    return process.exitcode


def _invoke(given: dict[str, Any], *, killed_after: int | None) -> None:
    if killed_after is not None:
        post, left = KeptAliveHttp.post, iter(range(killed_after - 1))

        async def last(self: KeptAliveHttp, *arguments: Any, **options: Any) -> Answer:
            answer = await post(self, *arguments, **options)
            if next(left, None) is None:
                os.kill(os.getpid(), signal.SIGKILL)
            return answer

        KeptAliveHttp.post = last  # type: ignore[method-assign]
    answered = webhook_sender.handler(given, lambda_context())
    assert answered == {"batchItemFailures": []}
