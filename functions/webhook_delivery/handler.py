"""The webhook_delivery function: it delivers webhooks that are due, every minute."""

import os
from functools import cache
from typing import TYPE_CHECKING, Any

from masscomm.clock import SystemClock
from masscomm.domain.time_limits import WEBHOOK_ATTEMPT_S
from masscomm.lambda_context import LambdaContext
from masscomm.observability import logs
from masscomm.observability.invocation import observed

if TYPE_CHECKING:
    from functions.webhook_delivery.deliver_webhooks import DeliverWebhooks

logger = logs.logger("webhook_delivery")


@cache
def bootstrap() -> "DeliverWebhooks":
    from functions.webhook_delivery.deliver_webhooks import DeliverWebhooks
    from masscomm.channels.guarded_http import GuardedHttp
    from masscomm.channels.public_urls import loopback_permitted
    from masscomm.channels.signing_keys import SigningKeys
    from masscomm.stores.audit_log.dynamodb import DynamoDbAuditLog
    from masscomm.stores.audit_log.port import PrincipalAudit
    from masscomm.stores.webhook_deliveries.dynamodb import DynamoDbWebhookDeliveries
    from masscomm.stores.webhook_endpoints.dynamodb import DynamoDbWebhookEndpoints

    clock = SystemClock()
    return DeliverWebhooks(
        endpoints=DynamoDbWebhookEndpoints.from_environment(),
        deliveries=DynamoDbWebhookDeliveries.from_environment(),
        http=GuardedHttp(timeout_s=WEBHOOK_ATTEMPT_S, loopback=loopback_permitted(os.environ)),
        keys=SigningKeys.from_environment("WEBHOOK_KEYS", clock),
        clock=clock,
        audit=PrincipalAudit(
            audit_log=DynamoDbAuditLog.from_environment(), clock=clock, logger=logger, principal="webhook_delivery"
        ),
    )


@observed(logger)
def handler(_event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Process a scheduled event of EventBridge."""
    return bootstrap().sweep(lambda: context.get_remaining_time_in_millis() / 1000)
