"""The events_api function in memory, with the type and the subscription of the OpenAPI document's examples."""

import json
from typing import Any

import pytest

from functions.events_api import handler as events_api
from functions.events_api.handler import UseCases, use_cases
from masscomm.clock import Clock
from masscomm.domain.events import EventType
from masscomm.domain.records import EventOccurred, SubscriptionChanged
from masscomm.domain.subscriptions import Subscription
from masscomm.domain.webhook_sources import Scheme, SourceKey
from masscomm.domain.webhooks import Endpoint, EndpointKey
from masscomm.http.scopes import ALL_SCOPES
from masscomm.kafka import topics
from masscomm.stores.audit_log.in_memory import InMemoryAuditLog
from masscomm.stores.audit_log.port import AuditLog
from masscomm.stores.event_ids.in_memory import InMemoryEventIds
from masscomm.stores.event_types.in_memory import InMemoryEventTypes
from masscomm.stores.subscriptions.in_memory import InMemorySubscriptions
from masscomm.stores.webhook_endpoints.in_memory import InMemoryWebhookEndpoints
from masscomm.stores.webhook_sources.in_memory import InMemoryWebhookSources
from tests.support.harness import webhook_sources
from tests.support.harness.chain import Chain
from tests.support.harness.slots import use_slots
from tests.support.inputs.api_gateway_events import lambda_context

LETTERS = "4fq2m7x9c1r8w3k5t6zb"
SCHEMA = {"type": "object", "required": ["goals"], "properties": {"goals": {"type": "array"}}}


def endpoint_key(club_id: int = 1) -> EndpointKey:
    return EndpointKey(club_id, f"ep_{club_id}_{LETTERS}")


def subscription_id(club_id: int = 1) -> str:
    return f"sub_{club_id}_{LETTERS}_9d2k4m6p8r1t"


def source_id(club_id: int = 1) -> str:
    return f"src_{club_id}_4fq2m7xbc5rdw3k5t6zbyjhe2n"


def events_use_cases(chain: Chain, clock: Clock, audit_log: AuditLog, club_id: int = 1) -> UseCases:
    """Return the function over Kafka and stores in memory. The endpoint and its subscription belong to a club."""
    types, endpoints, subscriptions = InMemoryEventTypes(), InMemoryWebhookEndpoints(), InMemorySubscriptions()
    types.put(EventType(name="match.finished", description="A match has finished", schema=json.dumps(SCHEMA)))
    key = endpoint_key(club_id)
    endpoints.create(Endpoint(key=key, url="https://hooks.example.org/", created_at_ms=clock.now_ms(), key_id="1"))
    subscription = Subscription(
        id=subscription_id(club_id), endpoint=key, types=("match.*",), club_ids=(club_id,), units=("100",)
    )
    subscriptions.published(subscriptions.put(subscription, clock.now_ms()))
    sources = InMemoryWebhookSources()
    sources.put(webhook_sources.source(Scheme.STRIPE, key=SourceKey(club_id, source_id(club_id))))
    return use_cases(
        types=types,
        event_ids=InMemoryEventIds(),
        subscriptions=subscriptions,
        endpoints=endpoints,
        sources=sources,
        box=webhook_sources.BOX,
        door_url="https://in.masscomm.example",
        codec=chain.codec,
        producer=chain.producer,
        audit_log=audit_log,
        clock=clock,
    )


class EventsApi(Chain):
    """The routes of the function for club 1, over Kafka and stores in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.cases: UseCases = events_use_cases(self, self.clock, InMemoryAuditLog())

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        clubs: str = "1",
        scopes: str = " ".join(ALL_SCOPES),
        query: dict[str, str] | None = None,
        content_type: str = "application/json",
    ) -> tuple[int, Any]:
        of_clubs = {"all_clubs": "true"} if clubs == "*" else {"club_ids": clubs}
        event = {
            "queryStringParameters": query,
            "httpMethod": method,
            "path": path,
            "requestContext": {"authorizer": of_clubs | {"scopes": scopes, "principalId": "k"}},
            "multiValueHeaders": {"Content-Type": [content_type]},
            "body": body if body is None or isinstance(body, str) else json.dumps(body),
        }
        answered = events_api.api.answer(event, lambda_context())
        return answered["statusCode"], json.loads(answered["body"])

    def report(self, *events: Any, clubs: str = "1") -> tuple[int, Any]:
        return self.request("POST", "/v1/events", {"events": list(events)}, clubs=clubs)

    def report_as(self, content_type: str, body: Any) -> tuple[int, Any]:
        return self.request("POST", "/v1/events", body, content_type=content_type)

    def events(self) -> list[EventOccurred]:
        return self._decoded(EventOccurred, topics.EVENT)

    def published(self) -> list[tuple[str, SubscriptionChanged | None]]:
        """Return (id, subscription) of each record of the topic; None for a deletion."""
        return [
            (
                (key or b"").decode(),
                None
                if value is None
                else SubscriptionChanged.from_avro(self.codec.decode("SubscriptionChanged", value)),
            )
            for topic, key, value in self.produced()
            if topic == topics.SUBSCRIPTION
        ]


def in_memory_api(monkeypatch: pytest.MonkeyPatch) -> EventsApi:
    """Return the routes, with which the function answers during a test."""
    made = EventsApi()
    monkeypatch.setattr(events_api, "bootstrap", lambda: made.cases)
    use_slots(monkeypatch, made.clock)
    return made
