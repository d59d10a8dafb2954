"""The operations_handler function in memory, with the records of the OpenAPI document's examples."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from functions.operations_handler import handler as operations_handler
from functions.operations_handler.routes.alarms import AlarmsRoute
from functions.operations_handler.routes.audiences import AudiencesRoute
from functions.operations_handler.routes.audit import AuditRoute
from functions.operations_handler.routes.categories import CategoriesRoute
from functions.operations_handler.routes.dead_letters import DeadLettersRoute
from functions.operations_handler.routes.devices import DevicesRoute
from functions.operations_handler.routes.health import HealthRoute
from functions.operations_handler.routes.keys import KeysRoute
from functions.operations_handler.routes.overview import OverviewRoute
from functions.operations_handler.routes.suppressions import SuppressionsRoute
from functions.operations_handler.routes.webhook_dead_letters import WebhookDeadLettersRoute
from functions.operations_handler.routes.webhooks import WebhooksRoute
from masscomm.aws.sealed_secrets import SecretBox
from masscomm.chain.publish_subscriptions import PublishSubscriptions
from masscomm.chain.waiting_messages import WaitingMessages
from masscomm.channels.signing_keys import SigningKeys
from masscomm.clock import Clock
from masscomm.directory.disabled_devices import DisabledDevice, InMemoryDisabledDevices
from masscomm.directory.suppression_list import InMemorySuppressionList, StoredSuppression
from masscomm.domain.events import EventType
from masscomm.domain.ids import address_id
from masscomm.domain.records import EventOccurred
from masscomm.domain.saved_audiences import SavedAudience
from masscomm.domain.subscriptions import Subscription, SubscriptionKey
from masscomm.domain.webhooks import Endpoint, EndpointKey
from masscomm.kafka import topics
from masscomm.kafka.avro import KNOWN_SUBJECT, Codec, InMemorySchemaRegistry, own_schema
from masscomm.kafka.producer import InMemoryProducer
from masscomm.operations.alarms import Alarm, AlarmState, InMemoryAlarms
from masscomm.operations.dead_letter_store import InMemoryDeadLetters
from masscomm.operations.dead_letters import DeadLetter
from masscomm.operations.health import DirectoryAge, InMemoryHealth, Lag
from masscomm.operations.send_lists import SendLists
from masscomm.stores.api_keys.in_memory import InMemoryApiKeys
from masscomm.stores.api_keys.port import ApiKey
from masscomm.stores.audit_log.port import AuditLog
from masscomm.stores.categories.dynamodb import DynamoDbCategories
from masscomm.stores.categories.in_memory import InMemoryCategories
from masscomm.stores.categories.known import known_categories
from masscomm.stores.delayed_records.in_memory import InMemoryDelayStore
from masscomm.stores.event_ids.in_memory import InMemoryEventIds
from masscomm.stores.event_types.in_memory import InMemoryEventTypes
from masscomm.stores.metrics.in_memory import InMemoryMetricsStore
from masscomm.stores.metrics.port import WebhookLogKey, WebhookLogRow
from masscomm.stores.saved_audiences.in_memory import InMemorySavedAudiences
from masscomm.stores.sends.in_memory import InMemorySends
from masscomm.stores.subscriptions.in_memory import InMemorySubscriptions
from masscomm.stores.webhook_dead_letters.in_memory import InMemoryWebhookDeadLetters
from masscomm.stores.webhook_dead_letters.port import WebhookDeadLetter
from masscomm.stores.webhook_endpoints.in_memory import InMemoryWebhookEndpoints
from tests.support.fakes.data_keys import InMemoryDataKeys
from tests.support.harness.chain import NOW, send
from tests.support.harness.slots import use_slots

EVENT_ID, EVENT_MS = "evt_5b0f6c7d8e9f4a1b8c2d3e4f5a6b7c8d", 1_763_726_400_000
# The value of the header webhook-id of its message.
MESSAGE_ID = "evt_8c2d3e4f5a6b7c8d5b0f6c7d8e9f4a1b"
AUDIENCE = "germans"
KEY_ID = "7d793037a0760186"
ADDRESS_ID = address_id("ada@example.org")

# The time of the dead letters.
LETTERS_AT = datetime.fromtimestamp(NOW / 1000, UTC)


def build(
    monkeypatch: pytest.MonkeyPatch,
    *,
    clock: Clock,
    audit_log: AuditLog,
    club_id: int = 1,
    lists: SendLists | None = None,
) -> None:
    """Build the function in memory. The suppression and the key belong to one club. `lists` are the sends of the
    overview; None: there are none.
    """
    suppression = StoredSuppression(
        id=f"{club_id}-{ADDRESS_ID}",
        club_id=club_id,
        address_id=ADDRESS_ID,
        reason="bounced_permanent",
        at_ms=clock.now_ms(),
        expires_at_ms=clock.now_ms() + 86_400_000,
    )
    keys = InMemoryApiKeys()
    keys.put(key(clubs=str(club_id), created_at=clock.now_ms() // 1000))
    codec = Codec(registry())
    letters = [letter(codec, club_id=club_id, at_ms=clock.now_ms())]
    dead_letters = InMemoryDeadLetters(letters, allowed=frozenset({topics.SEND_API}), now=LETTERS_AT)
    health = InMemoryHealth(
        [Lag(function="builder", topic=topics.BUILD, records=3)],
        [DirectoryAge(generation="g1", heartbeat_at_ms=clock.now_ms() - 1_500)],
    )
    device = DisabledDevice(
        device_id=420,
        user_id=42,
        club_id=club_id,
        platform="gcm",
        reason="takes_nothing",
        since_ms=clock.now_ms(),
        endpoint_arn="arn:aws:sns:eu-central-1:000000000000:endpoint/GCM/masscomm-gcm/1",
    )
    alarm = Alarm(
        name="builder-dead-letters",
        state=AlarmState.ALARM,
        since_ms=clock.now_ms(),
        description="builder dead-letters many records.",
        runbook="dead-letters",
    )
    alarms, letters_route = AlarmsRoute(InMemoryAlarms([alarm]), clock), DeadLettersRoute(dead_letters, codec)
    webhooks = webhooks_route(clock, club_id, codec)
    overview = OverviewRoute(
        lists=lists or SendLists(InMemoryMetricsStore(), InMemorySends(clock)),
        alarms=alarms,
        dead_letters=letters_route,
        webhooks=webhooks,
        health=health,
        clock=clock,
    )
    cases = operations_handler.UseCases(
        alarms=alarms,
        overview=overview,
        health=HealthRoute(health, dead_letters, clock, offers_unsubscribe=True),
        dead_letters=letters_route,
        devices=DevicesRoute(InMemoryDisabledDevices([device]), codec, InMemoryProducer(), clock),
        suppressions=SuppressionsRoute(InMemorySuppressionList([suppression])),
        webhooks=webhooks,
        webhook_dead_letters=webhook_dead_letters_route(webhooks, club_id),
    )
    keys_route, audit = KeysRoute(keys, clock), operations_handler.audits(audit_log, clock)
    monkeypatch.setattr(operations_handler, "bootstrap", lambda: cases)
    monkeypatch.setattr(operations_handler, "keys", lambda: keys_route)
    saved = InMemorySavedAudiences()
    saved.put(
        SavedAudience(club_id=club_id, name=AUDIENCE, definition={"all_users": True}, changed_at_ms=clock.now_ms())
    )
    audiences = AudiencesRoute(store=saved, clock=clock)
    monkeypatch.setattr(operations_handler, "audiences", lambda: audiences)
    categories = InMemoryCategories()
    monkeypatch.setattr(DynamoDbCategories, "from_environment", lambda: categories)
    known_categories.cache_clear()
    route = CategoriesRoute(store=categories, clock=clock)
    monkeypatch.setattr(operations_handler, "categories", lambda: route)
    monkeypatch.setattr(operations_handler, "audit", lambda: audit)
    audit_route = AuditRoute(audit_log, clock)
    monkeypatch.setattr(operations_handler, "audit_route", lambda: audit_route)
    use_slots(monkeypatch, clock)


def endpoint_id(club_id: int = 1) -> str:
    return f"ep_{club_id}_4fq2m7x9c1r8w3k5t6zb"


def webhooks_route(clock: Clock, club_id: int, codec: Codec) -> WebhooksRoute:
    """Return the routes of webhooks, with an endpoint of a club and a delivery that failed."""
    endpoints, event_ids = InMemoryWebhookEndpoints(), InMemoryEventIds()
    event_types, subscriptions = InMemoryEventTypes(), InMemorySubscriptions()
    key = EndpointKey(club_id, endpoint_id(club_id))
    event_types.put(EventType(name="match.finished", description="A match has finished"))
    subscription_id = SubscriptionKey.new_id(key, {})
    subscriptions.put(
        Subscription(id=subscription_id, endpoint=key, types=("match.*",), club_ids=(club_id,)), clock.now_ms()
    )
    endpoints.create(
        Endpoint(key=key, url="https://hooks.example.org/masscomm", created_at_ms=clock.now_ms(), key_id="1")
    )
    event = EventOccurred(
        event_id=EVENT_ID, type="send.completed", club_id=club_id, occurred_at=clock.now_ms(), data="{}"
    )
    event_ids.keep([event], clock.now_ms() // 1000)
    keys = SigningKeys(
        read=lambda: json.dumps({"current": "1", "1": "a key of at least thirty-two bytes"}), clock=clock
    )
    return WebhooksRoute(
        event_types=event_types,
        endpoints=endpoints,
        event_ids=event_ids,
        log=InMemoryMetricsStore(webhook_rows=attempts(club_id)),
        dead_letters=InMemoryWebhookDeadLetters(),
        waiting=WaitingMessages(store=InMemoryDelayStore(), codec=codec, clock=clock),
        publishing=PublishSubscriptions(
            store=subscriptions, endpoints=endpoints, codec=codec, producer=InMemoryProducer(), clock=clock
        ),
        box=SecretBox(InMemoryDataKeys()),
        keys=keys,
        clock=clock,
    )


def attempts(club_id: int, message_id: str = MESSAGE_ID) -> list[WebhookLogRow]:
    """Return the rows of the log of a delivery that failed."""
    first = WebhookLogRow(
        key=WebhookLogKey(datetime.fromtimestamp(EVENT_MS / 1000, UTC), message_id, 7),
        endpoint_id=endpoint_id(club_id),
        club_id=club_id,
        type="send.completed",
        status="retried",
        duration_ms=15_000,
        event_id=EVENT_ID,
        http_status=None,
        error="no answer within 15 s",
    )
    at = datetime.fromtimestamp(EVENT_MS / 1000 + 300, UTC)
    last = replace(
        first,
        key=WebhookLogKey(at, message_id, 8),
        status="given_up",
        duration_ms=31,
        http_status=503,
        error="",
    )
    return [first, last]


def undelivered_id(clock: Clock) -> str:
    """Return the id of the first dead letter of the webhook, which is two minutes old."""
    return f"{clock.now_ms() - 120_000:013d}-{EVENT_ID}"


def webhook_dead_letters_route(webhooks: WebhooksRoute, club_id: int) -> WebhookDeadLettersRoute:
    """Return the routes of the dead letters of webhooks, with two of the endpoint."""
    letters = InMemoryWebhookDeadLetters()
    event = EventOccurred(
        event_id="match-4711-finished",
        type="match.finished",
        club_id=club_id,
        occurred_at=EVENT_MS,
        data='{"goals":[2]}',
    )
    first = WebhookDeadLetter(
        endpoint=EndpointKey(club_id, endpoint_id(club_id)),
        message_id=EVENT_ID,
        event=event,
        produced_at_ms=EVENT_MS,
        at_ms=webhooks.clock.now_ms() - 120_000,
        reason="all attempts failed",
        attempts=8,
        status=503,
    )
    second = replace(first, at_ms=first.at_ms + 1, event=replace(event, event_id="match-4712-finished"))
    letters.put([first, second])
    return WebhookDeadLettersRoute(
        endpoints=webhooks.endpoints, dead_letters=letters, waiting=webhooks.waiting, clock=webhooks.clock
    )


def registry() -> InMemorySchemaRegistry:
    found = InMemorySchemaRegistry()
    found.register(KNOWN_SUBJECT, own_schema("NotificationOutcome"))
    found.register(f"{topics.DEVICE_STATUS}-value", own_schema("DeviceStatusChanged"))
    found.register(f"{topics.SEND_API}-value", own_schema("SendRequested"))
    found.register(f"{topics.SUBSCRIPTION}-value", own_schema("SubscriptionChanged"))
    found.register(f"{topics.WEBHOOK_SLOW}-value", own_schema("WebhookRequested"))
    return found


def letter(codec: Codec, *, club_id: int = 1, offset: int = 17, at_ms: int = NOW, **properties: Any) -> DeadLetter:
    """Return the dead letter of a send of one club."""
    record = replace(send([42]), club_id=club_id)
    moment = datetime.fromtimestamp(at_ms / 1000, UTC).isoformat()
    fields: dict[str, Any] = {
        "position": f"0@{offset}",
        "dead_at": moment,
        "topic": topics.SEND_API,
        "partition": "2",
        "offset": "4711",
        "timestamp": moment,
        "reason": "invalid",
        "error": "unknown category",
        "function": "preference_checker",
        "replayed": "",
        "key": b"k",
        "value": codec.encode(topics.SEND_API, "SendRequested", record.to_avro()),
        "headers": (("masscomm.reason", b"invalid"),),
    }
    return DeadLetter(**fields | properties)


def key(
    *, key_id: str = KEY_ID, clubs: str = "1", scopes: str = "admin", created_at: int = 0, expires_at: int | None = None
) -> ApiKey:
    """Return a key whose id is `key_id`, of 16 characters."""
    digest = key_id + "0" * 48
    return ApiKey(digest=digest, name="shop", clubs=clubs, scopes=scopes, created_at=created_at, expires_at=expires_at)
