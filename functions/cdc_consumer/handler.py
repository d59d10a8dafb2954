"""cdc_consumer: the monolith's change events in, the directory's indices out."""

from functools import cache
from typing import Any

from functions.cdc_consumer.apply_changes import ApplyChanges
from functions.cdc_consumer.generation import Generation
from masscomm import logs, settings, topics
from masscomm.batch import BatchDriver
from masscomm.bootstrap import answer, batch_driver
from masscomm.cdc_progress import KafkaCdcProgress
from masscomm.clock import SystemClock
from masscomm.invocation import ON_KAFKA, observed
from masscomm.lambda_context import LambdaContext
from masscomm.opensearch import connect_from_environment

logger = logs.logger("cdc_consumer")


@cache
def bootstrap() -> tuple[BatchDriver, ApplyChanges]:
    """The adapters, built at the first invocation and kept."""
    client = connect_from_environment()
    generations = [
        Generation(
            client,
            name=name,
            progress=KafkaCdcProgress.from_environment(name),
            clock=SystemClock(),
            logger=logger,
        )
        for name in topics.generations(settings.required("CDC_GENERATION"))
    ]
    return batch_driver("cdc_consumer", logger), ApplyChanges(client, *generations, logger=logger)


@observed(logger, ahead=ON_KAFKA)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Entry point: an aws:kafka event to a partial batch response."""
    return answer(bootstrap, event, context, logger)
