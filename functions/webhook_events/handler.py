"""The webhook_events function: it records the events of sends whose state changed, every minute."""

from functools import cache
from typing import TYPE_CHECKING, Any

from masscomm import environment
from masscomm.clock import SystemClock
from masscomm.lambda_context import LambdaContext
from masscomm.observability import logs
from masscomm.observability.invocation import observed

if TYPE_CHECKING:
    from functions.webhook_events.find_events import FindEvents

logger = logs.logger("webhook_events")


@cache
def bootstrap() -> "FindEvents":
    from functions.webhook_events.find_events import FindEvents
    from functions.webhook_events.send_counts import PostgresChangedCounts
    from masscomm.aws.authentication import database_url
    from masscomm.stores.metrics_database import connection_pool
    from masscomm.stores.sends.dynamodb import DynamoDbSends
    from masscomm.stores.webhook_deliveries.dynamodb import DynamoDbWebhookDeliveries
    from masscomm.stores.webhook_endpoints.dynamodb import DynamoDbWebhookEndpoints

    counts = connection_pool(database_url(environment.required("METRICS_DATABASE_URL")), "webhook_events")
    return FindEvents(
        counts=PostgresChangedCounts(counts),
        sends=DynamoDbSends.from_environment(),
        endpoints=DynamoDbWebhookEndpoints.from_environment(),
        deliveries=DynamoDbWebhookDeliveries.from_environment(),
        clock=SystemClock(),
    )


@observed(logger, ahead=("psycopg", "psycopg_pool", "urllib3"))
def handler(_event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Process a scheduled event of EventBridge."""
    return bootstrap().sweep(lambda: context.get_remaining_time_in_millis() / 1000)
