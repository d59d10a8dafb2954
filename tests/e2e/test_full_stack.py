"""The whole stack, started by `masscomm up`, serves the functions, recovers, and ends without leftovers.

All tests share one stack, because each start takes half a minute. The demo, with fewer users, compares every figure
with the oracle's.
"""

import io
import json
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import psutil
import psycopg
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from playwright.sync_api import expect

from cli.reference import all_commands
from cli.terminal import Terminal
from infra.grafana.dashboard import PANELS, RATE
from local.devstack import process
from local.devstack.commands import FIRST_COMMAND
from local.devstack.config import ROOT, StackConfig
from local.devstack.demo.records import TopicReader
from local.devstack.demo.run import run_demo
from local.devstack.handle import RunningStack
from local.devstack.loopback import exposed
from local.devstack.service import function_environment
from local.devstack.services import all_services
from local.devstack.services.spark import run_module
from local.devstack.sns_process import SnsStandIn
from local.devstack.state import RunState
from masscomm.domain.ids import event_message_id, event_send_id
from masscomm.domain.time_limits import GATEWAY_TIMEOUT_S
from masscomm.domain.webhook_sources import Scheme
from masscomm.http.rest import JSON
from masscomm.kafka.avro import Codec, HttpSchemaRegistry
from masscomm.kafka.topics import WEBHOOK_OUTCOME
from masscomm_client import ApiError, AsyncClient, Client
from masscomm_client.types import DeadLetterRow, EventFields
from tests.support.harness import client_examples, webhook_sources
from tests.support.harness.agent import agent
from tests.support.harness.client_calls import call_each_method, methods
from tests.support.harness.console import OBSERVE, PATIENCE_MS, Console, open_console, open_page
from tests.support.harness.problems import NOT_CAUSED, Cause, cause_problems, documented
from tests.support.harness.webhook_receiver import receiving
from tests.support.runbooks import RUNBOOKS, commands, spans
from tests.support.schemathesis_run import check_responses
from tests.support.servers.http_server import Asked, http_server
from tests.support.servers.localstack_client import localstack_client
from tests.support.servers.prometheus import scraping, values
from tests.support.until import WaitTimeoutError, until

MEMORY_LIMIT_MB = 4_352
# The users of the demo: for each change, and each night.
FEW_USERS, USERS = 600, 1_500
FIELDS = {"requested", "suppressed", "sent", "failed", "in_flight", "send_id", "source"}


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory, one_stack_at_a_time: None) -> StackConfig:
    return StackConfig.on_free_ports(tmp_path_factory.mktemp("full"))


@pytest.fixture(scope="module")
def stack(config: StackConfig) -> Iterator[RunningStack]:
    masscomm(config, "up", "--detach")
    yield RunningStack.of(config)
    if RunState(config).holder():
        masscomm(config, "down")


def masscomm(
    config: StackConfig, *arguments: str, status: int = 0, environment: Mapping[str, str] | None = None
) -> str:
    """Run a command of masscomm with this state folder and these ports. Returns its output."""
    ports = {f"MASSCOMM_PORT_{name.upper()}": str(port) for name, port in asdict(config.ports).items()}
    done = subprocess.run(
        [sys.executable, "-m", "cli.main", *arguments],
        cwd=ROOT,
        env={**process_environment(), "MASSCOMM_STATE": str(config.state_dir), **ports, **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


def process_environment() -> dict[str, str]:
    return psutil.Process().environ()


def connections(of: psutil.Process) -> list[Any]:
    """Return the TCP connections of a process; none if it has ended, as those of Postgres do with their clients."""
    with suppress(psutil.NoSuchProcess):
        return list(of.net_connections(kind="tcp"))
    return []


def processes(stack: RunningStack) -> list[psutil.Process]:
    return [each for started in stack.services.values() for each in process.family(started.pid)]


def test_all_services_run_and_report_ready(stack: RunningStack, config: StackConfig) -> None:
    assert set(stack.services) == set(all_services(config))
    assert all(started.alive() for started in stack.services.values())
    assert httpx.get(f"{config.gateway_url}/-/ready").status_code == 200
    output = masscomm(config, "status")
    for name in stack.services:
        assert re.search(rf"{name} +│ +ready", output)
    assert str(stack.holder_pid) in masscomm(config, "up", "--detach", status=1)
    assert "already runs" in masscomm(config, "clean-state", status=1)


def test_no_port_is_reachable_from_outside(stack: RunningStack, config: StackConfig) -> None:
    listening = {
        connection.laddr.port
        for each in processes(stack)
        for connection in connections(each)
        if connection.status == psutil.CONN_LISTEN
    }
    # The directory's state runs only where functions look up in it.
    ports = {port for name, port in asdict(config.ports).items() if name != "directory_state"}
    assert ports <= listening, "the check must see every server"
    assert exposed(processes(stack)) == []


def test_stack_stays_within_its_memory_limit(stack: RunningStack) -> None:
    assert 500 < stack.memory_mb() < MEMORY_LIMIT_MB


def test_localstack_uses_the_service_catalog_that_setup_built(stack: RunningStack, config: StackConfig) -> None:
    assert stack.ready
    built = (config.data("localstack") / "var").rglob("service-catalog*")
    assert list(built) == [], "building it costs each new state folder 20 s and 350 MB"


def test_secret_files_are_readable_by_their_owner_only(stack: RunningStack, config: StackConfig) -> None:
    password = config.password
    readable = [
        str(path)
        for path in config.state_dir.rglob("*")
        if path.is_file() and path.stat().st_mode & 0o077 and contains(path, password)
    ]
    assert stack.ready
    assert readable == []


def contains(path: Path, text: str) -> bool:
    return text.encode() in path.read_bytes()


def test_first_send_of_the_quick_start_shows_its_own_words(stack: RunningStack, config: StackConfig) -> None:
    """A new stack has the users that the pages name, and their devices have endpoints."""
    page = (ROOT / "docs" / "quick-start.md").read_text()
    assert f"    .venv/bin/{FIRST_COMMAND}\n" in page
    assert FIRST_COMMAND in (ROOT / "README.md").read_text()
    shown = masscomm(config, *shlex.split(FIRST_COMMAND)[1:])
    assert re.search(r"^after \d+\.\d s: push to user 42, device 420", shown, re.MULTILINE), shown
    assert shown.index("It works.") < shown.index("100% of 1"), "a message arrives before it is counted"
    assert re.search(r"^  Hello\n  It works\.$", shown, re.MULTILINE), shown

    inbox = masscomm(config, "inbox", "--user", "42")
    assert inbox.count("It works.") == shown.count("It works.")


def test_smoke_finds_no_problem_in_a_new_stack(stack: RunningStack, config: StackConfig) -> None:
    """With the pages' words for the template of an e-mail."""
    assert stack.ready
    data = [each for name in ("title", "headline", "body") for each in ("--data", f"{name}=Hello")]
    output = masscomm(config, "smoke", "--club", "1", "--user", "1", *data)
    assert output.count("✓") == 4


def test_demo_equals_the_oracle_on_one_stack(stack: RunningStack, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    """Each night, a second demo on the same stack has other sends, and the same result.

    Only the first one includes quiet hours and an unknown schema id, which take up to a minute.
    """
    is_nightly = pytestconfig.getoption("--nightly")
    users = USERS if is_nightly else FEW_USERS
    runs = [demo(stack, tmp_path / "first.json", users, waits=True)]
    if is_nightly:
        runs.append(demo(stack, tmp_path / "second.json", users, waits=False))

    for figures in runs:
        assert figures["metrics"]["equal"]
        assert figures["provider"]["calls"] == figures["provider"]["distinct"] > users / 2
        assert 0 < figures["push_ms"]["p50"] <= figures["push_ms"]["p99"]
        assert 0 < figures["cdc_ms"]["p50"] <= figures["cdc_ms"]["p99"]
        assert all(set(send) == FIELDS and send["in_flight"] == 0 for send in figures["sends"])
        assert {send["source"] for send in figures["sends"]} == {"kafka", "rest"}
        assert max(send["requested"] for send in figures["sends"]) == users
    ids = [{send["send_id"] for send in figures["sends"]} for figures in runs]
    assert len(set().union(*ids)) == sum(map(len, ids))
    assert 0 < runs[0]["peak_rss_mb"] < MEMORY_LIMIT_MB


def requests_of_pages() -> Iterator[tuple[str, str]]:
    """Yield each page with each of its `curl` commands, with the line before that sets a variable."""
    form = re.compile(r"^ {4,}((?:\w+=.*\n +)?curl (?:.*\\\n)*.*)$", re.MULTILINE)
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        yield from ((path.name, command) for command in form.findall(path.read_text()))


def test_requests_of_the_pages_work_as_pasted(config: StackConfig) -> None:
    """Runs after the demo, which seeds user 42. Addresses, ids and the key's file are those of this stack; the key of
    the page about keys sends what the quick start sends.
    """
    shown: dict[str, list[str]] = {}
    key_file = config.run_dir / "key-of-the-page"
    with Client(config.gateway_url, key=config.api_key) as api:
        for page, command in requests_of_pages():
            here = {"http://127.0.0.1:8080": config.gateway_url, ".state/run/api-key": str(config.api_key_file)}
            if "0@17" in command:
                here["0@17"] = open_letter(config, api)
            if "SEND_ID" in command:
                here["SEND_ID"] = json.loads(shown[page][-1])["send_id"]
            if page == "quick-start.md" and "access.md" in shown:
                key_file.write_text(json.loads(shown["access.md"][0])["key"])
                here[".state/run/api-key"] = str(key_file)
            for written, used in here.items():
                command = command.replace(written, used)
            command = command.replace("curl ", "curl --fail-with-body ", 1)
            done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{page}: {command}\n{done.stdout}{done.stderr}"
            shown.setdefault(page, []).append(done.stdout)
    assert {
        "access.md",
        "api.md",
        "metrics-api.md",
        "operations.md",
        "quick-start.md",
    } <= shown.keys()


@pytest.mark.nightly
def test_audience_send_reaches_exactly_its_users(stack: RunningStack, config: StackConfig) -> None:
    """Runs after the demo, which seeds the users. The last of the audience is left out."""
    with psycopg.connect(stack.environment["MONOLITH_DATABASE_URL"]) as monolith:
        of_locale = monolith.execute("SELECT id FROM users WHERE club_id = 1 AND locale IN ('de', 'de-AT') ORDER BY id")
        *users, excepted = (id_ for (id_,) in of_locale)
    audience = {"where": {"field": "locale", "in": ["de", "de-AT"]}, "except_users": [excepted]}
    data = {"title": "Hallo", "body": "An alle."}
    with Client(config.gateway_url, key=config.api_key) as api:
        accepted = api.send(type="announcement", club_id=1, channels=["push"], audience=audience, data=data)
        assert (accepted["status"], accepted["requested"]) == ("expanding", None)
        ended: Any
        *earlier, ended = api.follow(accepted["send_id"], poll_s=0.1)
        recipients = list(api.recipients(accepted["send_id"]))
    expanding = [each for each in earlier if each["expansion"] is None or each["expansion"]["status"] != "ended"]
    assert expanding
    assert {each["requested"] for each in expanding} == {None}, "requested appears when the expansion has ended"
    assert ended["expansion"] is not None
    assert (ended["expansion"]["status"], ended["expansion"]["users"]) == ("ended", len(users))
    assert (ended["requested"], ended["conservation"]["terminal"]) == (len(users), len(users))
    assert sorted(each["user_id"] for each in recipients) == users
    assert ended["totals"]["sent"] > 0


def test_event_reaches_its_subscriber_signed(stack: RunningStack, config: StackConfig) -> None:
    """REST, event_matcher, webhook_sender: the subscriber of the unit gets the event, and the other one does not."""
    with (
        Client(config.gateway_url, key=config.api_key) as client,
        httpx.Client(base_url=config.gateway_url, headers={"x-api-key": config.api_key}, timeout=30) as api,
        receiving() as receiver,
        receiving() as other,
    ):
        created = client.create_webhook(club_id=1, url=receiver.url, event_types=["send.failed"])
        elsewhere = client.create_webhook(club_id=1, url=other.url, event_types=["send.failed"])
        schema = {"type": "object", "required": ["goals"]}
        described = {"description": "A match has finished", "example": {"goals": [2, 1]}, "schema": schema}
        assert api.put("/v1/event-types/match.finished", json=described).status_code == 200
        for each, unit in ((created, "100"), (elsewhere, "200")):
            subscription = {"endpoint_id": each["endpoint"]["id"], "types": ["match.*"], "units": [unit]}
            assert api.post("/v1/subscriptions", json=subscription).status_code == 201
        event = {
            "event_id": "e2e-1",
            "type": "match.finished",
            "club_id": 1,
            "unit": "100/7",
            "data": {"goals": [2, 1]},
        }
        for status in ("accepted", "repeated"):
            answered = api.post("/v1/events", json={"events": [event]})
            assert (answered.status_code, answered.json()["events"][0]["status"]) == (202, status)
        misfit = api.post("/v1/events", json={"events": [event | {"event_id": "e2e-2", "data": {}}]})
        assert (misfit.status_code, misfit.json()["errors"][0]["field"]) == (400, "events[0].data")
        until("the event has arrived", lambda: bool(receiver.received), 60)
        (received,) = receiver.received
        assert received.is_signed(created["secret"])
        assert received.headers["webhook-id"] == received.event["id"]
        assert {name: received.event[name] for name in event} == event
        assert other.received == []
        # An event of the monolith's outbox commits with its rows.
        with psycopg.connect(stack.environment["MONOLITH_DATABASE_URL"]) as monolith:
            monolith.execute(
                "INSERT INTO event_outbox (club_id, event_id, type, unit, data)"
                " VALUES (1, 'e2e-outbox', 'match.finished', '100/7', '{\"goals\": [3, 1]}')"
            )
        until("the event of the outbox has arrived", lambda: len(receiver.received) == 2, 60)
        inserted = receiver.received[1]
        assert inserted.is_signed(created["secret"])
        assert (inserted.event["event_id"], inserted.event["data"]) == ("e2e-outbox", {"goals": [3, 1]})
        for each in (created, elsewhere):
            client.delete_webhook(each["endpoint"]["id"])


def test_event_becomes_a_push_by_a_rule(stack: RunningStack, config: StackConfig) -> None:
    """REST, event_matcher, the chain: a user whom the event names gets one push, however often it is reported."""
    title = f"Goal {uuid4()}"
    with Client(config.gateway_url, key=config.api_key) as client:
        client.set_event_type("e2e.goal", description="A goal", example={})
        rule = client.create_subscription(
            types=["e2e.*"],
            club_ids=[1],
            notification={
                "type": "announcement",
                "channels": ["push"],
                "users_path": "fans",
                "data": {"title": "title", "body": "minute"},
            },
        )
        assert client.subscriptions(club_id=1)["rows"] == [rule]
        event: EventFields = {
            "event_id": title.replace(" ", "-"),
            "type": "e2e.goal",
            "club_id": 1,
            "data": {"title": title, "minute": 90, "fans": [42]},
        }
        for status in ("accepted", "repeated"):
            assert client.report_events([event])["events"][0]["status"] == status
        send_id = event_send_id(1, event["event_id"], rule["id"])
        until("the push has arrived", lambda: title in masscomm(config, "inbox", "--user", "42"), 60)
        assert masscomm(config, "inbox", "--user", "42").count(title) == 1
        assert client.get_send(send_id)["reference"] == event["event_id"]
        client.delete_subscription(rule["id"])


def test_event_reaches_a_queue_of_the_tenant(stack: RunningStack, config: StackConfig) -> None:
    """webhook_sender assumes the role and sends the message to SQS."""
    sqs = localstack_client(config.aws_url, "sqs")
    queue = sqs.create_queue(QueueName="e2e-events")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    role = "arn:aws:iam::000000000000:role/masscomm-events"
    with Client(config.gateway_url, key=config.api_key) as client:
        client.set_event_type("e2e.queued", description="d", example={})
        endpoint = client.create_webhook(club_id=1, url=arn, role_arn=role, event_types=["send.failed"])["endpoint"]
        client.create_subscription(endpoint_id=endpoint["id"], types=["e2e.queued"], club_ids=[1])
        client.report_events([{"event_id": "e2e-q1", "type": "e2e.queued", "club_id": 1, "data": {"n": 1}}])
        messages: list[Any] = []

        def arrived() -> bool:
            messages.extend(sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=1).get("Messages", []))
            return bool(messages)

        until("the message has arrived", arrived, 60)
        client.delete_webhook(endpoint["id"])
    assert json.loads(messages[0]["Body"])["event_id"] == "e2e-q1"


def test_incoming_webhook_reaches_a_subscriber(config: StackConfig) -> None:
    """The door, SQS, webhook_receiver: a verified webhook becomes an event, and another one is listed."""
    with (
        Client(config.gateway_url, key=config.api_key) as client,
        httpx.Client(timeout=30) as sender,
        receiving() as receiver,
    ):
        endpoint = client.create_webhook(club_id=1, url=receiver.url, event_types=["send.failed"])["endpoint"]
        client.set_event_type("e2e.incoming", description="d", example={})
        client.create_subscription(endpoint_id=endpoint["id"], types=["e2e.incoming"])
        made = client.create_source(
            club_id=1,
            scheme="github",
            secret=webhook_sources.SECRET,
            mapping={"type": {"value": "e2e.incoming"}, "club_id": {"path": "club"}, "key": {"path": "order"}},
        )
        body = b'{"club": 1, "order": 4711}'
        for headers in (webhook_sources.signed(Scheme.GITHUB, body, id_="d-1"), {"x-hub-signature-256": "sha256=00"}):
            answered = sender.post(made["url"], content=body, headers={"content-type": "application/json", **headers})
            assert answered.status_code == 202
        until("the event has arrived", lambda: bool(receiver.received), 60)
        assert receiver.received[0].event["data"] == {"club": 1, "order": 4711}
        # A refusal is counted, then listed.
        until("the other one is listed", lambda: bool(client.source(made["id"])["refusals"]), 60)
        source = client.source(made["id"])
        assert (source["refused"], [each["reason"] for each in source["refusals"]]) == (1, ["signature"])


@pytest.mark.nightly
def test_refused_event_is_repeated_and_a_batch_arrives(stack: RunningStack, config: StackConfig) -> None:
    """The delay store, the scheduler and webhook.slow repeat the message; a batched endpoint gets a list."""
    asked: list[tuple[str, bytes]] = []

    def refuses_first(request: Asked) -> tuple[int, dict[str, str], bytes]:
        asked.append((request.headers["webhook-id"], request.body))
        return (500 if len(asked) == 1 else 204), {"Connection": "close"}, b""

    codec = Codec(HttpSchemaRegistry(config.registry_url))
    with (
        closing(TopicReader(config.kafka_bootstrap, [WEBHOOK_OUTCOME], from_beginning=False)) as reader,
        Client(config.gateway_url, key=config.api_key) as client,
        httpx.Client(base_url=config.gateway_url, headers={"x-api-key": config.api_key}, timeout=30) as api,
        http_server(refuses_first) as url,
        receiving() as batched,
    ):
        created = [
            client.create_webhook(club_id=1, url=f"{url}/hook", event_types=["send.failed"]),
            client.create_webhook(club_id=1, url=batched.url, event_types=["send.failed"], max_count=100),
        ]
        assert api.put("/v1/event-types/e2e.batched", json={"description": "d", "example": {}}).status_code == 200
        ids = [each["endpoint"]["id"] for each in created]
        for id_ in ids:
            assert api.post("/v1/subscriptions", json={"endpoint_id": id_, "types": ["e2e.batched"]}).status_code == 201
        events = [{"event_id": f"e2e-b{n}", "type": "e2e.batched", "club_id": 1, "data": {}} for n in range(3)]
        assert api.post("/v1/events", json={"events": events}).status_code == 202
        until("the batch has arrived", lambda: sum(len(each.event) for each in batched.received) == 3, 60)
        assert all(each.headers["webhook-id"].startswith("bat_") for each in batched.received)
        until("the refused message has arrived again", lambda: len(asked) == 4, 240)
        assert len({id_ for id_, _ in asked}) == 3
        refused = asked[0]
        assert refused in asked[1:]
        results: set[tuple[str, str, int]] = set()
        expected = {(refused[0], "retried", 1), (refused[0], "delivered", 2)}

        def are_complete() -> bool:
            for message in reader.poll():
                row = codec.decode("WebhookOutcome", message.value())
                keys = zip(row["club_id"], row["event_id"], row["endpoint_index"], strict=True)
                found = (event_message_id(club, event, row["endpoints"][place]) for club, event, place in keys)
                results.update(zip(found, row["status"], row["attempt"], strict=True))
            return expected <= results

        until("the results are in their topic", are_complete, 180)
        assert {each for each in results if each[0] == refused[0]} == expected
        for id_ in ids:
            client.delete_webhook(id_)


def test_an_sms_is_in_the_inbox_of_its_user(stack: RunningStack, config: StackConfig) -> None:
    """Runs after the demo, which seeds the users."""
    with psycopg.connect(config.database_url("monolith")) as connection:
        row = connection.execute(
            "select id, phone from users where club_id = 1 and phone is not null"
            " and id not in (select user_id from user_settings) order by id limit 1"
        ).fetchone()
    assert row is not None
    user_id, phone = row
    data = {"title": "Doors", "body": "Doors open at seven."}
    with Client(config.gateway_url, key=config.api_key) as api:
        api.send(type="announcement", club_id=1, to_users=[user_id], channels=["sms"], data=data)

    def shown() -> str:
        return masscomm(config, "inbox", "--user", str(user_id))

    until("the SMS has arrived", lambda: data["body"] in shown(), 60)
    assert f"sms to user {user_id}, {phone}" in shown()
    with closing(SnsStandIn(config.ports.sms)) as provider:
        provider.answer_text(provider.texts()[-1]["DestinationPhoneNumber"], "+4915799900000", "Stop")
    with Client(config.gateway_url, key=config.api_key) as api:

        def wants_sms() -> bool:
            rules = api.preferences(user_id)["effective"]
            return any(
                each["wanted"] for each in rules if (each["category"], each["channel"]) == ("announcement", "sms")
            )

        until("the user has opted out", lambda: not wants_sms(), 60)


@pytest.mark.nightly
def test_webhook_of_a_send_arrives_signed(config: StackConfig) -> None:
    """Runs after the demo. The signature is checked by the test's own code."""
    with Client(config.gateway_url, key=config.api_key) as api, receiving() as receiver:
        created = api.create_webhook(club_id=1, url=receiver.url, event_types=["send.accepted", "send.completed"])
        endpoint = created["endpoint"]["id"]
        data = {"title": "Hello", "body": "It works."}
        send_id = api.send(type="announcement", club_id=1, to_users=[42], data=data, reference="order-7")["send_id"]
        api.send(type="announcement", club_id=2, to_users=[42], data=data)
        until("the send's end has arrived", lambda: "send.completed" in receiver.types(send_id), 120)
        assert all(each.is_signed(created["secret"]) for each in receiver.received)
        of_send = [each for each in receiver.received if each.event["data"]["send_id"] == send_id]
        assert [each.event["type"] for each in of_send] == ["send.accepted", "send.completed"]
        last, event = of_send[-1], of_send[-1].event
        assert event["id"] == last.headers["webhook-id"]
        assert (event["data"]["send_id"], event["data"]["reference"]) == (send_id, "order-7")
        assert event["data"]["totals"] == {"sent": event["data"]["requested"]}
        assert {each.event["data"]["club_id"] for each in receiver.received} == {1}, "no event of another club"

        rotated = api.rotate_webhook(endpoint)
        assert rotated["secret"] != created["secret"]
        tested = api.test_webhook(endpoint)
        until("the test has arrived", lambda: receiver.received[-1].event["type"] == "webhook.test", 120)
        assert all(receiver.received[-1].is_signed(each) for each in (created["secret"], rotated["secret"]))
        assert not last.is_signed(rotated["secret"])

        def delivered() -> bool:
            found = [each["status"] for each in api.webhook_deliveries(endpoint) if each["id"] == tested["id"]]
            return found == ["succeeded"]

        until("the delivery is recorded", delivered)
        api.delete_webhook(endpoint)


@pytest.mark.nightly
def test_each_query_of_the_dashboard_has_data_of_the_stack(
    config: StackConfig, tmp_path: Path, unused_tcp_port: int
) -> None:
    """Runs after the demo. Prometheus scrapes the gateway while sends move, because rates need several scrapes."""
    queries = {query.expression.replace(RATE, "2m") for panel in PANELS for query in panel.queries}
    absent = set(queries)
    data = {"title": "Scraped", "body": "It works."}
    gateway = config.ports.gateway
    with (
        Client(config.gateway_url, key=config.api_key) as api,
        scraping(gateway, port=unused_tcp_port, folder=tmp_path, interval="1s") as url,
    ):
        until("Prometheus has scraped the stack", lambda: bool(values(url, "masscomm_sends")))

        def answered() -> bool:
            send = api.send(type="announcement", club_id=1, channels=["push", "email"], to_users=[42, 43], data=data)
            all(api.follow(send["send_id"]))
            absent.difference_update({query for query in absent if values(url, query)})
            return not absent

        with suppress(WaitTimeoutError):
            until("each query has data", answered, 90, every_s=1, progress=lambda: len(absent))
    assert absent == set()
    assert len(queries) > 20


@pytest.mark.nightly
def test_each_method_of_the_client_works_on_the_stack(config: StackConfig) -> None:
    """Runs after the demo, which seeds the users. A repetition would hide an error: each request has one attempt."""
    with Client(config.gateway_url, key=config.api_key, attempts=1) as api:
        assert call_each_method(api, config) == methods(Client)


@pytest.mark.nightly
async def test_asynchronous_client_follows_a_send_of_the_stack(config: StackConfig) -> None:
    """Runs after the demo. The rest of its methods are compared with those of the synchronous client in unit tests."""
    body: dict[str, Any] = {"type": "announcement", "club_id": 1, "data": {"title": "t", "body": "b"}}
    async with AsyncClient(config.gateway_url, key=config.api_key, attempts=1) as api:
        sent = await api.send(**body, to_users=[42])
        ended: Any = [send async for send in api.follow(sent["send_id"])][-1]
        assert ended["conservation"]["terminal"] == sent["requested"]
        assert {each["user_id"] async for each in api.recipients(sent["send_id"])} == {42}
        assert (await api.health())["lag"]
        with pytest.raises(ApiError) as raised:
            await api.get_send("00000000-0000-4000-8000-000000000000")
        assert raised.value.status == 404


@pytest.mark.nightly
def test_examples_of_the_clients_send_and_follow(stack: RunningStack, config: StackConfig, tmp_path: Path) -> None:
    """The clients are the built ones: the npm package, and the classes in Java."""
    client_examples.compile_java(tmp_path)
    for language in ("Python", "TypeScript", "Java"):
        access: dict[str, Any] = {"classes": tmp_path, "url": config.gateway_url, "key": config.api_key}
        send_id = client_examples.output(language, "send", **access).strip()
        ended, recipient = client_examples.output(language, "result", send_id, **access).splitlines()[-2:]
        assert (ended, recipient) == ("ended 1", "42 push sent"), language


@pytest.mark.nightly
async def test_agent_explains_why_a_user_did_not_get_a_send(config: StackConfig) -> None:
    """Runs after the demo. The key has an agent's scopes; the agent sends the message itself, so that it is audited."""
    scopes = [f"--scope={each}" for each in ("read", "users:read", "send")]
    key = json.loads(masscomm(config, "keys", "create", "--name", "agent", "--club", "1", *scopes, "--json"))
    send = {"type": "match_reminder", "club_id": 1, "to_users": [42], "data": {"opponent": "Ada", "kick_off": "18:00"}}
    async with AsyncClient(config.gateway_url, key=config.api_key) as api:
        before = (await api.preferences(42))["categories"].get("match_reminder", True)
        await api.set_preferences(42, categories={"match_reminder": False})
        async with agent(config.gateway_url, "--allow-send", key=key["key"]) as asked:
            foretold = await asked.ask("check_send", send=send)
            assert {row["reason"] for each in foretold["channels"] for row in each["reasons"]} == {"opted_out"}
            accepted = await asked.ask("send", send=send, idempotency_key=str(uuid4()))
            async for _ in api.follow(accepted["send_id"]):
                pass
            (found, *_) = (await asked.ask("find_sends", type=["match_reminder"], search="mcp"))["rows"]
            explained = await asked.ask("explain_user", send_id=found["send_id"], user_id=42)
        await api.set_preferences(42, categories={"match_reminder": before})
    assert found["send_id"] == accepted["send_id"]
    assert {(each["status"], each["reason"]) for each in explained["notifications"]} == {("suppressed", "opted_out")}
    assert {each["decided_by"]["rule"] for each in explained["notifications"]} == {"category:match_reminder"}
    assert explained["problems"] == []
    audited = masscomm(config, "audit", "--club", "1", "--json").splitlines()
    requested = [each for each in map(json.loads, audited) if each["subject"] == accepted["send_id"]]
    assert [(each["principal"], each["action"]) for each in requested] == [(key["id"], "send.requested")]


@pytest.mark.nightly
def test_each_documented_problem_is_caused_on_the_stack(config: StackConfig) -> None:
    """Runs after the demo, which disables devices. Problems that need a fault have tests of their own."""
    cause = Cause(config)
    with closing(cause), Client(config.gateway_url, key=config.api_key) as api:
        letter = open_letter(config, api)
        device = next(api.devices(reason="inactive"))["device_id"]
        cause_problems(cause, api, letter, device)
    assert documented() - cause.caused == set(NOT_CAUSED)


@pytest.mark.nightly
def test_unsubscribe_link_of_an_email_ends_its_category(stack: RunningStack, config: StackConfig) -> None:
    """Runs after the demo, which seeds user 13: without settings, with an e-mail address and a device."""
    link = announced(config, "First", "push", "email")["unsubscribe"]
    assert link.startswith(f"{config.gateway_url}/v1/unsubscribe/")
    page = httpx.get(link)
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "Second" in announced(config, "Second", "email")["title"], "the page of a link changes nothing"

    assert httpx.post(link, data={"List-Unsubscribe": "One-Click"}).status_code == 200
    send_id = send(config, "Third", "push", "email")
    channels = json.loads(masscomm(config, "sends", "show", send_id))["channels"]
    assert channels["email"]["suppressed"] == {"opted_out": 1}
    assert channels["push"]["sent"] + channels["push"]["delivered"] == 1
    assert "Third" not in str(emails_to(config))
    assert httpx.post(link[:-2] + "AA", data={"List-Unsubscribe": "One-Click"}).status_code == 404

    def applied() -> bool:
        return not json.loads(masscomm(config, "preferences", "show", "--user", "13", "--json"))["pending"]

    until("the monolith has applied the change", applied)
    with psycopg.connect(stack.environment["MONOLITH_DATABASE_URL"]) as monolith:
        (row,) = monolith.execute("SELECT categories FROM user_settings WHERE user_id = 13")
    assert row == ({"announcement": {"email": False}},)
    send_id = send(config, "Fourth", "email")
    assert json.loads(masscomm(config, "sends", "show", send_id))["totals"]["suppressed"] == {"opted_out": 1}
    masscomm(config, "preferences", "set", "--user", "13", "newsletter=off", "match_reminder=on")
    until("the monolith has applied the change", applied)


# Commands of the pages that the stack of these tests cannot execute, and the reasons.
LEFT_OUT = {
    r"--deployed|^(?:preflight|images|smoke|destroy) ": "AWS",
    r"^erase ": "it has optional parts; tests/component/erasure",
    r"^devices enable ": "the demo disables no device; tests/unit/cli/test_devices.py",
    r"^query ": "tests/component/spark_metrics/test_query.py executes these",
    r"(?:hooks|db)\.example\.org": "no such host",
    r"^down$": "the stack of the other tests",
}


def commands_of_pages() -> Iterator[str]:
    """Yield each `masscomm` command in the pages' indented lines, without comments; the generated reference has
    no examples.
    """
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    for path in (each for each in pages if each.name != "cli.md"):
        for line in re.findall(r"^ {4,}(?:\.venv/bin/)?masscomm (.*)$", path.read_text(), re.MULTILINE):
            yield re.sub(r" {2,}#.*", "", line)


@pytest.mark.nightly
def test_commands_of_the_pages_are_executed(stack: RunningStack, config: StackConfig) -> None:
    """Runs after the demo, whose users and dead letters the pages name."""
    ids: dict[str, str] = {}
    executed: set[str] = set()
    for command in commands_of_pages():
        if any(re.search(form, command) for form in LEFT_OUT):
            continue
        words = [resolved(word, command, config, ids) for word in shlex.split(command)]
        masscomm(config, *words)
        executed.add(" ".join(command.split()[:2]))
    groups = ("audience", "dead-letters", "devices", "events", "keys", "preferences", "sends", "template", "webhooks")
    assert {name.split()[0] for name in executed} >= {*groups, "categories", "send", "inbox", "trace", "audit"}
    assert len(executed) > 25


@pytest.mark.nightly
def test_commands_of_the_runbooks_are_executed(config: StackConfig) -> None:
    """Runs after the demo. With `--deployed`, a command finds this stack by the functions' environment variables. The
    commands of `aws` are compared with the service models in tests/unit/test_runbooks.py.
    """
    environment = {
        **function_environment(config),
        "MASSCOMM_API_URL": config.gateway_url,
        "MASSCOMM_API_KEY": config.api_key,
    }
    executed: set[str] = set()
    with Client(config.gateway_url, key=config.api_key) as api, receiving() as receiver:
        endpoint = api.create_webhook(club_id=1, url=receiver.url)["endpoint"]["id"]
        values = {
            "SEND_ID": scheduled_send(config),
            "ENDPOINT": endpoint,
            "DELIVERY": api.test_webhook(endpoint)["id"],
            "CLUB": "1",
            "REASON": "undecodable",
            "TEXT": "It is a test.",
            "postgresql://USER@HOST/NAME": config.database_url("monolith"),
        }
        for words in (words for runbook in RUNBOOKS for words in commands(runbook, "masscomm")):
            if tuple(words) in all_commands():
                continue  # It is only mentioned.
            if "0@17" in words:
                values["0@17"] = open_letter(config, api)
            masscomm(config, *[values.get(word, word) for word in words], environment=environment)
            executed.add(" ".join(words[:2]))
        api.delete_webhook(endpoint)
    groups = ("dead-letters", "trace", "sends", "source", "audit", "webhooks", "keys")
    assert {name.split()[0] for name in executed} == {*groups}


@pytest.mark.nightly
def test_queries_and_requests_of_the_runbooks_are_executed(config: StackConfig) -> None:
    """Runs after the demo."""
    texts = [text for runbook in RUNBOOKS for text in spans(runbook)]
    statements = [text for text in texts if text.startswith("select ")]
    for statement in statements:
        monolith = "pg_replication_slots" in statement
        with psycopg.connect(config.database_url("monolith" if monolith else "metrics")) as connection:
            rows = connection.execute(statement.encode()).fetchall()
            assert not monolith or [row[1] for row in rows] == [True], "the connector's slot is active"
    with Client(config.gateway_url, key=config.api_key) as api:
        api.set_preferences(13, categories={"news": True})
    send_id = scheduled_send(config)
    hours = [f"{datetime.now(UTC) + timedelta(hours=each):%Y-%m-%dT%H:00:00Z}" for each in (-2, 1)]
    requests = [match[1] for text in texts if (match := re.fullmatch(r"GET (\S+)", text))]
    for path in requests:
        named = path.replace("{id}", send_id).replace("{user_id}", "42").replace("club_id=…", "club_id=1")
        named = named.replace("start=…", f"start={hours[0]}").replace("end=…", f"end={hours[1]}").replace("/ID", "/13")
        url = f"{config.gateway_url}{named}" if path.startswith("/") else f"{config.opensearch_url}/{named}"
        response = httpx.get(url, headers={"x-api-key": config.api_key}, timeout=30)
        assert response.status_code == 200, f"{path}: {response.text}"
    assert len(statements) >= 2
    assert len(requests) >= 8


@pytest.mark.nightly
@pytest.mark.parametrize(
    "words",
    [words for name in RUNBOOKS for words in commands(name, "python -m") if "ENVIRONMENT" not in words],
    ids=" ".join,
)
def test_modules_of_the_runbooks_are_executed(stack: RunningStack, config: StackConfig, words: list[str]) -> None:
    """Runs after the demo. The counts that recompute compares are those of the archive. Those of a deployment:
    tests/unit/provisioning/test_provision.py, tests/unit/infra/test_metrics_job.py.
    """
    assert stack.ready
    now = datetime.now(UTC)
    times = iter(f"{now + timedelta(days=days):%Y-%m-%d}" for days in (-1, 1))
    assert run_module(config, *[next(times) if word == "…" else word for word in words]) == 0


def open_letter(config: StackConfig, api: Client) -> str:
    """Produce a record that cannot be decoded. Returns the position of its dead letter."""
    producer = Producer({"bootstrap.servers": config.kafka_bootstrap})
    producer.produce("send.api", b"no record of a send")
    assert producer.flush(30) == 0
    letters: list[DeadLetterRow] = []

    def found() -> bool:
        letters[:] = api.dead_letters(status="open", topic="send.api")
        return bool(letters)

    until("the record is a dead letter", found)
    return letters[0]["position"]


def resolved(word: str, command: str, config: StackConfig, ids: dict[str, str]) -> str:
    """Return a word of a command: an id in the place of its placeholder, and a time that is ahead."""
    name = word.strip("$")
    # The latest send, the key of the page (the stack's own key precedes it by its name), the endpoint of the page.
    lists = {
        "SEND_ID": ("send_id", 0, ("sends", "list", "--club", "1")),
        "ID": ("id", -1, ("keys", "list")),
        "ENDPOINT": ("id", 0, ("webhooks", "list", "--club", "1")),
    }
    if name == "SEND_ID" and command.startswith("sends message "):
        return scheduled_send(config)  # Messages of small sends by Kafka are not kept.
    if name == "SEND_ID" and (wanted := re.match(r"sends (cancel|pause|move|resume)", command)):
        # A cancelled send can be neither paused nor moved; `resume` continues the paused one.
        if wanted[1] != "resume":
            ids[name] = scheduled_send(config)
        return ids[name]
    if name in lists:
        field, index, listed = lists[name]
        return str(json_lines(masscomm(config, *listed, "--json"))[index][field])
    if re.fullmatch(r"\d{4}-\d\d-\d\dT\S+", word):
        return (datetime.now(UTC) + timedelta(hours=2)).isoformat()
    return word


def scheduled_send(config: StackConfig) -> str:
    """Request a send for an hour ahead. Returns its id once it can be controlled."""
    body = {
        "type": "announcement",
        "club_id": 1,
        "to_users": [42, 43],
        "data": {"title": "Hello", "body": "It works."},
        "send_at": (datetime.now(UTC) + timedelta(hours=1)).isoformat(),
    }
    answer = httpx.post(f"{config.gateway_url}/v1/sends", json=body, headers={"x-api-key": config.api_key}, timeout=30)
    return str(answer.raise_for_status().json()["send_id"])


def send(config: StackConfig, title: str, *channels: str) -> str:
    """Send an announcement to user 13 and wait until it has ended. Returns the id of the send."""
    options = [option for channel in channels for option in ("--channel", channel)]
    data = ("--data", f"title={title}", "--data", "body=It works.")
    masscomm(config, "send", "--to", "13", "--type", "announcement", *options, *data, "--wait")
    (latest,) = json_lines(
        masscomm(config, "sends", "list", "--club", "1", "--type", "announcement", "-n", "1", "--json")
    )
    return str(latest["send_id"])


def announced(config: StackConfig, title: str, *channels: str) -> dict[str, str]:
    """Send an announcement to user 13. Returns the title and the unsubscribe link of its e-mail, from the inbox."""
    send(config, title, *channels)
    (found,) = (each for each in emails_to(config) if each["title"] == title)
    return found


def emails_to(config: StackConfig) -> list[dict[str, str]]:
    shown = masscomm(config, "inbox", "--user", "13")
    found = re.findall(r"email to user 13.*\n  (.+)\n(?:  .*\n)*?  unsubscribe (\S+)", shown)
    return [{"title": title, "unsubscribe": link} for title, link in found]


@pytest.mark.nightly
def test_ended_send_is_listed_and_cannot_be_cancelled(config: StackConfig) -> None:
    """Runs after the first send of the quick start, which has ended."""
    announcements = ("sends", "list", "--club", "1", "--type", "announcement")
    latest = next(row for row in json_lines(masscomm(config, *announcements, "--json")) if row["published"])
    assert latest["status"] == "ended"
    send_id = latest["send_id"]
    assert send_id in masscomm(config, *announcements)
    assert json.loads(masscomm(config, "sends", "show", send_id))["totals"]["in_flight"] == 0
    assert "in flight" in masscomm(config, "sends", "watch", send_id)
    assert "409" in masscomm(config, "sends", "cancel", send_id, status=1)


@pytest.mark.nightly
@pytest.mark.parametrize("recipients", [2_000, pytest.param(100_000, marks=pytest.mark.nightly)])
def test_sum_fits_at_every_poll(config: StackConfig, recipients: int) -> None:
    """Runs after the demo, which seeds some of the users; the others are unknown."""
    body = {"type": "announcement", "club_id": 1, "to_users": [*range(1, recipients + 1)]}
    headers = {"x-api-key": config.api_key}
    polls: list[dict[str, Any]] = []

    with httpx.Client(base_url=config.gateway_url, headers=headers, timeout=30) as api:
        accepted = api.post("/v1/sends", json=body | {"data": {"title": "t", "body": "b"}}).raise_for_status().json()
        assert accepted["requested"] == recipients

        def is_complete() -> bool:
            answer = api.get(accepted["links"]["self"])
            if answer.status_code != httpx.codes.NOT_FOUND:
                polls.append(answer.raise_for_status().json())
            return bool(polls) and polls[-1]["complete"]

        until(
            "every notification has ended",
            is_complete,
            every_s=0.1,
            progress=lambda: polls[-1]["conservation"]["terminal"] if polls else None,
        )
    wrong = [poll for poll in polls if not poll["conservation"]["ok"] or not_ended(poll) != poll["totals"]["in_flight"]]
    assert wrong == []
    counted = [poll["conservation"]["terminal"] for poll in polls]
    assert counted == sorted(counted), "no notification loses its final status"
    assert (polls[-1]["requested"], counted[-1]) == (recipients, recipients)
    assert polls[-1]["totals"]["sent"] > 0


def not_ended(send: dict[str, Any]) -> int:
    """Return the requested notifications of a response without those that are counted under a final status."""
    totals = send["totals"]
    by_number = ("cancelled", "expired", "sent", "delivered", "bounced")
    by_reason = ("suppressed", "failed")
    ended = sum(totals[name] for name in by_number) + sum(sum(totals[name].values()) for name in by_reason)
    return int(totals["requested"] - ended)


@pytest.mark.nightly
def test_no_response_of_the_stack_differs_from_the_document(config: StackConfig, tmp_path: Path) -> None:
    """Runs after the demo: all routes, first with ids that are unknown or invalid, then with those of the demo."""
    check_responses(config.gateway_url, config.api_key, tmp_path, "--phases", "examples,coverage")
    sends = json_lines(masscomm(config, "sends", "list", "--club", "1", "--type", "news", "-n", "20", "--json"))
    send_id = max(sends, key=lambda send: int(send["requested"] or 0))["send_id"]
    with httpx.Client(base_url=config.gateway_url, headers={"x-api-key": config.api_key}) as api:
        (row,) = api.get(f"/v1/sends/{send_id}/recipients", params={"limit": 1}).raise_for_status().json()["rows"]
    known = {
        "path.send_id": send_id,
        "path.user_id": 42,
        "path.notification": row["links"]["self"].rpartition("/")[2],
    }
    options = ("--phases", "examples,fuzzing", "--max-examples", "40")
    check_responses(config.gateway_url, config.api_key, tmp_path, *options, parameters=known)
    assert json.loads(masscomm(config, "sends", "show", send_id))["conservation"]["ok"]


def test_console_sends_once_and_follows_the_send_to_its_end(config: StackConfig) -> None:
    """Runs after the demo, which seeds the users. The last of them is unknown."""
    with open_console(config.gateway_url, "sender") as console:
        console.compose("42 1-20 999999999", title="From the console", body="Seen in a browser.")
        console.page.get_by_role("button", name="Send to").dblclick()
        send_id = console.accepted()
        console.wait_for_state("Ended")
        streams = [each.response() for each in console.requests if f"/{send_id}/events" in each.url]
        assert "text/event-stream" in {each.headers["content-type"] for each in streams if each is not None}
        assert len({each.headers["idempotency-key"] for each in console.sends()}) == 1
        (entry,) = [each for each in audit_log(config, club=1) if each["subject"] == send_id]
        assert (entry["principal"], entry["action"]) == ("person:sender", "send.requested")
        assert console.page.get_by_test_id("sum").get_attribute("data-sum") == "22"
        totals = json.loads(masscomm(config, "sends", "show", send_id))["totals"]
        assert console.count("sent") + console.count("delivered") == totals["sent"] + totals["delivered"] > 0
        assert console.count("suppressed") == sum(totals["suppressed"].values()) > 0
        # In the table of reasons and in that of recipients.
        expect(console.page.get_by_text("The user is not known").first).to_be_visible(timeout=PATIENCE_MS)
        assert "Seen in a browser." in masscomm(config, "inbox", "--user", "42")
        assert console.violations() == []


def local_minute(*, after: timedelta) -> datetime:
    """Return a time ahead, in this machine's time zone, without its seconds."""
    return (datetime.now(UTC) + after).astimezone().replace(second=0, microsecond=0)


def schedule(console: Console, text: str) -> str:
    """Compose a send to five users for three hours ahead. Returns its id."""
    page = console.page
    open_page(page, f"{console.url}/#/compose")
    page.get_by_label("Later").check()
    page.get_by_label("Time", exact=True).fill(f"{local_minute(after=timedelta(hours=3)):%Y-%m-%dT%H:%M}")
    assert page.get_by_label("Time zone", exact=True).input_value()
    page.get_by_label("Title").fill("Later")
    page.get_by_label("Text").fill(text)
    page.get_by_label("User ids").fill("1-5")
    page.get_by_role("button", name="Review").click()
    page.get_by_role("button", name="Send to").click()
    return console.accepted()


@pytest.mark.nightly
def test_console_cancels_a_scheduled_send(config: StackConfig) -> None:
    with open_console(config.gateway_url, "sender") as console:
        page = console.page
        schedule(console, "Never published.")
        page.get_by_role("button", name="Cancel this send").click()
        page.get_by_role("button", name="Cancel the send").click()
        expect(page.get_by_test_id("cancellation")).to_contain_text("Cancelled at", timeout=PATIENCE_MS)
        assert page.get_by_test_id("sum").get_attribute("data-sum") == "5"


@pytest.mark.nightly
def test_console_pauses_resumes_and_cancels_a_send(config: StackConfig) -> None:
    """The cancelled notifications are counted once the scheduler's next sweep has released them."""
    with open_console(config.gateway_url, "sender") as console:
        page = console.page
        schedule(console, "Paused, resumed, cancelled.")
        console.wait_for_state("Scheduled")
        page.get_by_role("button", name="Pause").click()
        console.wait_for_state("Paused")
        expect(page.get_by_text("wait until the send is resumed")).to_be_visible()
        page.get_by_role("button", name="Resume").click()
        console.wait_for_state("Scheduled")
        page.get_by_role("button", name="Cancel this send").click()
        page.get_by_role("button", name="Cancel the send").click()
        expect(page.get_by_test_id("state")).to_have_text("Cancelled", timeout=2 * PATIENCE_MS)
        assert console.count("cancelled") == 5
        assert console.page.get_by_test_id("sum").get_attribute("data-sum") == "5"
        expect(page.get_by_test_id("cancellation")).to_contain_text("0 notifications were published before")


@pytest.mark.nightly
def test_console_moves_and_cancels_a_scheduled_send(config: StackConfig) -> None:
    """The delay store releases the notifications for the new time, and the page shows it after a reload, too."""
    moved = local_minute(after=timedelta(hours=5))
    with open_console(config.gateway_url, "sender") as console:
        page = console.page
        send_id = schedule(console, "Moved and cancelled.")
        console.wait_for_state("Scheduled")
        first = page.get_by_test_id("scheduled").inner_text()
        page.get_by_role("button", name="Change the time").click()
        page.get_by_label("Time", exact=True).fill(f"{moved:%Y-%m-%dT%H:%M}")
        page.get_by_role("button", name="Save the new time").click()
        expect(page.get_by_role("dialog")).to_have_count(0)
        expect(page.get_by_test_id("scheduled")).not_to_have_text(first)
        second = page.get_by_test_id("scheduled").inner_text()
        shown = json.loads(masscomm(config, "sends", "show", send_id))
        assert datetime.fromisoformat(shown["send_at"]) == moved
        page.reload()
        expect(page.get_by_test_id("scheduled")).to_have_text(second, timeout=PATIENCE_MS)
        console.wait_for_state("Scheduled")
        page.get_by_role("button", name="Cancel this send").click()
        page.get_by_role("button", name="Cancel the send").click()
        expect(page.get_by_test_id("state")).to_have_text("Cancelled", timeout=2 * PATIENCE_MS)
        expect(page.get_by_role("button", name="Change the time")).to_have_count(0)
        assert console.count("cancelled") == 5


# The states of the bar, each time that it changes: the sum of its parts, and the requested notifications.
_BAR = """
window.bars = [];
new MutationObserver(() => {
  const sum = document.querySelector("[data-testid=sum]");
  if (!sum) return;
  const counts = [...document.querySelectorAll("li[data-status]")].map((each) => Number(each.dataset.count));
  const inFlight = Number(document.querySelector("li[data-status=in_flight]").dataset.count);
  bars.push([counts.reduce((total, each) => total + each, 0), Number(sum.dataset.requested), inFlight]);
}).observe(document, { subtree: true, childList: true, attributeFilter: ["data-count", "data-requested"] });
"""


@pytest.mark.nightly
@pytest.mark.parametrize("by", ["server-sent events", "long polls"])
def test_console_bar_adds_up_while_a_send_moves(config: StackConfig, by: str) -> None:
    """Runs after the demo, which seeds some of the users; the others are unknown."""
    with open_console(config.gateway_url, "sender") as console:
        if by == "long polls":
            console.page.route(
                "**/events*", lambda route: route.continue_(headers=route.request.headers | {"accept": JSON})
            )
        console.page.evaluate(_BAR)
        console.compose("1-30000", title="Moving", body="Seen in a browser.")
        console.page.get_by_role("button", name="Send to").click()
        send_id = console.accepted()
        console.wait_for_state("Ended")
        bars = console.page.evaluate("bars")
        assert [each for each in bars if each[0] != each[1]] == []
        assert any(in_flight > 0 for _, _, in_flight in bars), "the bar was seen while the send moved"
        assert bars[-1] == [30_000, 30_000, 0]
        answers = [each.response() for each in console.requests if f"/{send_id}/events" in each.url]
        types = {each.headers["content-type"].partition(";")[0] for each in answers if each and each.ok}
        assert types == {"text/event-stream" if by == "server-sent events" else JSON}


@pytest.mark.nightly
def test_console_foretells_a_send_and_explains_its_recipients(config: StackConfig) -> None:
    """Runs after the demo, which seeds the users. The last of them is unknown."""
    with open_console(config.gateway_url, "sender") as console:
        page = console.page
        console.compose("42 1-20 999999999", title="Foretold", body="Seen in a browser.")
        forecast = page.get_by_test_id("forecast").get_by_role("row")
        expect(forecast.filter(has_text="The user is not known").get_by_role("cell").last).to_have_text("1")
        foretold = {row.get_attribute("data-group"): 0 for row in forecast.all()}
        for row in forecast.all():
            foretold[row.get_attribute("data-group")] += int(row.get_by_role("cell").last.inner_text())
        assert sum(foretold.values()) == 22
        page.get_by_role("button", name="Send to").click()
        console.accepted()
        console.wait_for_state("Ended")
        assert console.count("sent") + console.count("delivered") == foretold["arrives"] > 0

        rows = page.get_by_role("region", name="Recipients").get_by_role("row")
        page.get_by_label("Status").select_option("suppressed")
        # The list follows once the end is counted.
        expect(rows.filter(has_text="999999999")).to_have_count(1, timeout=PATIENCE_MS)
        expect(rows.filter(has_text="Suppressed")).to_have_count(console.count("suppressed"))
        page.get_by_label("Status").select_option("")
        page.get_by_label("User", exact=True).fill("42")
        expect(rows).to_have_count(2)
        page.get_by_role("button", name="42", exact=True).click()
        hops = page.get_by_role("dialog").get_by_role("listitem")
        expect(hops.first).to_contain_text("Requested")
        expect(hops.last).to_contain_text(re.compile(r"\d\d:\d\d:\d\d \(\+[\d.]+s\)"))
        expect(hops.last).to_contain_text("The provider accepted the message")
        assert console.violations() == []


def test_console_shows_each_page_without_serious_violations(config: StackConfig) -> None:
    """Runs after the demo, which has requested sends of club 1."""
    with open_console(config.gateway_url, "admin", dark=True) as console:
        page = console.page
        for path, ready in (
            ("#/compose", page.get_by_role("button", name="Review")),
            ("#/sends", page.get_by_role("region", name="Sends").get_by_role("table")),
            ("#/metrics", page.get_by_test_id("total")),
            ("#/users/42", page.get_by_test_id("settings")),
        ):
            open_page(page, f"{console.url}/{path}")
            expect(ready).to_be_visible(timeout=PATIENCE_MS)
            assert console.violations() == [], path


@pytest.mark.nightly
def test_console_replays_a_dead_letter_of_the_stack(config: StackConfig) -> None:
    """The record cannot be decoded, so its replay becomes a dead letter of its own."""
    with Client(config.gateway_url, key=config.api_key) as api:
        position = open_letter(config, api)
    with open_console(config.gateway_url, "admin") as console:
        page = console.page
        open_page(page, f"{console.url}/#/operations/letters")
        page.get_by_role("button", name=f"Show {position}").click(timeout=PATIENCE_MS)
        page.get_by_role("button", name="Replay").click()
        page.get_by_role("alert").get_by_role("button", name="Replay").click()
        expect(page.get_by_role("status")).to_contain_text(f"Letter {position} is replayed.", timeout=PATIENCE_MS)
        open_page(page, f"{console.url}/#/operations/audit")
        page.get_by_label("Tenant").fill("")
        replayed = page.get_by_role("row").filter(has_text="dead_letter.replayed").filter(has_text=position)
        expect(replayed).to_contain_text("person:admin", timeout=PATIENCE_MS)


@pytest.mark.nightly
def test_console_sign_in_on_the_stack_ends_with_its_sign_out(config: StackConfig) -> None:
    with open_console(config.gateway_url, "viewer") as console:
        page = console.page
        page.reload()
        expect(page.get_by_role("heading", level=1, name="Overview")).to_be_visible(timeout=PATIENCE_MS)
        page.get_by_role("button", name="Sign out").click()
        page.locator("main").get_by_role("button", name="Sign in").click()
        console.sign_in("admin")
        expect(page.get_by_role("link", name="Operations")).to_be_visible(timeout=PATIENCE_MS)


@pytest.mark.nightly
def test_console_interactions_are_measured_on_the_stack(
    config: StackConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    """Runs after the demo. The figure is printed; docs/internals/contributing.md has the aim."""
    with open_console(config.gateway_url, "admin") as console:
        page = console.page
        page.add_init_script(OBSERVE)
        open_page(page, f"{console.url}/#/compose")
        page.reload()
        page.get_by_label("Title").press_sequentially("Kick-off in one hour")
        page.get_by_label("User ids").press_sequentially("1-500")
        page.get_by_label("An audience of the tenant").click()
        for link in ("Sends", "Metrics", "Sends", "Operations"):
            page.get_by_role("navigation", name="Main").get_by_role("link", name=link).click()
            expect(page.get_by_role("heading", level=1, name=link)).to_be_visible(timeout=PATIENCE_MS)
        page.get_by_role("link", name="Sends").click()
        page.get_by_role("table").get_by_role("link").first.click(timeout=PATIENCE_MS)
        expect(page.get_by_test_id("sum")).to_be_visible(timeout=PATIENCE_MS)
        with capsys.disabled():
            sys.stdout.write(f"\n{console.longest_interaction()}\n")


@pytest.mark.nightly
def test_console_hides_the_sends_of_another_tenant(config: StackConfig) -> None:
    """Runs after the demo. The sender belongs to club 1."""
    foreign = send_of_another_club(config)
    with open_console(config.gateway_url, "sender") as console:
        assert console.call("GET", f"/v1/sends/{foreign}") == 404
        open_page(console.page, f"{console.url}/#/sends/{foreign}")
        expect(console.page.get_by_text("There is no send with this id.")).to_be_visible(timeout=PATIENCE_MS)
        open_page(console.page, f"{console.url}/#/sends?club=2")
        expect(console.page.get_by_role("alert")).to_contain_text("do not permit", timeout=PATIENCE_MS)
        assert foreign not in console.page.content()


def send_of_another_club(config: StackConfig) -> str:
    """Request a send of club 2, and return its id once it is counted."""
    headers = {"x-api-key": config.api_key}
    body = {"type": "announcement", "club_id": 2, "to_users": [42], "data": {"title": "t", "body": "b"}}
    with httpx.Client(base_url=config.gateway_url, headers=headers) as api:
        send_id: str = api.post("/v1/sends", json=body).raise_for_status().json()["send_id"]
        until("the send is counted", lambda: api.get(f"/v1/sends/{send_id}").status_code == httpx.codes.OK)
    return send_id


@pytest.mark.nightly
def test_console_shows_a_viewer_no_form_and_the_api_refuses(config: StackConfig) -> None:
    with open_console(config.gateway_url, "viewer") as console:
        expect(console.page.get_by_role("heading", level=1, name="Overview")).to_be_visible(timeout=PATIENCE_MS)
        expect(console.page.get_by_role("link", name="Compose")).to_have_count(0)
        body = {"type": "announcement", "club_id": 1, "to_users": [42], "data": {"title": "t", "body": "b"}}
        assert console.call("POST", "/v1/sends", body) == 403
        assert console.call("GET", "/v1/sends?club_id=1") == 200


@pytest.mark.nightly
def test_console_has_the_events_of_a_developer(stack: RunningStack, config: StackConfig) -> None:
    """An endpoint, its subscription, what an event matches, a test event, the event itself, and a source."""
    with (
        Client(config.gateway_url, key=config.api_key) as api,
        receiving() as receiver,
        open_console(config.gateway_url, "developer") as console,
    ):
        api.set_event_type("e2e.developed", description="An event of this test", example={"goals": 1})
        page = console.page
        open_page(page, f"{console.url}/#/events/types")
        row = page.get_by_role("row").filter(has_text="e2e.developed")
        expect(row).to_contain_text("An event of this test", timeout=PATIENCE_MS)

        open_page(page, f"{console.url}/#/events/endpoints")
        page.get_by_label("URL").fill(receiver.url)
        page.get_by_label("Description").fill("of a developer")
        page.get_by_role("button", name="Create an endpoint").click()
        expect(page.get_by_role("status").locator("code")).to_contain_text("whsec_", timeout=PATIENCE_MS)

        open_page(page, f"{console.url}/#/events/subscriptions")
        page.get_by_label("Subscriptions of").select_option("of a developer", timeout=PATIENCE_MS)
        page.get_by_label("Event types", exact=True).fill("e2e.developed")
        page.get_by_role("button", name="Subscribe").click()
        row = page.get_by_role("row").filter(has_text="e2e.developed")
        expect(row).to_be_visible(timeout=PATIENCE_MS)
        page.get_by_label("Type of the event").select_option("e2e.developed")
        page.get_by_role("button", name="Show the matches").click()
        match = page.get_by_test_id("matches").get_by_role("listitem").filter(has_text=receiver.url)
        match.get_by_role("button", name="Send a test event").click(timeout=PATIENCE_MS)

        def types() -> set[str]:
            return {each.event["type"] for each in receiver.received}

        until("the test event has arrived", lambda: "webhook.test" in types(), 180)
        event: EventFields = {"event_id": "e2e-developed", "type": "e2e.developed", "club_id": 1, "data": {"goals": 2}}
        api.report_events([event])
        until("the event has arrived", lambda: "e2e.developed" in types(), 120)

        open_page(page, f"{console.url}/#/events/sources")
        page.get_by_role("button", name="New source").click()
        page.get_by_label("Description").fill("of a developer")
        page.get_by_label("Secret").fill("whsec_" + "c2VjcmV0IG9mIGEgc2hvcCBvZiBhIHRlc3Q=")
        page.get_by_label("Event type", exact=True).fill("e2e.developed")
        page.get_by_role("button", name="Create the source").click()
        expect(page.get_by_text("It is as secret as a password.")).to_be_visible(timeout=PATIENCE_MS)
        page.get_by_role("button", name="Back").click()
        row = page.get_by_role("row").filter(has_text="of a developer")
        row.get_by_role("button", name="Delete").click(timeout=PATIENCE_MS)
        page.get_by_role("alert").get_by_role("button", name="Delete").click()
        expect(page.get_by_role("status")).to_contain_text("is deleted", timeout=PATIENCE_MS)

        assert console.call("POST", "/v1/events", {"events": [event]}) == 403
        assert console.call("GET", "/v1/subscriptions?club_id=2") == 403
        assert console.call("GET", "/v1/users/42/preferences") == 403
        open_page(page, f"{console.url}/#/events/endpoints")
        page.get_by_role("row").filter(has_text="of a developer").get_by_role("button", name="Delete").click()
        page.get_by_role("alert").get_by_role("button", name="Delete").click()
        expect(page.get_by_role("status")).to_contain_text("is deleted", timeout=PATIENCE_MS)


def audit_log(config: StackConfig, *, club: int) -> list[dict[str, Any]]:
    return json_lines(masscomm(config, "audit", "--club", str(club), "--json"))


def json_lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def demo(stack: RunningStack, out: Path, users: int, *, waits: bool) -> dict[str, Any]:
    """Run the demo. Returns its figures; fails with its output if it does not end well."""
    output = io.StringIO()
    console = Terminal(file=output, width=140)
    ok = run_demo(stack, users=users, out=out, console=console, waits=waits)
    print(output.getvalue())  # noqa: T201 - of a failure
    figures: dict[str, Any] = json.loads(out.read_text())
    assert ok, output.getvalue()
    lines = output.getvalue().splitlines()
    heads = [line for line in lines if re.match(r"\d · ", line)]
    assert [head[0] for head in heads] == ["1", "2", "3"], "the log has three parts"
    assert "docs/quick-start.md" in lines[-1], "it ends with a suggestion"
    assert figures["ok"]
    return figures


# A request of each function, which has one environment here: none waits for another one.
ASKED: dict[str, tuple[str, str, dict[str, Any] | None]] = {
    "send": ("POST", "/v1/sends", {"type": "announcement", "club_id": 1, "to_users": [42]}),
    "dry run": ("POST", "/v1/dry-runs", {"type": "announcement", "club_id": 1, "to_users": [42]}),
    "preferences": ("GET", "/v1/users/42/preferences", None),
    "count": ("POST", "/v1/audiences/count", {"club_id": 1, "audience": {"all_users": True}}),
    "metrics": ("GET", "/v1/metrics?granularity=day&start=2026-11-01T00:00:00Z&end=2026-11-02T00:00:00Z", None),
    "list": ("GET", "/v1/sends?club_id=1", None),
    "overview": ("GET", "/v1/overview", None),
}
# The requests that need a server. The others are answered without it.
NEEDED_BY = {
    "postgres": {"metrics"},
    "opensearch": {"dry run", "preferences", "count"},
    "dynamodb": {"dry run", "count", "list"},
    "registry": set(),
    "kafka": {"send"},
}


def statuses(config: StackConfig) -> dict[str, int]:
    """Send all requests at the same time, and return their statuses."""
    headers = {"x-api-key": config.api_key}
    with httpx.Client(base_url=config.gateway_url, headers=headers, timeout=2 * GATEWAY_TIMEOUT_S) as api:
        with ThreadPoolExecutor(len(ASKED)) as together:
            asked = {name: together.submit(api.request, *row[:2], json=row[2]) for name, row in ASKED.items()}
        return {name: answer.result().status_code for name, answer in asked.items()}


def server(stack: RunningStack, name: str) -> list[psutil.Process]:
    """Return the processes of a server; DynamoDB's is a child of LocalStack."""
    if name != "dynamodb":
        return process.family(stack.services[name].pid)
    return [each for each in process.family(stack.services["localstack"].pid) if "DynamoDb" in " ".join(each.cmdline())]


@pytest.mark.nightly
@pytest.mark.parametrize("name", NEEDED_BY)
def test_each_request_is_answered_while_a_server_hangs(stack: RunningStack, config: StackConfig, name: str) -> None:
    """A stopped server accepts connections and answers none. The gateway's 504 would be that of a function which waits
    longer than its time limit.
    """
    healthy = {each: 202 if each == "send" else 200 for each in ASKED}
    assert statuses(config) == healthy
    stopped = server(stack, name)
    assert stopped
    try:
        for each in stopped:
            each.send_signal(signal.SIGSTOP)
        for _ in ("over open connections", "over new ones"):
            assert statuses(config) == healthy | dict.fromkeys(NEEDED_BY[name], 503)
    finally:
        for each in stopped:
            each.send_signal(signal.SIGCONT)
    until(f"the API works with {name} again", lambda: statuses(config) == healthy, every_s=2)


@pytest.mark.nightly
def test_stack_recovers_stored_data_after_a_kill_of_all(stack: RunningStack, config: StackConfig) -> None:
    """tests/component/local/test_recovery.py kills and starts a part of the stack."""
    topics = set(AdminClient({"bootstrap.servers": config.kafka_bootstrap}).list_topics(timeout=10).topics)
    url = f"{config.opensearch_url}/device_state/_doc/7"
    httpx.put(url, params={"refresh": "true"}, json={"endpoint_arn": "arn:of:a:run:before"}).raise_for_status()
    httpx.put(f"{config.opensearch_url}/users-g1/_doc/7", json={"club_id": 1}).raise_for_status()
    before = processes(stack)
    psutil.Process(stack.holder_pid).send_signal(signal.SIGKILL)
    for each in before:
        if each.is_running():
            each.send_signal(signal.SIGKILL)
    psutil.wait_procs(before, timeout=20)
    assert "No stack runs" in masscomm(config, "status", status=3)

    masscomm(config, "up", "--detach")
    restarted = RunningStack.of(config)
    assert topics <= set(AdminClient({"bootstrap.servers": config.kafka_bootstrap}).list_topics(timeout=10).topics)
    assert httpx.get(f"{config.opensearch_url}/users-g1/_doc/7").json()["found"]
    # LocalStack has lost its endpoints, so the directory must no longer name them.
    assert httpx.get(url).status_code == 404
    assert all(started.alive() for started in restarted.services.values())


def test_ended_stack_leaves_neither_process_nor_file(stack: RunningStack, config: StackConfig) -> None:
    """The last test of this file, because it ends the stack that the others use."""
    assert stack.ready
    family = processes(RunningStack.of(config))
    masscomm(config, "down")
    assert not [each for each in family if each.is_running() and each.status() != psutil.STATUS_ZOMBIE]
    assert process.marked(config.state_dir) == []
    masscomm(config, "clean-state")
    assert [path for path in config.state_dir.rglob("*") if path.is_file()] == [config.run_dir / "lock"]
