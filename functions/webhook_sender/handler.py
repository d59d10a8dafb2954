"""The functions webhook_sender, webhook_batch_sender and webhook_retry_sender: they post messages with events to the
endpoints that subscribe to them, each from a topic of its own.

They are outside the VPC: they call servers of tenants, and reach none of the installation's.
"""

import os
from functools import cache
from typing import TYPE_CHECKING, Any

from masscomm import environment
from masscomm.chain.batch import BatchDriver
from masscomm.chain.bootstrap import answer, offline_batch_driver
from masscomm.clock import SystemClock
from masscomm.domain.records import WebhookRequested
from masscomm.lambda_context import LambdaContext
from masscomm.observability import logs
from masscomm.observability.invocation import observed

if TYPE_CHECKING:
    from functions.webhook_sender.send_messages import SendMessages

logger = logs.logger("webhook_sender")


@cache
def bootstrap() -> "tuple[BatchDriver, SendMessages]":
    from functions.webhook_sender.credentials import EndpointCredentials
    from functions.webhook_sender.gateway import WebhookGateway
    from functions.webhook_sender.ordering import Orders
    from functions.webhook_sender.send_messages import UNRECORDED, KnownEndpoints, SendMessages
    from functions.webhook_sender.storing import Storing
    from masscomm.aws.kms import KmsDataKeys
    from masscomm.chain.disabled_endpoints import AnnounceDisabled
    from masscomm.channels.customer_aws import CustomerAws
    from masscomm.channels.kept_alive_http import KeptAliveHttp
    from masscomm.channels.public_urls import loopback_permitted
    from masscomm.channels.signing_keys import SigningKeys
    from masscomm.stores.audit_log.dynamodb import DynamoDbAuditLog
    from masscomm.stores.audit_log.port import PrincipalAudit
    from masscomm.stores.delayed_records.dynamodb import DynamoDbDelayStore
    from masscomm.stores.key_queues.dynamodb import DynamoDbKeyQueues
    from masscomm.stores.sent_messages.dynamodb import DynamoDbSentMessages
    from masscomm.stores.webhook_dead_letters.dynamodb import DynamoDbWebhookDeadLetters
    from masscomm.stores.webhook_endpoints.dynamodb import DynamoDbWebhookEndpoints
    from masscomm.stores.webhook_endpoints.results import EndpointResults
    from masscomm.stores.webhook_tokens.dynamodb import DynamoDbWebhookTokens

    is_local = loopback_permitted(os.environ)
    clock, endpoints = SystemClock(), DynamoDbWebhookEndpoints.from_environment()
    http = KeptAliveHttp(loopback=is_local)
    credentials = EndpointCredentials.of(
        keys=KmsDataKeys(environment.required("WEBHOOK_KMS_KEY")),
        http=http,
        tokens=DynamoDbWebhookTokens.from_environment(),
        clock=clock,
    )
    store = DynamoDbDelayStore.from_environment()
    audit = PrincipalAudit(
        audit_log=DynamoDbAuditLog.from_environment(), clock=clock, logger=logger, principal="webhook_sender"
    )
    return offline_batch_driver("webhook_sender", logger, WebhookRequested, store), SendMessages(
        endpoints=KnownEndpoints(store=endpoints, clock=clock),
        results=EndpointResults(endpoints=endpoints, audit=audit, announce=AnnounceDisabled(store=store, clock=clock)),
        storing=Storing.of(store, DynamoDbWebhookDeadLetters.from_environment(), clock),
        sent=DynamoDbSentMessages.from_environment(),
        orders=Orders(store=DynamoDbKeyQueues.from_environment(), clock=clock),
        gateway=WebhookGateway(
            # The emulated security token service checks no trust policy.
            aws=CustomerAws(checks_trust=not is_local),
            http=http,
            credentials=credentials,
            keys=SigningKeys.from_environment("WEBHOOK_KEYS", clock),
            clock=clock,
        ),
        clock=clock,
        unrecorded=environment.whole_number("WEBHOOK_UNRECORDED", UNRECORDED, lowest=1),
    )


@observed(logger, ahead=("functions.webhook_sender.send_messages", "masscomm.channels.kept_alive_http"))
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Process an aws:kafka event and return a partial batch response."""
    return answer(bootstrap, event, context, logger)
