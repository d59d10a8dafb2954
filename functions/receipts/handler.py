"""receipts: what providers say afterwards, from AWS onto Kafka, and from Kafka to outcomes."""

from functools import cache
from typing import Any

from functions.receipts.follow_receipts import WAITS_S, FollowReceipts
from functions.receipts.messages import OpenSearchMessages
from functions.receipts.take_in import TakeIn
from masscomm import environment
from masscomm.chain.batch import BatchDriver
from masscomm.chain.bootstrap import batch_driver
from masscomm.clock import SystemClock
from masscomm.directory.bulk_writes import connect_from_environment
from masscomm.domain.suppressions import Periods
from masscomm.lambda_context import LambdaContext
from masscomm.observability import logs
from masscomm.observability.invocation import ON_KAFKA, observed
from masscomm.stores.delayed_records_dynamodb import DynamoDbDelayStore

logger = logs.logger("receipts")


@cache
def bootstrap() -> tuple[BatchDriver, TakeIn, FollowReceipts]:
    """The adapters, built at the first invocation and kept."""
    driver, clock = batch_driver("receipts", logger), SystemClock()
    follow = FollowReceipts(
        messages=OpenSearchMessages(connect_from_environment()),
        delay_store=DynamoDbDelayStore.from_environment(),
        clock=clock,
        logger=logger,
        waits_s=environment.numbers("RECEIPT_WAITS_S", WAITS_S),
        periods=Periods(
            bounced_days=environment.number("SUPPRESS_BOUNCED_DAYS", Periods.bounced_days),
            complained_days=environment.number("SUPPRESS_COMPLAINED_DAYS", Periods.complained_days),
        ),
    )
    return driver, TakeIn(codec=driver.codec, producer=driver.producer, clock=clock, logger=logger), follow


@observed(logger, ahead=ON_KAFKA)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Entry point: an aws:kafka event of outcome and receipt, or what AWS invokes us with to tell of receipts."""
    driver, take_in, follow = bootstrap()
    if event.get("eventSource") == "aws:kafka":
        return driver.run(event, context, follow)
    return take_in.take(event, context.get_remaining_time_in_millis() / 1000)
