"""The webhook_events function: it produces the events of sends whose state changed, every minute."""

from functools import cache
from typing import TYPE_CHECKING, Any

from masscomm import environment
from masscomm.clock import SystemClock
from masscomm.lambda_context import LambdaContext
from masscomm.observability import logs, traces
from masscomm.observability.invocation import ON_KAFKA, observed

if TYPE_CHECKING:
    from functions.webhook_events.find_events import FindEvents

logger = logs.logger("webhook_events")


@cache
def bootstrap() -> "FindEvents":
    from functions.webhook_events.find_events import FindEvents
    from functions.webhook_events.send_counts import PostgresChangedCounts
    from masscomm.aws.authentication import database_url
    from masscomm.chain.publish_subscriptions import PublishSubscriptions
    from masscomm.chain.subscription_topic import SubscriptionTopic
    from masscomm.kafka.avro import Codec, HttpSchemaRegistry
    from masscomm.kafka.producer import KafkaProducer
    from masscomm.stores.event_ids.dynamodb import DynamoDbEventIds
    from masscomm.stores.metrics_database import connection_pool
    from masscomm.stores.sends.dynamodb import DynamoDbSends
    from masscomm.stores.subscriptions.dynamodb import DynamoDbSubscriptions
    from masscomm.stores.webhook_endpoints.dynamodb import DynamoDbWebhookEndpoints

    traces.check_config()
    codec = Codec(HttpSchemaRegistry.from_environment())
    producer, clock = KafkaProducer.from_environment(), SystemClock()
    counts = connection_pool(database_url(environment.required("METRICS_DATABASE_URL")), "webhook_events")
    return FindEvents(
        counts=PostgresChangedCounts(counts),
        sends=DynamoDbSends.from_environment(),
        subscriptions=SubscriptionTopic.from_environment(codec),
        publishing=PublishSubscriptions(
            store=DynamoDbSubscriptions.from_environment(),
            endpoints=DynamoDbWebhookEndpoints.from_environment(),
            codec=codec,
            producer=producer,
            clock=clock,
        ),
        event_ids=DynamoDbEventIds.from_environment(),
        codec=codec,
        producer=producer,
        clock=clock,
    )


@observed(logger, ahead=(*ON_KAFKA, "psycopg", "psycopg_pool", "urllib3"))
def handler(_event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Process a scheduled event of EventBridge."""
    return bootstrap().sweep(lambda: context.get_remaining_time_in_millis() / 1000)
