"""The functions of webhooks are killed at each step, with the real DynamoDB and Postgres: no event is missing."""

import json
import os
import re
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from examples.receive_webhooks import is_valid
from local.devstack.config import ROOT, StackConfig
from local.devstack.service import AWS_CREDENTIALS
from local.emulators.local import REGION
from masscomm.clock import SystemClock
from masscomm.domain.sends import Send, SendKey, Source, controlled
from masscomm.domain.signing_keys import KeySet
from masscomm.domain.time_limits import WEBHOOK_CLAIM_S
from masscomm.domain.webhook_signatures import secret_of
from masscomm.domain.webhooks import Endpoint, EndpointKey, event_id
from masscomm.stores.sends.dynamodb import DynamoDbSends
from masscomm.stores.sends.port import Position
from masscomm.stores.webhook_endpoints.dynamodb import DynamoDbWebhookEndpoints
from tests.support.harness.webhooks import KEYS_TEXT, key
from tests.support.servers.dynamodb_table import dynamodb, new_table
from tests.support.servers.http_server import Answer, Asked, http_server
from tests.support.servers.metrics_database import await_earlier_transactions, metrics_database

TABLES = {
    "SENDS_TABLE": "sends",
    "WEBHOOK_ENDPOINTS_TABLE": "webhook_endpoints",
    "WEBHOOK_DELIVERIES_TABLE": "webhook_deliveries",
    "AUDIT_LOG_TABLE": "audit_log",
}
ENDPOINTS = (key(7, "a"), key(7, "b"), key(8, "c"))
# Each sweep is so much later than the one before that claims of killed ones have ended.
STEP_S = WEBHOOK_CLAIM_S + 5
FIND_STEPS = (
    "deliveries.record:after",
    "counts.since:after",
    "sends.read:after",
    "deliveries.record:before",
    "deliveries._enter:before",
    "deliveries._touch:before",
    "deliveries.add:after",
    "sends.move:before",
    "sends.move:after",
    "sends.forget:before",
)
DELIVER_STEPS = (
    "http.post:after",
    "deliveries.claim:after",
    "http.post:before",
    "deliveries.replace:before",
    "deliveries._enter:before",
    "deliveries._enter:after",
    "deliveries.forget:before",
    "deliveries._touch:before",
    "deliveries.replace:after",
    "endpoints.replace:before",
    "endpoints.replace:after",
    "deliveries.drop:before",
    "deliveries.release:before",
)
_STATUS = re.compile(r"-?\d+")
# The step of a sweep that finds nothing left to deliver; the first sweep's attempts fail.
ONCE_DELIVERED = ("deliveries.drop:before",)
COUNTS = """
insert into sends (send_id, club_id, type, requested_at, chunk_count, chunks, changed_xid)
values (%(id)s, %(club)s, 'news', now(), 1, 1, pg_current_xact_id());
"""
CHANNELS = "insert into send_channels values (%(id)s, 'push', 4, 0, 4)"
TOTALS = "insert into send_totals values (%(id)s, 'push', 'sent', '', 4)"


@dataclass
class Receiver:
    """Records what each endpoint receives. The first request to each endpoint is answered with 503 in every test."""

    address: str = ""
    # Endpoint → (event, body) of each request with a valid signature, in the order of their arrival.
    received: dict[str, list[tuple[str, bytes]]] = field(default_factory=lambda: defaultdict(list))
    failed: set[str] = field(default_factory=set)

    def url(self, endpoint: EndpointKey) -> str:
        return f"{self.address}/{endpoint.id}"

    def answer(self, asked: Asked) -> Answer:
        headers = {name.lower(): value for name, value in asked.headers.items()}
        return self.status(asked.path, headers, asked.body), {"Connection": "close"}, b""

    def status(self, path: str, headers: dict[str, str], body: bytes) -> int:
        endpoint_id = path.removeprefix("/")
        secret = secret_of(KeySet.read(KEYS_TEXT), key_id="1", endpoint_id=endpoint_id, version=1)
        if not is_valid([secret], headers, body, float(headers["webhook-timestamp"])):
            return 400
        if endpoint_id not in self.failed:
            self.failed.add(endpoint_id)
            return 503
        self.received[endpoint_id].append((headers["webhook-id"], body))
        return 204


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    with http_server(made.answer) as made.address:
        yield made


@dataclass
class Servers:
    """Tables in DynamoDB and a metrics database, and the environment of processes that use them."""

    url: str
    environment: dict[str, str]
    client: Any
    process: subprocess.Popen[str]
    later_s: float = 0.0

    def run(self, function: str, step: str | None = None) -> None:
        """Run a function once, later than the last one, until its end or until it is killed at a step."""
        self.later_s += STEP_S
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([function, self.later_s, *([step] if step else [])]) + "\n")
        self.process.stdin.flush()
        # The process also writes its log lines.
        lines: list[str] = []
        while not _STATUS.fullmatch(line := self.process.stdout.readline().rstrip("\n")):
            assert self.process.poll() is None, lines
            lines.append(line)
        assert int(line) == (-signal.SIGKILL if step else 0), f"{function} {step}: {lines}"

    def table(self, setting: str) -> str:
        return self.environment[setting]


@pytest.fixture
def servers(
    postgres: StackConfig, localstack: StackConfig, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Servers]:
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
            "WEBHOOK_KEYS": KEYS_TEXT,
            "WEBHOOK_LOOPBACK": "1",
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

    def events(self, club_id: int) -> set[str]:
        """Return the ids of the events of a club."""
        return {
            event_id(club_id, send.send_id, name)
            for send, names in self.names.items()
            if send.club_id == club_id
            for name in names
        }


@pytest.mark.guarantee("webhooks.at_least_once")
@pytest.mark.parametrize(
    ("find", "deliver"),
    [
        pytest.param(
            FIND_STEPS[number % len(FIND_STEPS)], step, marks=[] if number == 0 else [pytest.mark.nightly], id=step
        )
        for number, step in enumerate(DELIVER_STEPS)
    ],
)
def test_killed_functions_lose_no_event(servers: Servers, receiver: Receiver, find: str, deliver: str) -> None:
    """Each endpoint receives each event of its club, under one id and with one body; sequences order its states."""
    endpoints = DynamoDbWebhookEndpoints(table=servers.table("WEBHOOK_ENDPOINTS_TABLE"), client=servers.client)
    for each in ENDPOINTS:
        endpoints.create(Endpoint(key=each, url=receiver.url(each), created_at_ms=1, key_id="1"))
    sends = Sends(servers)
    servers.run("webhook_events", find)
    servers.run("webhook_events")
    if deliver in ONCE_DELIVERED:
        servers.run("webhook_delivery")
    servers.run("webhook_delivery", deliver)
    for _ in range(2):
        servers.run("webhook_delivery")
    for each in ENDPOINTS:
        received = receiver.received[each.id]
        assert {id_ for id_, _ in received} == sends.events(each.club_id)
        bodies = dict(received)
        assert all(bodies[id_] == body and json.loads(body)["id"] == id_ for id_, body in received)
        # The killed process repeats one call; those of other endpoints may have been under way.
        assert len(received) <= len(bodies) + 1
        states: dict[str, dict[int, str]] = defaultdict(dict)
        for body in bodies.values():
            data = json.loads(body)["data"]
            assert data["reference"] == "order-1"
            states[data["send_id"]][data["sequence"]] = json.loads(body)["type"]
        for send, names in sends.names.items():
            if send.club_id == each.club_id:
                found = [name for _, name in sorted(states[send.send_id].items())]
                assert found == [name.partition("/")[0] for name in names]
