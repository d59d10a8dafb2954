"""The builder function: it renders recipients' messages, and produces outcome records for recipients without a
message.
"""

from functools import cache
from typing import TYPE_CHECKING, Any

from masscomm.chain.batch import BatchDriver
from masscomm.chain.bootstrap import answer, batch_driver
from masscomm.clock import SystemClock
from masscomm.directory.chosen import directory_from_environment
from masscomm.lambda_context import LambdaContext
from masscomm.observability import logs
from masscomm.observability.invocation import ON_KAFKA, observed
from masscomm.stores.decision_log.dynamodb import DynamoDbDecisionLog
from masscomm.stores.sends.dynamodb import DynamoDbSends

if TYPE_CHECKING:
    from functions.builder.build_messages import BuildMessages

logger = logs.logger("builder")


@cache
def bootstrap() -> "tuple[BatchDriver, BuildMessages]":
    from functions.builder.build_messages import BuildMessages
    from masscomm.rendering.templates import TemplateCache

    directory, clock = directory_from_environment(), SystemClock()
    driver = batch_driver("builder", logger, has_categories=True)
    return driver, BuildMessages(
        directory=directory,
        templates=TemplateCache(directory, clock),
        clock=clock,
        decision_log=DynamoDbDecisionLog.from_environment(clock=clock),
        sends=DynamoDbSends.from_environment(),
    )


@observed(logger, ahead=(*ON_KAFKA, "functions.builder.build_messages"))
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Process an aws:kafka event and return a partial batch response."""
    return answer(bootstrap, event, context, logger)
