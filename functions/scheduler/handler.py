"""scheduler: each minute, what is due goes on."""

from dataclasses import asdict
from functools import cache
from typing import Any

from aws_lambda_powertools import Logger

from functions.scheduler.release_due import ReleaseDue
from masscomm import settings
from masscomm.batch import LambdaContext
from masscomm.clock import SystemClock
from masscomm.producer import KafkaProducer
from masscomm.waiting_dynamodb import DynamoDbWaitingStore

logger = Logger()


@cache
def bootstrap() -> ReleaseDue:
    """The adapters, built at the first invocation and kept."""
    return ReleaseDue(
        store=DynamoDbWaitingStore(),
        producer=KafkaProducer(settings.required("KAFKA_BOOTSTRAP_SERVERS")),
        clock=SystemClock(),
        logger=logger,
    )


def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:  # noqa: ARG001
    """Entry point: EventBridge's scheduled event to what the sweep came to."""
    return asdict(bootstrap().sweep(lambda: context.get_remaining_time_in_millis() / 1000))
