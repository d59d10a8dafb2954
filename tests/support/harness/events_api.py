"""The events_api function in memory, with the type and the subscription of the OpenAPI document's examples."""

import json

from functions.events_api.handler import UseCases, use_cases
from masscomm.clock import Clock
from masscomm.domain.events import EventType
from masscomm.domain.subscriptions import Subscription
from masscomm.domain.webhooks import Endpoint, EndpointKey
from masscomm.stores.audit_log.port import AuditLog
from masscomm.stores.event_ids.in_memory import InMemoryEventIds
from masscomm.stores.event_types.in_memory import InMemoryEventTypes
from masscomm.stores.subscriptions.in_memory import InMemorySubscriptions
from masscomm.stores.webhook_endpoints.in_memory import InMemoryWebhookEndpoints
from tests.support.harness.chain import Chain

LETTERS = "4fq2m7x9c1r8w3k5t6zb"
SCHEMA = {"type": "object", "required": ["goals"], "properties": {"goals": {"type": "array"}}}


def endpoint_key(club_id: int = 1) -> EndpointKey:
    return EndpointKey(club_id, f"ep_{club_id}_{LETTERS}")


def subscription_id(club_id: int = 1) -> str:
    return f"sub_{club_id}_{LETTERS}_9d2k4m6p8r1t"


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
    return use_cases(
        types=types,
        event_ids=InMemoryEventIds(),
        subscriptions=subscriptions,
        endpoints=endpoints,
        codec=chain.codec,
        producer=chain.producer,
        audit_log=audit_log,
        clock=clock,
    )
