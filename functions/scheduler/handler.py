"""scheduler: each minute, what is due goes on; what a mapping gave up on begins to wait."""

import os
from dataclasses import asdict
from functools import cache
from typing import Any
from uuid import uuid4

from functions.scheduler.release_due import ReleaseDue
from functions.scheduler.take_back import MAX_CRASHES, TIMEOUT_S, TakeBack
from masscomm import environment
from masscomm.chain.batch import BatchDriver
from masscomm.chain.bootstrap import batch_driver
from masscomm.clock import SystemClock
from masscomm.kafka.source_records import KafkaSourceRecords
from masscomm.lambda_context import LambdaContext
from masscomm.observability import logs
from masscomm.observability.invocation import ON_KAFKA, observed
from masscomm.stores.back_off import BackOff
from masscomm.stores.delayed_records_dynamodb import DynamoDbDelayStore
from masscomm.stores.delivery_ledger_dynamodb import DynamoDbDeliveryLedger

logger = logs.logger("scheduler")


@cache
def bootstrap() -> tuple[BatchDriver, TakeBack, ReleaseDue]:
    """The adapters, built at the first invocation and kept."""
    driver = batch_driver("scheduler", logger)
    store, clock = DynamoDbDelayStore.from_environment(), SystemClock()
    sweep = ReleaseDue(store=store, producer=driver.producer, clock=clock, logger=logger, codec=driver.codec)
    take_back = TakeBack(
        store=store,
        source=KafkaSourceRecords.from_environment(),
        ledger=DynamoDbDeliveryLedger(
            table=os.environ.get("DELIVERY_LEDGER_TABLE", "delivery_ledger"), owner=str(uuid4()), clock=clock
        ),
        clock=clock,
        back_off=BackOff.from_environment(),
        max_crashes=int(environment.number("CRASHES_UNTIL_DEAD_LETTER", MAX_CRASHES)),
        timeout_s=environment.number("CHAIN_TIMEOUT_S", TIMEOUT_S),
    )
    return driver, take_back, sweep


@observed(logger, ahead=ON_KAFKA)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Entry point: EventBridge's scheduled event to what the sweep came to, or an aws:kafka event of on-failure."""
    driver, take_back, release_due = bootstrap()
    if event.get("source") == "aws.events":
        return asdict(release_due.sweep(lambda: context.get_remaining_time_in_millis() / 1000))
    return driver.run(event, context, take_back)
