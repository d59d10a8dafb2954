"""The operations_handler function: it serves the operations of an installation over HTTP, such as dead letters,
suppressions, API keys and webhook endpoints.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from http import HTTPStatus
from typing import Any

from functions.operations_handler.routes.alarms import AlarmsRoute
from functions.operations_handler.routes.audiences import AudiencesRoute
from functions.operations_handler.routes.audit import AuditRoute
from functions.operations_handler.routes.categories import CategoriesRoute
from functions.operations_handler.routes.dead_letters import DeadLettersRoute
from functions.operations_handler.routes.devices import DevicesRoute
from functions.operations_handler.routes.health import HealthRoute
from functions.operations_handler.routes.keys import Caller, KeysRoute, Made
from functions.operations_handler.routes.overview import OverviewRoute
from functions.operations_handler.routes.suppressions import SuppressionsRoute
from functions.operations_handler.routes.webhook_dead_letters import WebhookDeadLettersRoute
from functions.operations_handler.routes.webhooks import WebhooksRoute
from masscomm import environment
from masscomm.chain.waiting_messages import WaitingMessages
from masscomm.channels.unsubscribe_links import is_offered
from masscomm.clock import Clock, SystemClock
from masscomm.domain.time_limits import COUNTS_WAIT_S
from masscomm.http import idempotency, rest
from masscomm.http.conditions import Conditions, tagged
from masscomm.http.rest import JSON, Response, uncached
from masscomm.kafka.avro import Codec
from masscomm.lambda_context import LambdaContext
from masscomm.observability import logs
from masscomm.observability.invocation import ON_KAFKA, observed
from masscomm.operations.bootstrap import audit_log, rest_api, slot_of
from masscomm.operations.send_lists import SendLists
from masscomm.stores.audit_log.port import Audit, AuditLog, PrincipalAudit
from masscomm.stores.categories.known import known_categories

logger = logs.logger("operations_handler")


api = rest_api(logger, retry_after_s=5, offered=JSON)


@dataclass(frozen=True, kw_only=True)
class UseCases:
    alarms: AlarmsRoute
    health: HealthRoute
    overview: OverviewRoute
    dead_letters: DeadLettersRoute
    devices: DevicesRoute
    suppressions: SuppressionsRoute
    webhooks: WebhooksRoute
    webhook_dead_letters: WebhookDeadLettersRoute


@cache
def audit() -> Callable[[str], Audit]:
    """Return a function that returns the audit of a principal."""
    return audits(audit_log(), SystemClock())


@cache
def audit_route() -> AuditRoute:
    return AuditRoute(audit_log(), SystemClock())


@cache
def keys() -> KeysRoute:
    """Return the routes of API keys. They need no server but DynamoDB: a key can be revoked while others are down."""
    from masscomm.stores.api_keys.dynamodb import ApiKeys

    return KeysRoute(ApiKeys.from_environment(), SystemClock())


@cache
def audiences() -> AudiencesRoute:
    """Return the routes of saved audiences. They need no server but DynamoDB."""
    from masscomm.stores.saved_audiences.dynamodb import DynamoDbSavedAudiences

    return AudiencesRoute(store=DynamoDbSavedAudiences.from_environment(), clock=SystemClock())


@cache
def categories() -> CategoriesRoute:
    """Return the routes of categories. They need no server but DynamoDB."""
    return CategoriesRoute(store=known_categories().store, clock=SystemClock())


@cache
def bootstrap() -> UseCases:
    from masscomm.aws.kms import KmsDataKeys
    from masscomm.aws.sealed_secrets import SecretBox
    from masscomm.chain.publish_subscriptions import PublishSubscriptions
    from masscomm.channels.public_urls import loopback_permitted
    from masscomm.channels.signing_keys import SigningKeys
    from masscomm.directory.bulk_writes import connect_from_environment
    from masscomm.directory.disabled_devices import OpenSearchDisabledDevices
    from masscomm.directory.suppression_list import OpenSearchSuppressionList
    from masscomm.kafka.avro import HttpSchemaRegistry
    from masscomm.kafka.producer import KafkaProducer
    from masscomm.operations.alarms import alarms_from_environment
    from masscomm.operations.dead_letter_store import KafkaDeadLetters
    from masscomm.operations.health import KafkaHealth
    from masscomm.stores.delayed_records.dynamodb import DynamoDbDelayStore
    from masscomm.stores.event_ids.dynamodb import DynamoDbEventIds
    from masscomm.stores.event_types.dynamodb import DynamoDbEventTypes
    from masscomm.stores.metrics.postgres import PostgresMetricsStore
    from masscomm.stores.sends.dynamodb import DynamoDbSends
    from masscomm.stores.subscriptions.dynamodb import DynamoDbSubscriptions
    from masscomm.stores.webhook_dead_letters.dynamodb import DynamoDbWebhookDeadLetters
    from masscomm.stores.webhook_endpoints.dynamodb import DynamoDbWebhookEndpoints

    clock = SystemClock()
    directory = connect_from_environment()
    dead_letters, health = KafkaDeadLetters.from_environment(), KafkaHealth.from_environment()
    codec = Codec(HttpSchemaRegistry.from_environment())
    alarms, letters = AlarmsRoute(alarms_from_environment(), clock), DeadLettersRoute(dead_letters, codec)
    # The overview is answered without its counts within a second.
    store = PostgresMetricsStore.from_environment("operations_handler", wait_s=COUNTS_WAIT_S)
    endpoints, producer = DynamoDbWebhookEndpoints.from_environment(), KafkaProducer.from_environment()
    waiting = WaitingMessages(store=DynamoDbDelayStore.from_environment(), codec=codec, clock=clock)
    given_up = DynamoDbWebhookDeadLetters.from_environment()
    webhooks = WebhooksRoute(
        endpoints=endpoints,
        event_ids=DynamoDbEventIds.from_environment(),
        event_types=DynamoDbEventTypes.from_environment(),
        log=store,
        dead_letters=given_up,
        waiting=waiting,
        publishing=PublishSubscriptions(
            store=DynamoDbSubscriptions.from_environment(),
            endpoints=endpoints,
            codec=codec,
            producer=producer,
            clock=clock,
        ),
        box=SecretBox(KmsDataKeys(environment.required("WEBHOOK_KMS_KEY"))),
        keys=SigningKeys.from_environment("WEBHOOK_KEYS", clock),
        clock=clock,
        loopback=loopback_permitted(os.environ),
    )
    return UseCases(
        alarms=alarms,
        health=HealthRoute(health, dead_letters, clock, is_offered()),
        overview=OverviewRoute(
            lists=SendLists(store, DynamoDbSends.from_environment()),
            alarms=alarms,
            dead_letters=letters,
            webhooks=webhooks,
            health=health,
            clock=clock,
        ),
        dead_letters=letters,
        devices=DevicesRoute(OpenSearchDisabledDevices(directory), codec, producer, clock),
        suppressions=SuppressionsRoute(OpenSearchSuppressionList(directory)),
        webhooks=webhooks,
        webhook_dead_letters=WebhookDeadLettersRoute(
            endpoints=endpoints,
            dead_letters=given_up,
            waiting=waiting,
            clock=clock,
        ),
    )


def audits(audit_log: AuditLog, clock: Clock) -> Callable[[str], Audit]:
    """Return a function that returns the audit of a principal."""
    return lambda principal: PrincipalAudit(audit_log=audit_log, clock=clock, logger=logger, principal=principal)


@api.get("/v1/audiences")
def get_audiences(asked: rest.Request) -> Response:
    """The saved audiences of a tenant."""
    return uncached(audiences().of_club(asked.parameters, asked.clubs))


@api.get("/v1/audiences/{name}")
def get_audience(asked: rest.Request, name: str) -> Response:
    """A saved audience with its conditions."""
    return tagged(audiences().show(name, asked.parameters, asked.clubs))


@api.put("/v1/audiences/{name}")
def put_audience(asked: rest.Request, name: str) -> Response:
    """Save an audience, in the place of an earlier one with its name."""
    known_categories().read()
    conditions = Conditions.of(asked)
    return tagged(audiences().put(name, asked.parameters, asked.text(), asked.clubs, _audit(asked), conditions))


@api.delete("/v1/audiences/{name}")
def delete_audience(asked: rest.Request, name: str) -> Response:
    """Delete a saved audience. Sends have copies of it."""
    conditions = Conditions.of(asked)
    return uncached(audiences().delete(name, asked.parameters, asked.clubs, _audit(asked), conditions))


@api.get("/v1/audit")
def get_audit(asked: rest.Request) -> Response:
    """The audit log of a tenant: which principal did what."""
    return uncached(audit_route().answer(asked.parameters, asked.clubs))


@api.get("/v1/categories")
def get_categories(asked: rest.Request) -> Response:
    """The categories of sends, with their channels."""
    return uncached(categories().every(asked.parameters, asked.clubs))


@api.get("/v1/categories/{category}")
def get_category(asked: rest.Request, category: str) -> Response:
    """A category of sends with its versions."""
    return tagged(categories().show(category, asked.parameters, asked.clubs))


@api.put("/v1/categories/{category}")
def put_category(asked: rest.Request, category: str) -> Response:
    """Put a version of a category in place of the present one, a minute later."""
    conditions = Conditions.of(asked)
    return tagged(categories().put(category, asked.text(), asked.clubs, _audit(asked), conditions))


@api.get("/v1/health")
def get_health(asked: rest.Request) -> Response:
    """The lag of each function, the staleness of the directory, and the number of open dead letters."""
    known_categories().refresh()
    return uncached(bootstrap().health.answer(asked.parameters))


@api.get("/v1/overview")
def get_overview(asked: rest.Request) -> Response:
    """Sends in progress, the counts of today, and open problems."""
    # It decodes dead letters as their list does.
    decoding = partial(slot_of, ("GET", "/v1/dead-letters"), asked)
    return uncached(bootstrap().overview.answer(asked.parameters, asked.clubs, asked.scopes, decoding))


@api.get("/v1/alarms")
def get_alarms(asked: rest.Request) -> Response:
    """The alarms of the installation, those that ring first."""
    return uncached(bootstrap().alarms.answer(asked.parameters))


@api.get("/v1/dead-letters")
def get_dead_letters(asked: rest.Request) -> Response:
    """The records that could not be processed, the latest first."""
    route = bootstrap().dead_letters
    return uncached(route.answer(asked.parameters, asked.clubs, asked.scopes, asked.remaining_s()))


@api.get("/v1/dead-letters/{position}")
def get_dead_letter(asked: rest.Request, position: str) -> Response:
    """A record that could not be processed, with its payload; without users:read, the names and types of its fields."""
    route = bootstrap().dead_letters
    return uncached(route.show(position, asked.parameters, asked.clubs, asked.scopes, _audit(asked)))


@api.post("/v1/dead-letters/{position}/replay")
def post_replay(asked: rest.Request, position: str) -> Response:
    """Produce a dead letter to its source topic again, once."""
    route, key = bootstrap().dead_letters, idempotency.key_of(asked)
    body, replayed = route.replay(position, asked.text(), asked.clubs, asked.principal, _audit(asked), key)
    return _executed(body, HTTPStatus.OK, replayed=replayed)


@api.post("/v1/dead-letters/{position}/discard")
def post_discard(asked: rest.Request, position: str) -> Response:
    """Close a dead letter without a replay, with a reason. Its recipients stay failed."""
    route, key = bootstrap().dead_letters, idempotency.key_of(asked)
    body, replayed = route.discard(position, asked.text(), asked.clubs, asked.principal, _audit(asked), key)
    return _executed(body, HTTPStatus.OK, replayed=replayed)


@api.get("/v1/devices")
def get_devices(asked: rest.Request) -> Response:
    """The devices to which nothing is pushed, those disabled last first."""
    return uncached(bootstrap().devices.answer(asked.parameters, asked.clubs))


@api.get("/v1/devices/counts")
def get_device_counts(asked: rest.Request) -> Response:
    """The number of disabled devices by tenant and reason."""
    return uncached(bootstrap().devices.counts(asked.parameters, asked.clubs))


@api.post("/v1/devices/{device_id}/enable")
def post_device_enable(asked: rest.Request, device_id: str) -> Response:
    """Let the device registrar register the token of a disabled device again."""
    body = bootstrap().devices.enable(device_id, asked.text(), asked.clubs, _audit(asked))
    return uncached(body, HTTPStatus.ACCEPTED)


@api.get("/v1/suppressions")
def get_suppressions(asked: rest.Request) -> Response:
    """The addresses to which no e-mail is sent, the latest first."""
    return uncached(bootstrap().suppressions.answer(asked.parameters, asked.clubs))


@api.delete("/v1/suppressions/{suppression}")
def delete_suppression(asked: rest.Request, suppression: str) -> Response:
    """Remove a suppression, so that the address gets e-mail again."""
    return uncached(bootstrap().suppressions.remove(suppression, asked.clubs, _audit(asked)))


@api.get("/v1/keys")
def get_keys(asked: rest.Request) -> Response:
    """The API keys of the caller's tenants, the latest first."""
    return uncached(keys().answer(asked.parameters, Caller.of(asked)))


@api.post("/v1/keys")
def post_key(asked: rest.Request) -> Response:
    """Create an API key. The response has its text, which is shown only once."""
    key = idempotency.key_of(asked)
    return _made(keys().create(asked.text(), Caller.of(asked), _audit(asked), key))


@api.post("/v1/keys/{key_id}/rotate")
def post_key_rotate(asked: rest.Request, key_id: str) -> Response:
    """Create an API key in place of another one, which ends after some hours."""
    key = idempotency.key_of(asked)
    return _made(keys().rotate(key_id, asked.text(), Caller.of(asked), _audit(asked), key))


@api.post("/v1/keys/{key_id}/revoke")
def post_key_revoke(asked: rest.Request, key_id: str) -> Response:
    """End an API key."""
    return uncached(keys().revoke(key_id, asked.text(), Caller.of(asked), _audit(asked)))


@api.get("/v1/webhooks")
def get_webhooks(asked: rest.Request) -> Response:
    """The webhook endpoints of the caller's tenants."""
    return uncached(bootstrap().webhooks.answer(asked.parameters, asked.clubs))


@api.post("/v1/webhooks")
def post_webhook(asked: rest.Request) -> Response:
    """Create a webhook endpoint. The response has its secret, which is shown only once."""
    key = idempotency.key_of(asked)
    body, replayed = bootstrap().webhooks.create(asked.text(), asked.clubs, asked.principal, _audit(asked), key)
    return _executed(body, HTTPStatus.CREATED, replayed=replayed)


@api.get("/v1/webhooks/{endpoint_id}")
def get_webhook(asked: rest.Request, endpoint_id: str) -> Response:
    """A webhook endpoint."""
    return uncached(bootstrap().webhooks.show(endpoint_id, asked.clubs))


@api.patch("/v1/webhooks/{endpoint_id}")
def patch_webhook(asked: rest.Request, endpoint_id: str) -> Response:
    """Change, disable or enable a webhook endpoint."""
    return uncached(bootstrap().webhooks.change(endpoint_id, asked.text(), asked.clubs, _audit(asked)))


@api.delete("/v1/webhooks/{endpoint_id}")
def delete_webhook(asked: rest.Request, endpoint_id: str) -> Response:
    """Delete a webhook endpoint."""
    return uncached(bootstrap().webhooks.delete(endpoint_id, asked.clubs, _audit(asked)))


@api.post("/v1/webhooks/{endpoint_id}/rotate")
def post_webhook_rotate(asked: rest.Request, endpoint_id: str) -> Response:
    """Give a webhook endpoint a new secret. The previous one also signs for 24 hours."""
    key = idempotency.key_of(asked)
    route = bootstrap().webhooks
    body, replayed = route.rotate(endpoint_id, asked.text(), asked.clubs, asked.principal, _audit(asked), key)
    return _executed(body, HTTPStatus.CREATED, replayed=replayed)


@api.post("/v1/webhooks/{endpoint_id}/test")
def post_webhook_test(asked: rest.Request, endpoint_id: str) -> Response:
    """Send a webhook endpoint the event webhook.test."""
    key = idempotency.key_of(asked)
    body, replayed = bootstrap().webhooks.test(endpoint_id, asked.text(), asked.clubs, _audit(asked), key)
    return _executed(body, HTTPStatus.ACCEPTED, replayed=replayed)


@api.post("/v1/webhooks/{endpoint_id}/test/{event_type}")
def post_webhook_test_of_type(asked: rest.Request, endpoint_id: str, event_type: str) -> Response:
    """Send a webhook endpoint the example of an event type to which it subscribes."""
    key, route = idempotency.key_of(asked), bootstrap().webhooks
    body, replayed = route.test(endpoint_id, asked.text(), asked.clubs, _audit(asked), key, event_type=event_type)
    return _executed(body, HTTPStatus.ACCEPTED, replayed=replayed)


@api.get("/v1/webhooks/{endpoint_id}/deliveries")
def get_webhook_deliveries(asked: rest.Request, endpoint_id: str) -> Response:
    """The deliveries of a webhook endpoint in the last 30 days, the latest first."""
    return uncached(bootstrap().webhooks.list_deliveries(endpoint_id, asked.parameters, asked.clubs))


@api.post("/v1/webhooks/{endpoint_id}/deliveries/{delivery_id}/resend")
def post_webhook_resend(asked: rest.Request, endpoint_id: str, delivery_id: str) -> Response:
    """Attempt the delivery of a webhook again."""
    key, route = idempotency.key_of(asked), bootstrap().webhooks
    body, replayed = route.resend(endpoint_id, delivery_id, asked.text(), asked.clubs, _audit(asked), key)
    return _executed(body, HTTPStatus.ACCEPTED, replayed=replayed)


@api.get("/v1/webhooks/{endpoint_id}/dead-letters")
def get_webhook_dead_letters(asked: rest.Request, endpoint_id: str) -> Response:
    """The dead letters of a webhook endpoint in the last 14 days, the oldest first."""
    return uncached(bootstrap().webhook_dead_letters.answer(endpoint_id, asked.parameters, asked.clubs))


@api.post("/v1/webhooks/{endpoint_id}/dead-letters/ack")
def post_webhook_dead_letters_ack(asked: rest.Request, endpoint_id: str) -> Response:
    """Delete the dead letters of a webhook endpoint up to one of them."""
    route = bootstrap().webhook_dead_letters
    return uncached(route.acknowledge(endpoint_id, asked.text(), asked.clubs, _audit(asked)))


@api.post("/v1/webhooks/{endpoint_id}/dead-letters/replay")
def post_webhook_dead_letters_replay(asked: rest.Request, endpoint_id: str) -> Response:
    """Send dead letters of a webhook endpoint again."""
    route = bootstrap().webhook_dead_letters
    return uncached(route.replay(endpoint_id, asked.text(), asked.clubs, _audit(asked)), HTTPStatus.ACCEPTED)


def _made(made: Made) -> Response:
    return _executed(made.body, HTTPStatus.CREATED, replayed=made.replayed)


def _executed(body: Mapping[str, Any], status: HTTPStatus, *, replayed: bool) -> Response:
    """Return the response of a route that takes an Idempotency-Key."""
    response = uncached(body, status)
    return replace(response, headers={**response.headers, idempotency.REPLAYED: "true"}) if replayed else response


def _audit(asked: rest.Request) -> Audit:
    return audit()(asked.principal)


@observed(logger, ahead=(*ON_KAFKA, "masscomm.stores.audit_log.dynamodb", "masscomm.directory.suppression_list"))
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Process a REST proxy event of API Gateway and return its response."""
    return api.answer(event, context)
