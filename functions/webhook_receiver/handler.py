"""The webhook_receiver function: it turns the webhooks that the door has put into its queue into events."""

from functools import cache
from typing import TYPE_CHECKING, Any

from masscomm import environment
from masscomm.clock import SystemClock
from masscomm.errors import MasscommError
from masscomm.lambda_context import LambdaContext
from masscomm.observability import logs
from masscomm.observability.invocation import ON_KAFKA, observed

if TYPE_CHECKING:
    from functions.webhook_receiver.receive_webhooks import ReceiveWebhooks

logger = logs.logger("webhook_receiver")


@cache
def bootstrap() -> "ReceiveWebhooks":
    from functions.webhook_receiver.known_sources import KnownSources
    from functions.webhook_receiver.receive_webhooks import ReceiveWebhooks
    from masscomm.aws.kms import KmsDataKeys
    from masscomm.aws.sealed_secrets import SecretBox
    from masscomm.kafka.avro import Codec, HttpSchemaRegistry
    from masscomm.kafka.producer import KafkaProducer
    from masscomm.stores.event_ids.dynamodb import DynamoDbEventIds
    from masscomm.stores.event_types.checks import KnownTypes
    from masscomm.stores.event_types.dynamodb import DynamoDbEventTypes
    from masscomm.stores.webhook_sources.dynamodb import DynamoDbWebhookSources

    clock = SystemClock()
    store = DynamoDbWebhookSources.from_environment()
    box = SecretBox(KmsDataKeys(environment.required("WEBHOOK_KMS_KEY")))
    return ReceiveWebhooks(
        sources=KnownSources(store=store, box=box, clock=clock),
        store=store,
        types=KnownTypes(store=DynamoDbEventTypes.from_environment(), clock=clock),
        event_ids=DynamoDbEventIds.from_environment(),
        codec=Codec(HttpSchemaRegistry.from_environment()),
        producer=KafkaProducer.from_environment(),
        clock=clock,
        logger=logger,
    )


@observed(logger, ahead=(*ON_KAFKA, "functions.webhook_receiver.receive_webhooks"))
def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Process an event of SQS and return a partial batch response: the queue keeps the others."""
    messages = event["Records"]
    try:
        failed = bootstrap().handle(messages)
    except MasscommError as error:
        logger.warning("no webhook of the batch is processed", error=str(error))
        failed = [each["messageId"] for each in messages]
    return {"batchItemFailures": [{"itemIdentifier": id_} for id_ in failed]}
