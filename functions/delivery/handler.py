"""delivery: written messages in, provider calls, an outcome for every recipient out."""

import os
from functools import cache
from typing import Any
from uuid import uuid4

from functions.delivery.calls import Caller
from functions.delivery.deliver import SLICE_SIZE, Deliver
from functions.delivery.night import LOOK_AGAIN_AFTER_S
from functions.delivery.publishing import PATIENCE_S, Publisher
from functions.delivery.waiting import Later
from masscomm import logs, settings
from masscomm.back_off import BackOff
from masscomm.batch import BatchDriver
from masscomm.bootstrap import answer, batch_driver
from masscomm.channels.aws import SesEmail
from masscomm.channels.circuit import CircuitPush
from masscomm.clock import Clock, SystemClock
from masscomm.delivery_ledger_dynamodb import DynamoDbDeliveryLedger
from masscomm.invocation import ON_KAFKA, observed
from masscomm.lambda_context import LambdaContext
from masscomm.opensearch_directory import OpenSearchDirectory
from masscomm.pacing import Pacer
from masscomm.topics import Lane
from masscomm.waiting_dynamodb import DynamoDbWaitingStore

logger = logs.logger("delivery")


@cache
def bootstrap() -> tuple[BatchDriver, Deliver]:
    """The adapters, built at the first invocation and kept."""
    from masscomm.sns_push import SnsPush

    sender, clock = settings.required("SES_SENDER"), SystemClock()
    workers = int(settings.number("DELIVERY_WORKERS", 16))
    use_case = Deliver(
        directory=OpenSearchDirectory.from_environment(),
        ledger=DynamoDbDeliveryLedger(
            table=os.environ.get("DELIVERY_LEDGER_TABLE", "delivery_ledger"), owner=str(uuid4()), clock=clock
        ),
        publisher=Publisher(
            clock=clock,
            paces=_paces(clock),
            workers=workers,
            patience_s=settings.number("DELIVERY_PATIENCE_S", PATIENCE_S),
        ),
        caller=Caller(
            push=CircuitPush(SnsPush(connections=workers), clock=clock),
            email=SesEmail(
                sender=sender, connections=workers, configuration_set=os.environ.get("SES_CONFIGURATION_SET")
            ),
            clock=clock,
            sender=sender,
            unsubscribe_url=os.environ.get("UNSUBSCRIBE_URL"),
        ),
        later=Later(store=DynamoDbWaitingStore.from_environment(), back_off=BackOff.from_environment(), clock=clock),
        clock=clock,
        slice_size=int(settings.number("DELIVERY_SLICE_SIZE", SLICE_SIZE)),
        quiet_after_s=settings.number("QUIET_HOURS_AGAIN_AFTER_S", LOOK_AGAIN_AFTER_S),
    )
    return batch_driver("delivery", logger), use_case


def _paces(clock: Clock) -> dict[str, Pacer]:
    """By channel: this environment's share of the account's quota, of which the critical lane's is never taken away."""
    shares = {channel: settings.number(f"{channel.upper()}_RATE_PER_S", 0) or None for channel in ("push", "email")}
    critical = settings.lane() is Lane.CRITICAL
    return {
        channel: Pacer(clock, per_s=per_s, floor_per_s=per_s if critical and per_s else 1.0)
        for channel, per_s in shares.items()
    }


@observed(logger, ahead=(*ON_KAFKA, "masscomm.sns_push"))
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Entry point: an aws:kafka event to a partial batch response."""
    return answer(bootstrap, event, context, logger)
