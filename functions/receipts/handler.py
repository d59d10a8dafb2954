"""The receipts function: it produces the providers' receipts from AWS events to Kafka, and converts receipts to
outcome records.
"""

from functools import cache
from typing import Any

from functions.receipts.apply_answers import ApplyAnswers
from functions.receipts.ingest_receipts import IngestReceipts
from functions.receipts.process_receipts import ProcessReceipts
from functions.receipts.sent_messages import OpenSearchSentMessages
from masscomm import environment
from masscomm.chain.batch import BatchDriver
from masscomm.chain.bootstrap import batch_driver
from masscomm.chain.email_pauses import EmailPauses
from masscomm.chain.email_reputation import EmailReputation
from masscomm.clock import SystemClock
from masscomm.directory.bulk_writes import connect_from_environment
from masscomm.directory.change_preferences import ChangePreferences
from masscomm.directory.chosen import directory_from_environment
from masscomm.directory.document_publisher import OpenSearchDocumentPublisher
from masscomm.directory.preference_changes import OpenSearchPreferenceChanges
from masscomm.domain.email_settings import email_table
from masscomm.domain.suppressions import Periods
from masscomm.domain.time_limits import RECEIPT_RETRY_DELAYS_S
from masscomm.lambda_context import LambdaContext
from masscomm.observability import logs
from masscomm.observability.invocation import ON_KAFKA, observed
from masscomm.operations.bootstrap import audit_log
from masscomm.stores.delayed_records.dynamodb import DynamoDbDelayStore
from masscomm.stores.email_counts.dynamodb import DynamoDbEmailCounter
from masscomm.stores.frequency_caps.dynamodb import DynamoDbFrequencyCaps
from masscomm.stores.sends.dynamodb import DynamoDbSends

logger = logs.logger("receipts")


@cache
def bootstrap() -> tuple[BatchDriver, IngestReceipts, ProcessReceipts]:
    driver, clock = batch_driver("receipts", logger, endless=True, has_categories=True), SystemClock()
    client, sends = connect_from_environment(), DynamoDbSends.from_environment()
    messages = OpenSearchSentMessages(client)
    publisher = OpenSearchDocumentPublisher(client, driver.codec, driver.producer)
    directory = directory_from_environment()
    preferences = ChangePreferences(
        directory=directory,
        changes=OpenSearchPreferenceChanges(client),
        publisher=publisher,
        codec=driver.codec,
        producer=driver.producer,
        clock=clock,
    )
    process = ProcessReceipts(
        messages=messages,
        publisher=publisher,
        answers=ApplyAnswers(
            messages=messages, publisher=publisher, directory=directory, preferences=preferences, logger=logger
        ),
        frequency_caps=DynamoDbFrequencyCaps.from_environment(),
        sends=sends,
        reputation=EmailReputation(
            counter=DynamoDbEmailCounter.from_environment(),
            pauses=EmailPauses(sends=sends, audit_log=audit_log(), clock=clock, logger=logger),
        ),
        delay_store=DynamoDbDelayStore.from_environment(),
        clock=clock,
        logger=logger,
        retry_delays_s=environment.numbers("RECEIPT_WAITS_S", RECEIPT_RETRY_DELAYS_S),
        periods=Periods(
            bounced_days=environment.number("SUPPRESS_BOUNCED_DAYS", Periods.bounced_days),
            complained_days=environment.number("SUPPRESS_COMPLAINED_DAYS", Periods.complained_days),
        ),
        club_of=email_table().club_of,
    )
    return driver, IngestReceipts(codec=driver.codec, producer=driver.producer, clock=clock, logger=logger), process


@observed(logger, ahead=ON_KAFKA)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Process an aws:kafka event with records of outcome and receipt, or an AWS event that contains receipts."""
    driver, ingest, process = bootstrap()
    if event.get("eventSource") == "aws:kafka":
        return driver.run(event, context, process)
    return ingest.ingest(event, context.get_remaining_time_in_millis() / 1000)
