"""The webhook_sender function: it posts messages with events to the endpoints that subscribe to them.

It is outside the VPC: it calls servers of tenants, and reaches none of the installation's.
"""

import os
from functools import cache
from typing import TYPE_CHECKING, Any

from masscomm.chain.batch import BatchDriver
from masscomm.chain.bootstrap import answer, offline_batch_driver
from masscomm.clock import SystemClock
from masscomm.domain.records import WebhookRequested
from masscomm.domain.time_limits import EVENT_ATTEMPT_S
from masscomm.lambda_context import LambdaContext
from masscomm.observability import logs
from masscomm.observability.invocation import observed

if TYPE_CHECKING:
    from functions.webhook_sender.send_messages import SendMessages

logger = logs.logger("webhook_sender")


@cache
def bootstrap() -> "tuple[BatchDriver, SendMessages]":
    from functions.webhook_sender.gateway import WebhookGateway
    from functions.webhook_sender.send_messages import KnownEndpoints, SendMessages
    from masscomm.channels.kept_alive_http import KeptAliveHttp
    from masscomm.channels.public_urls import loopback_permitted
    from masscomm.channels.signing_keys import SigningKeys
    from masscomm.stores.audit_log.dynamodb import DynamoDbAuditLog
    from masscomm.stores.audit_log.port import PrincipalAudit
    from masscomm.stores.webhook_deliveries.dynamodb import DynamoDbWebhookDeliveries
    from masscomm.stores.webhook_endpoints.dynamodb import DynamoDbWebhookEndpoints
    from masscomm.stores.webhook_endpoints.results import EndpointResults

    clock, endpoints = SystemClock(), DynamoDbWebhookEndpoints.from_environment()
    audit = PrincipalAudit(
        audit_log=DynamoDbAuditLog.from_environment(), clock=clock, logger=logger, principal="webhook_sender"
    )
    return offline_batch_driver("webhook_sender", logger, WebhookRequested), SendMessages(
        endpoints=KnownEndpoints(store=endpoints, clock=clock),
        results=EndpointResults(endpoints=endpoints, audit=audit),
        deliveries=DynamoDbWebhookDeliveries.from_environment(),
        gateway=WebhookGateway(
            http=KeptAliveHttp(timeout_s=EVENT_ATTEMPT_S, loopback=loopback_permitted(os.environ)),
            keys=SigningKeys.from_environment("WEBHOOK_KEYS", clock),
            clock=clock,
        ),
        clock=clock,
    )


@observed(logger, ahead=("functions.webhook_sender.send_messages", "masscomm.channels.kept_alive_http"))
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Process an aws:kafka event and return a partial batch response."""
    return answer(bootstrap, event, context, logger)
