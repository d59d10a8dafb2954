"""The audience_expander function: it consumes sends to audiences, and produces their chunks to send.api."""

from functools import cache
from typing import Any

from functions.audience_expander.expand_audience import ExpandAudience
from functions.audience_expander.recurring_sends import RecurringSends
from functions.audience_expander.share import CHUNKS
from masscomm import environment
from masscomm.chain.batch import BatchDriver
from masscomm.chain.bootstrap import answer, batch_driver
from masscomm.clock import SystemClock
from masscomm.directory.chosen import directory_from_environment
from masscomm.lambda_context import LambdaContext
from masscomm.observability import logs
from masscomm.observability.invocation import ON_KAFKA, observed
from masscomm.stores.api_keys.dynamodb import ApiKeys
from masscomm.stores.delayed_records.dynamodb import DynamoDbDelayStore
from masscomm.stores.key_usage.dynamodb import DynamoDbKeyUsage
from masscomm.stores.saved_audiences.dynamodb import DynamoDbSavedAudiences
from masscomm.stores.schedules.dynamodb import DynamoDbSchedules
from masscomm.stores.sends.dynamodb import DynamoDbSends

logger = logs.logger("audience_expander")


@cache
def bootstrap() -> tuple[BatchDriver, ExpandAudience]:
    driver = batch_driver("audience_expander", logger, endless=True, has_categories=True)
    sends, usage, clock = DynamoDbSends.from_environment(), DynamoDbKeyUsage.from_environment(), SystemClock()
    delay_store = DynamoDbDelayStore.from_environment()
    use_case = ExpandAudience(
        directory=directory_from_environment(),
        sends=sends,
        usage=usage,
        delay_store=delay_store,
        recurring=RecurringSends(
            schedules=DynamoDbSchedules.from_environment(),
            keys=ApiKeys.from_environment(),
            saved_audiences=DynamoDbSavedAudiences.from_environment(),
            sends=sends,
            usage=usage,
            delay_store=delay_store,
            clock=clock,
            logger=logger,
        ),
        clock=clock,
        logger=logger,
        share_chunks=environment.whole_number("EXPANSION_SHARE_CHUNKS", CHUNKS, lowest=1),
    )
    return driver, use_case


@observed(logger, ahead=ON_KAFKA)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Process an aws:kafka event and return a partial batch response."""
    return answer(bootstrap, event, context, logger)
