"""The events_api function: it accepts events over HTTP, and serves event types, sources and subscriptions. A schedule
publishes the subscriptions that a crash left out.
"""

import os
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from typing import Any

from functions.events_api.routes.event_types import EventTypesRoute
from functions.events_api.routes.events import EventsRoute
from functions.events_api.routes.sources import SourcesRoute
from functions.events_api.routes.subscriptions import SubscriptionsRoute
from masscomm import environment
from masscomm.aws.sealed_secrets import SecretBox
from masscomm.chain.publish_subscriptions import PublishSubscriptions
from masscomm.clock import Clock, SystemClock
from masscomm.http import rest
from masscomm.http.rest import JSON, Response, uncached
from masscomm.kafka.avro import Codec
from masscomm.kafka.producer import Producer
from masscomm.lambda_context import LambdaContext
from masscomm.observability import logs, traces
from masscomm.observability.invocation import ON_KAFKA, observed
from masscomm.operations.bootstrap import audit_log, rest_api
from masscomm.stores.audit_log.port import Audit, AuditLog, PrincipalAudit
from masscomm.stores.categories.known import known_categories
from masscomm.stores.event_ids.port import EventIds
from masscomm.stores.event_types.checks import KnownTypes
from masscomm.stores.event_types.port import EventTypes
from masscomm.stores.subscriptions.port import Subscriptions
from masscomm.stores.webhook_endpoints.port import WebhookEndpoints
from masscomm.stores.webhook_sources.port import WebhookSources

logger = logs.logger("events_api")
api = rest_api(logger, retry_after_s=5, offered=JSON)


@dataclass(frozen=True, kw_only=True)
class UseCases:
    events: EventsRoute
    event_types: EventTypesRoute
    subscriptions: SubscriptionsRoute
    sources: SourcesRoute
    publishing: PublishSubscriptions
    audit_log: AuditLog
    clock: Clock

    def audit(self, principal: str) -> Audit:
        return PrincipalAudit(audit_log=self.audit_log, clock=self.clock, logger=logger, principal=principal)


@cache
def bootstrap() -> UseCases:
    from masscomm.aws.kms import KmsDataKeys
    from masscomm.kafka.avro import HttpSchemaRegistry
    from masscomm.kafka.producer import KafkaProducer
    from masscomm.stores.event_ids.dynamodb import DynamoDbEventIds
    from masscomm.stores.event_types.dynamodb import DynamoDbEventTypes
    from masscomm.stores.subscriptions.dynamodb import DynamoDbSubscriptions
    from masscomm.stores.webhook_endpoints.dynamodb import DynamoDbWebhookEndpoints
    from masscomm.stores.webhook_sources.dynamodb import DynamoDbWebhookSources

    traces.check_config()
    return use_cases(
        types=DynamoDbEventTypes.from_environment(),
        event_ids=DynamoDbEventIds.from_environment(),
        subscriptions=DynamoDbSubscriptions.from_environment(),
        endpoints=DynamoDbWebhookEndpoints.from_environment(),
        sources=DynamoDbWebhookSources.from_environment(),
        box=SecretBox(KmsDataKeys(environment.required("WEBHOOK_KMS_KEY"))),
        # Without the door, the API has no routes for sources.
        door_url=os.environ.get("DOOR_URL", ""),
        codec=Codec(HttpSchemaRegistry.from_environment()),
        producer=KafkaProducer.from_environment(),
        audit_log=audit_log(),
        clock=SystemClock(),
    )


def use_cases(
    *,
    types: EventTypes,
    event_ids: EventIds,
    subscriptions: Subscriptions,
    endpoints: WebhookEndpoints,
    sources: WebhookSources,
    box: SecretBox,
    door_url: str,
    codec: Codec,
    producer: Producer,
    audit_log: AuditLog,
    clock: Clock,
) -> UseCases:
    """Return the use cases over these adapters."""
    publishing = PublishSubscriptions(
        store=subscriptions, endpoints=endpoints, codec=codec, producer=producer, clock=clock
    )
    return UseCases(
        events=EventsRoute(
            types=KnownTypes(store=types, clock=clock),
            event_ids=event_ids,
            codec=codec,
            producer=producer,
            clock=clock,
        ),
        event_types=EventTypesRoute(store=types),
        subscriptions=SubscriptionsRoute(store=subscriptions, endpoints=endpoints, publishing=publishing, clock=clock),
        sources=SourcesRoute(store=sources, box=box, clock=clock, door_url=door_url),
        publishing=publishing,
        audit_log=audit_log,
        clock=clock,
    )


@api.post("/v1/events")
def post_events(asked: rest.Request) -> Response:
    """Report up to 100 events: 202 once each is on its topic."""
    return uncached(
        bootstrap().events.answer(asked.text(), asked.header("content-type"), asked.clubs), HTTPStatus.ACCEPTED
    )


@api.get("/v1/event-types")
def get_event_types(asked: rest.Request) -> Response:
    """The types of events, with their schemas."""
    return uncached(bootstrap().event_types.every(asked.parameters))


@api.get("/v1/event-types/{event_type}")
def get_event_type(asked: rest.Request, event_type: str) -> Response:
    """A type of events."""
    return uncached(bootstrap().event_types.show(event_type, asked.parameters))


@api.put("/v1/event-types/{event_type}")
def put_event_type(asked: rest.Request, event_type: str) -> Response:
    """Store a type of events, in the place of an earlier one with its name."""
    cases = bootstrap()
    return uncached(cases.event_types.put(event_type, asked.text(), asked.clubs, cases.audit(asked.principal)))


@api.delete("/v1/event-types/{event_type}")
def delete_event_type(asked: rest.Request, event_type: str) -> Response:
    """Delete a type of events. Further events of the type are refused."""
    cases = bootstrap()
    return uncached(cases.event_types.delete(event_type, asked.clubs, cases.audit(asked.principal)))


@api.get("/v1/sources")
def get_sources(asked: rest.Request) -> Response:
    """The sources of a club's incoming webhooks."""
    return uncached(bootstrap().sources.of_club(asked.parameters, asked.clubs))


@api.post("/v1/sources")
def post_source(asked: rest.Request) -> Response:
    """Create a source of incoming webhooks."""
    cases = bootstrap()
    body = cases.sources.create(asked.text(), asked.clubs, cases.audit(asked.principal))
    return uncached(body, HTTPStatus.CREATED)


@api.get("/v1/sources/{source_id}")
def get_source(asked: rest.Request, source_id: str) -> Response:
    """A source of incoming webhooks, and those that became no event."""
    return uncached(bootstrap().sources.show(source_id, asked.parameters, asked.clubs))


@api.put("/v1/sources/{source_id}")
def put_source(asked: rest.Request, source_id: str) -> Response:
    """Change a source of incoming webhooks."""
    cases = bootstrap()
    return uncached(cases.sources.put(source_id, asked.text(), asked.clubs, cases.audit(asked.principal)))


@api.delete("/v1/sources/{source_id}")
def delete_source(asked: rest.Request, source_id: str) -> Response:
    """Delete a source of incoming webhooks."""
    cases = bootstrap()
    return uncached(cases.sources.delete(source_id, asked.clubs, cases.audit(asked.principal)))


@api.get("/v1/subscriptions")
def get_subscriptions(asked: rest.Request) -> Response:
    """The subscriptions of an endpoint to events, or the rules that make notifications of events."""
    return uncached(bootstrap().subscriptions.of_endpoint(asked.parameters, asked.clubs))


@api.post("/v1/subscriptions")
def post_subscription(asked: rest.Request) -> Response:
    """Subscribe an endpoint to events that occur from now on, or make notifications of them."""
    cases = bootstrap()
    known_categories().read()
    body = cases.subscriptions.create(asked, cases.audit(asked.principal))
    return uncached(body, HTTPStatus.CREATED)


@api.post("/v1/subscriptions/matches")
def post_matches(asked: rest.Request) -> Response:
    """The subscriptions that would match an event of a club. Nothing is sent."""
    cases = bootstrap()
    event = cases.events.checked(asked.text(), asked.clubs)
    return uncached(cases.subscriptions.matching(event, asked.clubs))


@api.get("/v1/subscriptions/{subscription_id}")
def get_subscription(asked: rest.Request, subscription_id: str) -> Response:
    """A subscription to events."""
    return uncached(bootstrap().subscriptions.show(subscription_id, asked.parameters, asked.clubs))


@api.delete("/v1/subscriptions/{subscription_id}")
def delete_subscription(asked: rest.Request, subscription_id: str) -> Response:
    """Delete a subscription."""
    cases = bootstrap()
    return uncached(cases.subscriptions.delete(subscription_id, asked.clubs, cases.audit(asked.principal)))


@observed(logger, ahead=(*ON_KAFKA, "jsonschema_rs", "masscomm.stores.request_slots.dynamodb"))
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Process a REST proxy event of API Gateway and return its response. A scheduled event publishes changes."""
    if "httpMethod" in event:
        return api.answer(event, context)
    publishing = bootstrap().publishing
    return {"published": publishing.publish_missing(lambda: context.get_remaining_time_in_millis() / 1000)}
