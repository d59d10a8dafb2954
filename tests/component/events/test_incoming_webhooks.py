"""The door and its function with the real SQS, DynamoDB and KMS: nothing that the door has accepted is lost, whether
its function is killed or away.
"""

import asyncio
import base64
import json
import subprocess
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs
from uuid import uuid4

import httpx
import pytest

from infra.cdk.resources.door import message_template, refusal_template
from local.devstack.config import StackConfig
from local.devstack.provision import create_webhook_secrets_key
from local.devstack.service import AWS_CREDENTIALS, WEBHOOK_KMS_KEY
from local.devstack.setup import LOCALSTACK_VENV
from local.emulators.gateway import Gateway
from local.emulators.lambda_host.invocation import InvocationResult
from local.emulators.local import LOOPBACK, REGION
from local.emulators.queues import Door, QueueMapping, group_of, sqs_client
from masscomm.aws.kms import KmsDataKeys
from masscomm.aws.sealed_secrets import SecretBox
from masscomm.domain.events import EventType
from masscomm.domain.incoming_messages import message_of, read_message
from masscomm.domain.webhook_sources import Refusal, Scheme, sealing_context
from masscomm.observability import metrics
from masscomm.observability.metric_names import INCOMING_WEBHOOKS_REFUSED
from masscomm.stores.event_types.dynamodb import DynamoDbEventTypes
from masscomm.stores.webhook_sources.dynamodb import DynamoDbWebhookSources
from tests.support.fault_stack.proxy import DropAnswer, HttpProxy, Loop, Request
from tests.support.harness.receiver_process import EVENTS_FILE, Moment, in_a_process, produced, use_case
from tests.support.harness.webhook_sources import AT_MS, HMAC, SECRET, signed, source, source_key
from tests.support.inputs.api_gateway_events import EVERY_CLUB
from tests.support.inputs.hostile_webhooks import HOSTILE_MAPPING, HostileWebhook, hostile_webhooks
from tests.support.servers.dynamodb_table import dynamodb, new_table
from tests.support.servers.localstack_client import localstack_client

_TABLES = {
    "WEBHOOK_SOURCES_TABLE": "webhook_sources",
    "EVENT_TYPES_TABLE": "event_types",
    "EVENT_IDS_TABLE": "event_ids",
}


class Incoming:
    """The door, its queue, and the stores of its function, with one source."""

    def __init__(self, config: StackConfig, queue: str) -> None:
        self.client, self.queue = sqs_client({**AWS_CREDENTIALS, "AWS_ENDPOINT_URL": config.aws_url}), queue
        self.client.create_queue(QueueName=queue)
        create_webhook_secrets_key(localstack_client(config.aws_url, "kms"))
        self.sources = DynamoDbWebhookSources.from_environment()
        DynamoDbEventTypes.from_environment().put(EventType(name="match.finished", description="Finished"))
        box = SecretBox(KmsDataKeys(WEBHOOK_KMS_KEY))
        key = source_key()
        sealed = box.seal({"secret": SECRET}, sealing_context(key.id))
        mapping = {"type": {"value": "match.finished"}, "club_id": {"value": 1}, "data": {"path": "match"}}
        self.sources.put(replace(source(Scheme.GITHUB), sealed=sealed, mapping=mapping))

    @asynccontextmanager
    async def gateway(self) -> AsyncIterator[httpx.AsyncClient]:
        gateway = Gateway(
            [],
            invoke=_no_function,
            ready=dict,
            status=dict,
            authorize=lambda _: EVERY_CLUB,
            door=Door(client=self.client, queue=self.queue),
        )
        await gateway.start(0)
        try:
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{gateway.port}", trust_env=False) as client:
                yield client
        finally:
            await gateway.close()

    @asynccontextmanager
    async def function(self, invoke: Callable[[bytes], Awaitable[InvocationResult]]) -> AsyncIterator[QueueMapping]:
        mapping = QueueMapping(
            function="webhook_receiver",
            queue=self.queue,
            batch_size=10,
            client=self.client,
            invoke=invoke,
            visibility_s=1,
        )
        mapping.start()
        try:
            yield mapping
        finally:
            await mapping.stop()


async def _no_function(_name: str, _payload: bytes) -> InvocationResult:
    raise AssertionError("the door invokes no function")


@pytest.fixture
def incoming(localstack: StackConfig, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Incoming:
    settings = {setting: new_table(dynamodb(localstack), name) for setting, name in _TABLES.items()}
    settings |= {**AWS_CREDENTIALS, "AWS_REGION": REGION, "AWS_ENDPOINT_URL": localstack.aws_url}
    settings |= {"WEBHOOK_KMS_KEY": WEBHOOK_KMS_KEY, EVENTS_FILE: str(tmp_path / "events")}
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    return Incoming(localstack, f"incoming-{uuid4().hex}")


def _post(client: httpx.AsyncClient, number: int, **headers: str) -> Awaitable[httpx.Response]:
    body = json.dumps({"match": {"number": number}}).encode()
    given = {"content-type": "application/json", **signed(Scheme.GITHUB, body, id_=f"m-{number}"), **headers}
    return client.post(f"/v1/in/{source_key().id}", content=body, headers=given)


@pytest.mark.guarantee("incoming.at_least_once")
@pytest.mark.parametrize(
    ("moment", "most"),
    [
        # The killed invocation's events are repeated under their ids, unless they were recorded.
        pytest.param("before", 3, marks=pytest.mark.nightly),
        ("after", 6),
        pytest.param("answer", 3, marks=pytest.mark.nightly),
    ],
)
async def test_killed_function_loses_no_webhook(incoming: Incoming, moment: Moment, most: int) -> None:
    """The door accepts while no function runs; a kill repeats events under their ids, and refusals, at most."""
    kills = iter([moment])

    async def invoke(payload: bytes) -> InvocationResult:
        return await asyncio.to_thread(in_a_process, payload, next(kills, None))

    async with incoming.gateway() as client:
        for number in range(3):
            assert (await _post(client, number)).status_code == 202
        wrong = await _post(client, 3, **{"x-hub-signature-256": "sha256=00"})
        assert wrong.status_code == 202
        async with incoming.function(invoke) as mapping:
            await _processed(mapping, 4)
    assert next(kills, None) is None
    events = produced()
    ids = {event["event_id"]: event["data"] for event in events}
    assert sorted(ids.values()) == [_data(n) for n in range(3)]
    assert len(events) <= most
    refused = incoming.sources.refusals(source_key(), AT_MS // 1000)
    assert {each.reason for each in refused.last} == {Refusal.SIGNATURE}
    assert len(refused.last) <= (2 if moment == "answer" else 1)


@pytest.mark.nightly
@pytest.mark.guarantee("incoming.at_least_once")
async def test_webhooks_wait_while_servers_are_away(
    incoming: Incoming, localstack: StackConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DynamoDB and KMS are away, then answers to writes are lost. While SQS is away the door asks to post again."""

    async def invoke(payload: bytes) -> InvocationResult:
        return await asyncio.to_thread(in_a_process, payload)

    with Loop() as loop:
        queue, servers = (HttpProxy(loop, localstack.ports.localstack) for _ in range(2))
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{LOOPBACK}:{servers.port}")
        incoming.client = sqs_client({**AWS_CREDENTIALS, "AWS_ENDPOINT_URL": f"http://{LOOPBACK}:{queue.port}"})
        async with incoming.gateway() as client, incoming.function(invoke) as mapping:
            with queue.down():
                away = await _post(client, 0)
                assert (away.status_code, away.headers["retry-after"]) == (503, "60")
            assert (await _post(client, 0)).status_code == 202
            await _processed(mapping, 1)
            with servers.down():
                for number in (1, 2):
                    assert (await _post(client, number)).status_code == 202
                await _until(lambda: mapping.status()["failed"] >= 2)
            await _processed(mapping, 3)
            with servers.fault(DropAnswer(), when=_writes, times=2) as lost:
                assert (await _post(client, 3)).status_code == 202
                await _processed(mapping, 4)
            assert lost.hits == 2
    events = produced()
    assert sorted(event["data"] for event in events) == [_data(n) for n in range(4)]


@pytest.mark.guarantee("incoming.bad_webhook_stops_nothing")
async def test_hostile_webhooks_stop_nothing(
    incoming: Incoming, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """Each good webhook becomes an event, each other one is counted and listed; each night 20,000 of them."""
    made = list(hostile_webhooks(20_000 if request.config.getoption("--nightly") else 120))
    types = DynamoDbEventTypes.from_environment()
    types.put(EventType(name="match.finished", description="Finished", schema='{"required": ["number"]}'))
    stored = incoming.sources.find([source_key()])[source_key()]
    incoming.sources.put(replace(stored, signature=HMAC, mapping=HOSTILE_MAPPING))
    cases = use_case()
    metrics.taken()

    async def invoke(payload: bytes) -> InvocationResult:
        failed = await asyncio.to_thread(cases.handle, json.loads(payload)["Records"])
        answer = {"batchItemFailures": [{"itemIdentifier": id_} for id_ in failed]}
        return InvocationResult(payload=json.dumps(answer).encode(), request_id="r")

    async def post(client: httpx.AsyncClient, each: HostileWebhook) -> None:
        async with slots:
            answered = await client.post(f"/v1/in/{each.source}", content=each.body, headers=each.headers)
            assert answered.status_code == 202, answered.text

    slots = asyncio.Semaphore(8)
    async with incoming.gateway() as client, incoming.function(invoke) as mapping:
        queue = incoming.client.get_queue_url(QueueName=incoming.queue)["QueueUrl"]
        malformed = ('{"source": "s", "headers": {}, "body": "%%%", "received_at": 1}', "[", "{}", "null")
        for text in malformed:
            incoming.client.send_message(QueueUrl=queue, MessageBody=text, MessageGroupId="other")
        await asyncio.gather(*(post(client, each) for each in made))
        await _processed(mapping, len(made) + len(malformed), timeout_s=400)
        assert mapping.status()["failed"] == 0
    good = Counter(each.number for each in made if each.reason is None)
    assert Counter(json.loads(event["data"])["number"] for event in produced()) == good
    reasons = Counter(each.reason for each in made if each.reason is not None)
    reasons[Refusal.UNKNOWN_SOURCE] += len(malformed)
    counted = metrics.taken()[0]
    assert {reason: counted[INCOMING_WEBHOOKS_REFUSED[reason].name] for reason in reasons} == reasons
    listed = incoming.sources.refusals(source_key(), AT_MS // 1000)
    assert listed.total == reasons.total() - reasons[Refusal.UNKNOWN_SOURCE]
    assert {each.reason for each in listed.last} <= reasons.keys()


def _writes(asked: Request) -> bool:
    return asked.target.endswith(".BatchWriteItem")


def _data(number: int) -> str:
    return json.dumps({"number": number}, separators=(",", ":"))


async def _until(holds: Callable[[], bool], timeout_s: float = 60) -> None:
    async with asyncio.timeout(timeout_s):
        while not holds():
            await asyncio.sleep(0.05)


async def _processed(mapping: QueueMapping, count: int, timeout_s: float = 60) -> None:
    """Wait until the function has processed this many messages."""
    await _until(lambda: mapping.status()["processed"] >= count, timeout_s)


async def test_door_refuses_a_body_above_the_limit(incoming: Incoming) -> None:
    async with incoming.gateway() as client:
        path = f"/v1/in/{source_key().id}"
        large = await client.post(path, content=b"x" * 800_000, headers={"content-type": "text/plain"})
        assert (large.status_code, large.json()["code"]) == (413, "webhook_too_large")
        assert (await client.post(path, content=b"x" * 760_000)).status_code == 202
        other = await client.post(path, content=b"<a/>", headers={"content-type": "application/xml"})
        assert (other.status_code, other.json()["code"]) == (415, "webhook_type")
        assert (await client.get(path)).status_code == 404
        incoming.client.delete_queue(QueueUrl=incoming.client.get_queue_url(QueueName=incoming.queue)["QueueUrl"])
        away = await _post(client, 1)
        assert (away.status_code, away.headers["retry-after"]) == (503, "60")


_RENDER = """
import json, sys
from localstack.services.apigateway.next_gen.execute_api.template_mapping import ApiGatewayVtlTemplate
given = json.load(sys.stdin)
made = ApiGatewayVtlTemplate()
print(json.dumps([made.render_vtl(template=each["template"], variables=each["variables"]) for each in given]))
"""


def _rendered(*given: Mapping[str, Any]) -> Any:
    """Render templates by the API Gateway of LocalStack."""
    done = subprocess.run(
        [f"{LOCALSTACK_VENV}/bin/python", "-c", _RENDER], input=json.dumps(given), text=True, stdout=-1, check=True
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize("id_", [source_key().id, "", "x" * 200, '","body":"', "ä/é"])
def test_deployed_door_writes_the_messages_of_the_local_one(id_: str) -> None:
    headers = {"X-Name": "quote\" backslash\\ 'é'", "content-type": "application/json"}
    body = b'{"a": "\xff\\""}'
    variables = {
        "context": {"requestTimeEpoch": AT_MS},
        "input": {
            "body": base64.b64encode(body).decode(),
            "params": {"path": {"source": id_}, "header": headers, "querystring": {}},
        },
    }
    (form,) = _rendered({"template": message_template(), "variables": variables})
    fields = parse_qs(form, strict_parsing=True)
    assert fields["Action"] == ["SendMessage"]
    assert fields["MessageGroupId"] == [group_of(id_)]
    written = read_message("m", fields["MessageBody"][0])
    here = read_message("m", message_of(id_, headers, body, AT_MS))
    assert replace(written, source_id="") == replace(here, source_id="")
    assert (written.source_id == id_) is (id_ in (source_key().id, ""))


def test_deployed_door_answers_413_for_large_messages_alone() -> None:
    answers = {
        413: "One or more parameters are invalid. Reason: Message must be shorter than 1048576 bytes.",
        503: "KMS.ThrottlingException: You have exceeded the rate",
    }
    variables = [{"context": {"responseOverride": {}}, "input": {"body": text}} for text in answers.values()]
    rendered = _rendered(*({"template": refusal_template(), "variables": each} for each in variables))
    assert [json.loads(text)["status"] for text in rendered] == list(answers)
