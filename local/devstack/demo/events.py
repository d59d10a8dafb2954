"""The events of the demo: from an outbox, incoming webhooks and a topic of its own to two endpoints, and to a push."""

import hashlib
import hmac
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import psycopg
import yaml
from confluent_kafka import Message, Producer
from confluent_kafka.cimpl import NewTopic

from cli.client_log import KAFKA_LOGGER
from examples.monolith.seed import BIG_CLUB
from local.devstack.config import StackConfig
from local.devstack.demo.api import Api
from local.devstack.demo.report import Checks
from local.devstack.demo.waiting import DemoError, Pending
from masscomm.kafka.admin import KafkaAdmin
from masscomm.kafka.topic_ids import topic_ids
from masscomm_client import WebhookError, verify_webhook
from spark_events.record_mapping import event_id

# The number of events of each source.
EVENTS = 20
ORDER, GOAL = "demo.order", "demo.goal"
SECRET = "the secret of the demo's shop"  # noqa: S105
SIGNATURE = "x-shop-signature"
HEADLINE = "Goal for United!"
_BATCH = 100


@dataclass
class Receiver:
    """A server of a subscriber on this machine. It keeps the messages whose signatures are valid."""

    label: str
    # The most messages of a request.
    max_count: int
    secret: str = ""
    url: str = ""
    # The event's id → its distinct contents, and the distinct ids of its messages.
    contents: dict[str, list[Any]] = field(default_factory=dict)
    ids: dict[str, set[str]] = field(default_factory=dict)
    refused: int = 0

    def take(self, headers: Mapping[str, str], body: bytes) -> bool:
        """Keep the messages of a request, and return whether its signature is valid."""
        try:
            found = verify_webhook([self.secret], headers, body)
        except WebhookError:
            self.refused += 1
            return False
        for message in found if isinstance(found, list) else [found]:
            contents = self.contents.setdefault(message["event_id"], [])
            if (content := (message["type"], message["unit"], message["data"])) not in contents:
                contents.append(content)
            self.ids.setdefault(message["event_id"], set()).add(message["id"])
        return True

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Receive until the block ends."""
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                self.send_response(204 if receiver.take(dict(self.headers), body) else 400)
                self.end_headers()

            def log_message(self, format: str, *arguments: object) -> None:
                """Print nothing for a request."""

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            self.url = f"http://127.0.0.1:{server.server_port}/hook"
            Thread(target=server.serve_forever, daemon=True).start()
            try:
                yield
            finally:
                server.shutdown()


@dataclass
class Events:
    """The events of one run, with what the oracle expects of them."""

    api: Api
    checks: Checks
    # Begins the ids of the events of this run.
    name: str
    receivers: Sequence[Receiver] = field(
        default_factory=lambda: (Receiver("streaming", 1), Receiver("batched", _BATCH))
    )
    expected: dict[str, Any] = field(default_factory=dict)
    source: str = ""
    door: str = ""

    @contextmanager
    def subscribed(self) -> Iterator[None]:
        """Create the endpoints, their subscriptions and the source, until the block ends."""
        for event_type in (ORDER, GOAL):
            self.api.set_event_type(event_type, description="An event of the demo", example={})
        endpoints: list[str] = []
        try:
            for receiver in self.receivers:
                made = self.api.create_webhook(
                    club_id=BIG_CLUB, url=receiver.url, event_types=["send.failed"], max_count=receiver.max_count
                )
                receiver.secret = made["secret"]
                endpoints.append(made["endpoint"]["id"])
                self.api.create_subscription(endpoint_id=endpoints[-1], types=["demo.*"], club_ids=[BIG_CLUB])
            made_source = self.api.create_source(
                club_id=BIG_CLUB,
                scheme="hmac",
                header=SIGNATURE,
                secret=SECRET,
                mapping={
                    "type": {"value": ORDER},
                    "club_id": {"path": "shop.club"},
                    "event_id": {"path": "id"},
                    "data": {"path": "order"},
                },
            )
            self.source, self.door = made_source["id"], made_source["url"]
            yield
        finally:
            for endpoint in endpoints:
                self.api.delete_webhook(endpoint)
            if self.source:
                self.api.delete_source(self.source)

    @contextmanager
    def rule(self, category: str) -> Iterator[str]:
        """Notify the user of each goal until the block ends. Yields the id of the rule."""
        made = self.api.create_subscription(
            types=[GOAL],
            club_ids=[BIG_CLUB],
            notification={"type": category, "users_path": "fan", "data": {"headline": "headline"}},
        )
        try:
            yield made["id"]
        finally:
            self.api.delete_subscription(made["id"])

    def insert(self, database: psycopg.Connection[Any], fan: int) -> str:
        """Insert orders and a goal into the outbox in one transaction, and others in one that is rolled back. Return
        the id of the goal's event.
        """
        goal = f"{self.name}-goal"
        with database.transaction():
            for number in range(EVENTS):
                self._insert(database, f"{self.name}-row-{number}", ORDER, {"number": number})
            self._insert(database, goal, GOAL, {"headline": HEADLINE, "fan": fan})
        with database.transaction():
            self._insert(database, f"{self.name}-undone", ORDER, {})
            del self.expected[f"{self.name}-undone"]
            raise psycopg.Rollback
        return goal

    def _insert(self, database: psycopg.Connection[Any], event_id: str, event_type: str, data: Any) -> None:
        database.execute(
            "INSERT INTO event_outbox (club_id, event_id, type, unit, data) VALUES (%s, %s, %s, '100/7', %s)",
            (BIG_CLUB, event_id, event_type, json.dumps(data)),
        )
        self.expected[event_id] = (event_type, "100/7", data)

    def post(self) -> None:
        """Post orders to the door, each twice, and one with a wrong signature."""
        with httpx.Client(trust_env=False, timeout=10) as sender:
            for number in range(EVENTS):
                order = {"number": number, "text": "ü"}
                order_id = f"{self.name}-post-{number}"
                body = json.dumps({"id": order_id, "shop": {"club": BIG_CLUB}, "order": order}).encode()
                self.expected[order_id] = (ORDER, None, order)
                for _ in range(2):
                    self._post(sender, body, hmac.digest(SECRET.encode(), body, hashlib.sha256).hex())
            self._post(sender, b"{}", "00")

    def _post(self, sender: httpx.Client, body: bytes, signature: str) -> None:
        headers = {"content-type": "application/json", SIGNATURE: signature}
        answered = sender.post(self.door, content=body, headers=headers)
        if answered.status_code != httpx.codes.ACCEPTED:
            raise DemoError(f"the door for incoming webhooks answered {answered.status_code}: {answered.text}")

    def order_topic(self, config: StackConfig) -> Path:
        """Produce orders to a new topic, and return the file that makes events of them."""
        topic = f"demo.orders.{self.name}"
        settings = {"bootstrap.servers": config.kafka_bootstrap, "logger": KAFKA_LOGGER}
        admin = KafkaAdmin(settings)
        admin.client().create_topics([NewTopic(topic, 2, 1)])[topic].result()
        topic_id = topic_ids(admin, [topic])[topic]
        producer = Producer(settings)
        for number in range(EVENTS):
            order = {"number": number}

            def expect(_: Any, message: Message, order: Any = order) -> None:
                position = (message.partition() or 0, message.offset() or 0)
                self.expected[event_id(topic_id, *position)] = (ORDER, "100/7", order)

            record = {"club": BIG_CLUB, "site": "100/7", "order": order}
            producer.produce(topic, json.dumps(record).encode(), on_delivery=expect)
        if producer.flush(30):
            raise DemoError(f"Kafka does not take the records of {topic}.")
        admin.close()
        mapping = {"type": {"value": ORDER}, "club_id": {"path": "club"}, "unit": {"path": "site"}}
        mapping |= {"data": {"path": "order"}}
        path = config.data("demo") / "event_sources.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump({"sources": [{"name": "orders", "topics": [topic], "mapping": mapping}]}))
        return path

    def missing(self) -> Pending | None:
        """Return what has not arrived yet."""
        done = sum(len(self.expected.keys() & each.contents.keys()) for each in self.receivers)
        total = len(self.expected) * len(self.receivers)
        if done < total:
            return Pending("events at the receivers", done, total)
        return None if self.api.source(self.source)["refusals"] else Pending("the refused webhook")

    def check(self) -> None:
        """Compare what has arrived with the oracle."""
        for each in self.receivers:
            label = f"events at the {each.label} receiver"
            self.checks.equal(
                label, expected={id_: [content] for id_, content in self.expected.items()}, got=each.contents
            )
            counts = {id_: len(ids) for id_, ids in each.ids.items()}
            self.checks.equal(
                f"{label}: ids of an event's messages", expected=dict.fromkeys(self.expected, 1), got=counts
            )
            self.checks.equal(f"{label}: invalid signatures", expected=0, got=each.refused)
        reasons = [each["reason"] for each in self.api.source(self.source)["refusals"]]
        self.checks.equal("incoming webhooks that became no event", expected=["signature"], got=reasons)
