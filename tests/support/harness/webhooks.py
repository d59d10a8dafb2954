"""The function webhook_delivery in memory, with endpoints that answer as scripted."""

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from functions.webhook_delivery.deliver_webhooks import DeliverWebhooks
from masscomm.channels.guarded_http import Answer
from masscomm.channels.signing_keys import SigningKeys
from masscomm.clock import FixedClock
from masscomm.domain.webhooks import Delivery, Endpoint, EndpointKey, Event
from masscomm.observability import logs
from masscomm.stores.audit_log.in_memory import InMemoryAuditLog
from masscomm.stores.audit_log.port import PrincipalAudit
from masscomm.stores.webhook_deliveries.in_memory import InMemoryWebhookDeliveries
from masscomm.stores.webhook_endpoints.in_memory import InMemoryWebhookEndpoints

KEYS_TEXT = json.dumps({"current": "1", "1": "a key of at least thirty-two bytes"})
KEY = EndpointKey(7, "ep_7_aaaaaaaaaaaaaaaaaaaa")


def key(club_id: int, letter: str = "a") -> EndpointKey:
    return EndpointKey(club_id, f"ep_{club_id}_{letter * 20}")


def url_of(endpoint: EndpointKey) -> str:
    return f"https://{endpoint.id.replace('_', '-')}.example.org/"


@dataclass
class ScriptedHttp:
    """Answers 200, or what the test sets for a URL: answers in order, the last one for ever, or a function."""

    answers: dict[str, list[Answer | Exception] | Callable[[], Answer]] = field(default_factory=dict)
    # (URL, headers, body) of each request.
    requests: list[tuple[str, Mapping[str, str], bytes]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def post(self, url: str, *, body: bytes, headers: Mapping[str, str]) -> Answer:
        with self._lock:
            self.requests.append((url, headers, body))
            script = self.answers.get(url, [answer(200)])
            if not callable(script):
                found = script.pop(0) if len(script) > 1 else script[0]
        if callable(script):
            found = script()
        if isinstance(found, Exception):
            raise found
        return found


def answer(status: int, *, retry_after: str | None = None, body: str = "") -> Answer:
    return Answer(status=status, retry_after=retry_after, body=body)


class Webhooks:
    """Stores with an endpoint of club 7, and the function over them."""

    def __init__(self) -> None:
        self.clock = FixedClock()
        self.endpoints = InMemoryWebhookEndpoints()
        self.deliveries = InMemoryWebhookDeliveries()
        self.http = ScriptedHttp()
        self.audit_log = InMemoryAuditLog()
        self.keys = SigningKeys(read=lambda: KEYS_TEXT, clock=self.clock)
        self.use_case = DeliverWebhooks(
            endpoints=self.endpoints,
            deliveries=self.deliveries,
            http=self.http,
            keys=self.keys,
            clock=self.clock,
            audit=PrincipalAudit(
                audit_log=self.audit_log,
                clock=self.clock,
                logger=logs.logger("webhook_delivery"),
                principal="webhook_delivery",
            ),
        )
        self.endpoint()

    def endpoint(self, endpoint: EndpointKey = KEY, **fields: Any) -> Endpoint:
        created = Endpoint(key=endpoint, url=url_of(endpoint), created_at_ms=self.clock.now_ms(), key_id="1", **fields)
        # Without a limit: tests have more endpoints than the function has turns.
        self.endpoints.stored[endpoint] = created
        self.endpoints.listed.add(endpoint.club_id)
        return created

    def deliver(self, event_id: str = "evt_1", endpoint: EndpointKey = KEY) -> Delivery:
        """Record an event and its delivery, which is due now."""
        now_ms = self.clock.now_ms()
        event = self.deliveries.record(
            Event(id=event_id, type="send.completed", club_id=endpoint.club_id, at_ms=now_ms, body="{}")
        )
        return self.deliveries.add(
            Delivery(endpoint=endpoint, event_id=event.id, event_type=event.type, at_ms=event.at_ms, due_ms=now_ms)
        )

    def sweep(self, seconds: float = 60) -> dict[str, int]:
        """Sweep within an invocation that lasts that long by the fixed clock."""
        end = self.clock.monotonic() + seconds
        return self.use_case.sweep(lambda: end - self.clock.monotonic())

    def now(self, delivery: Delivery) -> Delivery:
        found = self.deliveries.find(delivery.endpoint, delivery.id)
        assert found is not None
        return found

    def stored(self, endpoint: EndpointKey = KEY) -> Endpoint:
        found = self.endpoints.find(endpoint)
        assert found is not None
        return found
