"""delivery: written messages in, provider calls, an outcome for every recipient out."""

import os
from functools import cache
from typing import Any
from uuid import uuid4

from functions.delivery.calls import Caller
from functions.delivery.deliver import SLICE_SIZE, Deliver
from functions.delivery.night import LOOK_AGAIN_AFTER_S
from functions.delivery.publishing import OUTAGE_TIMEOUT_S, Publisher
from functions.delivery.retry_scheduler import RetryScheduler
from masscomm import environment
from masscomm.chain.batch import BatchDriver
from masscomm.chain.bootstrap import answer, batch_driver
from masscomm.channels.circuit_breaker import PushCircuitBreaker
from masscomm.channels.rate_limiter import RateLimiter
from masscomm.channels.ses_email import SesEmail
from masscomm.clock import Clock, SystemClock
from masscomm.directory.opensearch import OpenSearchDirectory
from masscomm.domain.lanes import Lane
from masscomm.lambda_context import LambdaContext
from masscomm.observability import logs
from masscomm.observability.invocation import ON_KAFKA, observed
from masscomm.stores.delayed_records_dynamodb import DynamoDbDelayStore
from masscomm.stores.delivery_ledger_dynamodb import DynamoDbDeliveryLedger
from masscomm.stores.retry_schedule import RetrySchedule

logger = logs.logger("delivery")


@cache
def bootstrap() -> tuple[BatchDriver, Deliver]:
    """The adapters, built at the first invocation and kept."""
    from masscomm.channels.sns_push import SnsPush

    sender, clock = environment.required("SES_SENDER"), SystemClock()
    workers = int(environment.number("DELIVERY_WORKERS", 16))
    use_case = Deliver(
        directory=OpenSearchDirectory.from_environment(),
        ledger=DynamoDbDeliveryLedger(
            table=os.environ.get("DELIVERY_LEDGER_TABLE", "delivery_ledger"), owner=str(uuid4()), clock=clock
        ),
        publisher=Publisher(
            clock=clock,
            rate_limiters=_rate_limiters(clock),
            workers=workers,
            outage_timeout_s=environment.number("DELIVERY_PATIENCE_S", OUTAGE_TIMEOUT_S),
        ),
        caller=Caller(
            push=PushCircuitBreaker(SnsPush(connections=workers), clock=clock),
            email=SesEmail(
                sender=sender, connections=workers, configuration_set=os.environ.get("SES_CONFIGURATION_SET")
            ),
            clock=clock,
            sender=sender,
            unsubscribe_url=os.environ.get("UNSUBSCRIBE_URL"),
        ),
        retry_scheduler=RetryScheduler(
            store=DynamoDbDelayStore.from_environment(), retry_schedule=RetrySchedule.from_environment(), clock=clock
        ),
        clock=clock,
        slice_size=int(environment.number("DELIVERY_SLICE_SIZE", SLICE_SIZE)),
        quiet_after_s=environment.number("QUIET_HOURS_AGAIN_AFTER_S", LOOK_AGAIN_AFTER_S),
    )
    return batch_driver("delivery", logger), use_case


def _rate_limiters(clock: Clock) -> dict[str, RateLimiter]:
    """By channel: this environment's share of the account's quota, of which the critical lane's is never taken away."""
    shares = {channel: environment.number(f"{channel.upper()}_RATE_PER_S", 0) or None for channel in ("push", "email")}
    critical = environment.lane() is Lane.CRITICAL
    return {
        channel: RateLimiter(clock, per_s=per_s, floor_per_s=per_s if critical and per_s else 1.0)
        for channel, per_s in shares.items()
    }


@observed(logger, ahead=(*ON_KAFKA, "masscomm.channels.sns_push"))
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Entry point: an aws:kafka event to a partial batch response."""
    return answer(bootstrap, event, context, logger)
