"""The scheduler function: every minute it releases due records, returns discarded batches and publishes the directory's
own documents, and each hour it marks the changelogs; it reschedules records of the topic on-failure.
"""

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from functools import cache
from typing import Any
from uuid import uuid4

from functions.scheduler.mark_changelogs import MarkChangelogs
from functions.scheduler.publish_documents import PublishDocuments
from functions.scheduler.release_due_records import ReleaseDueRecords
from functions.scheduler.reschedule_records import MAX_CRASHES, RescheduleRecords
from functions.scheduler.return_discarded_batches import ReturnDiscardedBatches
from masscomm import environment
from masscomm.cdc.changelogs import KafkaChangelogs
from masscomm.chain.batch import BatchDriver
from masscomm.chain.bootstrap import batch_driver, retry_schedule
from masscomm.clock import SystemClock
from masscomm.directory.bulk_writes import connect_from_environment
from masscomm.directory.document_publisher import OpenSearchDocumentPublisher
from masscomm.directory.own_document_index import OpenSearchOwnDocumentIndices
from masscomm.domain.time_limits import CHAIN_TIMEOUT_S, DENIED_SCHEMA_RETRY_S, DOCUMENTS_SWEEP_S
from masscomm.kafka.source_records import KafkaSourceRecords
from masscomm.lambda_context import LambdaContext
from masscomm.observability import logs
from masscomm.observability.invocation import ON_KAFKA, observed
from masscomm.stores.delayed_records.dynamodb import DynamoDbDelayStore
from masscomm.stores.delivery_ledger.dynamodb import DynamoDbDeliveryLedger
from masscomm.stores.discarded_batches.s3 import S3DiscardedBatches
from masscomm.stores.sends.dynamodb import DynamoDbSends

logger = logs.logger("scheduler")


@cache
def bootstrap() -> tuple[
    BatchDriver, RescheduleRecords, ReleaseDueRecords, ReturnDiscardedBatches | None, MarkChangelogs
]:
    driver = batch_driver("scheduler", logger, endless=True)
    store, clock = DynamoDbDelayStore.from_environment(), SystemClock()
    release_due_records = ReleaseDueRecords(
        store=store,
        sends=DynamoDbSends.from_environment(),
        producer=driver.producer,
        clock=clock,
        logger=logger,
        codec=driver.codec,
        queues=environment.broadcast_queues(),
    )
    reschedule_records = RescheduleRecords(
        store=store,
        source=KafkaSourceRecords.from_environment(),
        ledger=DynamoDbDeliveryLedger(
            table=os.environ.get("DELIVERY_LEDGER_TABLE", "delivery_ledger"), owner=str(uuid4()), clock=clock
        ),
        clock=clock,
        retry_schedule=retry_schedule(),
        max_crashes=environment.whole_number("CRASHES_UNTIL_DEAD_LETTER", MAX_CRASHES),
        timeout_s=environment.number("CHAIN_TIMEOUT_S", CHAIN_TIMEOUT_S),
        denied_retry_s=environment.number("DENIED_SCHEMA_RETRY_S", DENIED_SCHEMA_RETRY_S),
    )
    batches = S3DiscardedBatches.from_environment()
    return_discarded_batches = (
        None
        if batches is None
        else ReturnDiscardedBatches(batches=batches, producer=driver.producer, clock=clock, logger=logger)
    )
    mark_changelogs = MarkChangelogs(changelogs=KafkaChangelogs.from_environment(), clock=clock, logger=logger)
    return driver, reschedule_records, release_due_records, return_discarded_batches, mark_changelogs


@cache
def publish_documents() -> PublishDocuments:
    driver, *_ = bootstrap()
    client = connect_from_environment()
    return PublishDocuments(
        indices=OpenSearchOwnDocumentIndices(client),
        publisher=OpenSearchDocumentPublisher(client, driver.codec, driver.producer),
        codec=driver.codec,
        producer=driver.producer,
        clock=SystemClock(),
        logger=logger,
    )


def _publish_documents(remaining_s: Callable[[], float]) -> None:
    kept_for_others_s = max(0.0, remaining_s() - DOCUMENTS_SWEEP_S)
    publish_documents().sweep(lambda: remaining_s() - kept_for_others_s)


@observed(logger, ahead=ON_KAFKA)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Process a scheduled event of EventBridge, or an aws:kafka event with records of on-failure."""
    driver, reschedule_records, release_due_records, return_discarded_batches, mark_changelogs = bootstrap()
    if event.get("source") == "aws.events":

        def remaining_s() -> float:
            return context.get_remaining_time_in_millis() / 1000

        # An error of one sweep does not stop the others, and is raised after them.
        with ExitStack() as afterwards:
            afterwards.callback(mark_changelogs.sweep)
            afterwards.callback(_publish_documents, remaining_s)
            try:
                if return_discarded_batches is not None:
                    # Half of the time remains for due records.
                    kept_s = remaining_s() / 2
                    return_discarded_batches.sweep(lambda: remaining_s() - kept_s)
            finally:
                swept = release_due_records.sweep(lambda: remaining_s() - DOCUMENTS_SWEEP_S)
        return asdict(swept)
    return driver.run(event, context, reschedule_records)
