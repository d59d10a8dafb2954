"""webhook_events is killed at each step, with the real Kafka, DynamoDB and Postgres: no event is missing."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from local.devstack.config import ROOT, StackConfig
from local.devstack.provision import create_topics, register_schemas
from local.devstack.service import AWS_CREDENTIALS
from local.emulators.local import REGION
from masscomm.chain.subscription_topic import SubscriptionTopic
from masscomm.clock import SystemClock
from masscomm.domain.ids import own_event_id
from masscomm.domain.records import EventOccurred
from masscomm.domain.sends import Send, SendKey, Source, controlled
from masscomm.domain.webhooks import Endpoint
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec, HttpSchemaRegistry
from masscomm.kafka.topic_reading import read_topic
from masscomm.stores.sends.dynamodb import DynamoDbSends
from masscomm.stores.sends.port import Position
from masscomm.stores.webhook_endpoints.dynamodb import DynamoDbWebhookEndpoints
from tests.support.harness.webhooks import key
from tests.support.servers.dynamodb_table import dynamodb, new_table
from tests.support.servers.metrics_database import await_earlier_transactions, metrics_database

TABLES = {
    "SENDS_TABLE": "sends",
    "WEBHOOK_ENDPOINTS_TABLE": "webhook_endpoints",
    "SUBSCRIPTIONS_TABLE": "subscriptions",
    "EVENT_IDS_TABLE": "event_ids",
}
TOPICS = (topics.EVENT, topics.SUBSCRIPTION)
ENDPOINTS = (key(7, "a"), key(7, "b"), key(8, "c"))
STEP_S = 60
STEPS = (
    "event_ids.keep:before",
    "publishing.publish_implicit:before",
    "publishing.publish_implicit:after",
    "counts.since:after",
    "sends.read:after",
    "event_ids.kept:after",
    "producer.flush:before",
    "producer.flush:after",
    "event_ids.keep:after",
    "sends.move:before",
    "sends.move:after",
    "sends.forget:before",
)
_STATUS = re.compile(r"-?\d+")
COUNTS = """
with counted as (
    insert into sends (send_id, club_id, type, requested_at, chunk_count, chunks)
    values (%(id)s, %(club)s, 'news', now(), 1, 1)
    returning send_id
)
insert into send_changes (changed_xid, send_id) select pg_current_xact_id(), send_id from counted
"""
CHANNELS = "insert into send_channels values (%(id)s, 'push', 4, 0, 4)"
TOTALS = "insert into send_totals values (%(id)s, 'push', 'sent', '', 4)"


@dataclass
class Servers:
    """Tables in DynamoDB and a metrics database, and the environment of processes that use them."""

    url: str
    environment: dict[str, str]
    client: Any
    process: subprocess.Popen[str]
    later_s: float = 0.0

    def run(self, step: str | None = None) -> None:
        """Run the function once, later than the last one, until its end or until it is killed at a step."""
        self.later_s += STEP_S
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([self.later_s, *([step] if step else [])]) + "\n")
        self.process.stdin.flush()
        # The process also writes its log lines.
        lines: list[str] = []
        while not _STATUS.fullmatch(line := self.process.stdout.readline().rstrip("\n")):
            assert self.process.poll() is None, lines
            lines.append(line)
        assert int(line) == (-signal.SIGKILL if step else 0), f"{step}: {lines}"

    def table(self, setting: str) -> str:
        return self.environment[setting]


@pytest.fixture
def servers(
    kafka: StackConfig, registry: StackConfig, postgres: StackConfig, localstack: StackConfig, tmp_path: Path
) -> Iterator[Servers]:
    used = [each for each in topics.chain_topics() if each.name in TOPICS]
    create_topics(kafka.kafka_bootstrap, used)
    register_schemas(registry.registry_url, used)
    client = dynamodb(localstack)
    tables = {setting: new_table(client, name) for setting, name in TABLES.items()}
    with metrics_database(postgres) as url:
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
            **AWS_CREDENTIALS,
            **tables,
            "AWS_REGION": REGION,
            "AWS_ENDPOINT_URL": localstack.aws_url,
            "METRICS_DATABASE_URL": url,
            "KAFKA_BOOTSTRAP_SERVERS": kafka.kafka_bootstrap,
            "SCHEMA_REGISTRY_URL": registry.registry_url,
            "TMPDIR": str(tmp_path),
        }
        command = [sys.executable, "-m", "tests.support.harness.webhook_process"]
        with subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            yield Servers(url=url, environment=environment, client=client, process=process)
            assert process.stdin is not None
            process.stdin.close()


class Sends:
    """Two sends of club 7, of which one was paused and resumed, and one of club 8. All have ended."""

    def __init__(self, servers: Servers) -> None:
        now_ms = SystemClock().now_ms()
        self.keys = [SendKey(7, str(uuid4())), SendKey(7, str(uuid4())), SendKey(8, str(uuid4()))]
        register = DynamoDbSends(table=servers.table("SENDS_TABLE"), client=servers.client)
        sends = [Send(key=each, source=Source.REST, requested_at_ms=now_ms, reference="order-1") for each in self.keys]
        register.register(sends)
        register.move(Position(1, ""))
        assert register.change(controlled(sends[1], resumed_at_ms=now_ms), sends[1])
        with psycopg.connect(servers.url) as connection:
            for send in self.keys:
                for statement in (COUNTS, CHANNELS, TOTALS):
                    connection.execute(statement, {"id": send.send_id, "club": send.club_id})
        await_earlier_transactions(servers.url)
        self.names = {send: ["send.accepted", "send.completed"] for send in self.keys}
        self.names[self.keys[1]].insert(1, f"send.resumed/{now_ms}")


def _events(bootstrap: str, codec: Codec, send: SendKey) -> Iterator[EventOccurred]:
    """Yield the events of a send on the topic."""
    for message in read_topic(bootstrap, topics.EVENT):
        event = EventOccurred.from_avro(codec.decode("EventOccurred", message.value()))
        if event.key == send.send_id:
            yield event


@pytest.mark.guarantee("webhooks.at_least_once")
@pytest.mark.parametrize(
    "step", [pytest.param(step, marks=[] if step == STEPS[0] else [pytest.mark.nightly]) for step in STEPS]
)
def test_killed_function_loses_no_event(servers: Servers, kafka: StackConfig, registry: StackConfig, step: str) -> None:
    """Each event of a send is on the topic under one id, and its endpoints subscribe to it."""
    endpoints = DynamoDbWebhookEndpoints(table=servers.table("WEBHOOK_ENDPOINTS_TABLE"), client=servers.client)
    for each in ENDPOINTS:
        endpoints.create(Endpoint(key=each, url="https://hooks.example.org/", created_at_ms=1, key_id="1"))
    sends = Sends(servers)
    servers.run(step)
    for _ in range(2):
        servers.run()
    codec = Codec(HttpSchemaRegistry(registry.registry_url))
    index = SubscriptionTopic(bootstrap=kafka.kafka_bootstrap, codec=codec).current()
    for send, names in sends.names.items():
        produced = list(_events(kafka.kafka_bootstrap, codec, send))
        by_id = {event.event_id: event for event in produced}
        assert by_id.keys() == {own_event_id(send.club_id, send.send_id, name) for name in names}
        # The killed process repeats the events of one page, under their ids.
        assert len(produced) <= 2 * len(by_id)
        data = [json.loads(event.data) for event in by_id.values()]
        assert {each["reference"] for each in data} == {"order-1"}
        types = {json.loads(event.data)["sequence"]: event.type for event in by_id.values()}
        assert [name for _, name in sorted(types.items())] == [name.partition("/")[0] for name in names]
        receivers = {each for each in ENDPOINTS if each.club_id == send.club_id}
        assert all(receivers <= set(index.match(event)) for event in by_id.values())
