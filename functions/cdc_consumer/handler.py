"""The cdc_consumer function: it consumes the monolith's change events and writes the directory's indices in
OpenSearch.
"""

from functools import cache
from typing import Any

from functions.cdc_consumer.apply_changes import ApplyChanges
from functions.cdc_consumer.generation import Generation
from masscomm import environment
from masscomm.cdc.progress import KafkaCdcProgress
from masscomm.chain.batch import BatchDriver
from masscomm.chain.bootstrap import answer, batch_driver
from masscomm.clock import SystemClock
from masscomm.directory.bulk_writes import connect_from_environment
from masscomm.kafka import topics
from masscomm.lambda_context import LambdaContext
from masscomm.observability import logs
from masscomm.observability.invocation import ON_KAFKA, observed

logger = logs.logger("cdc_consumer")


@cache
def bootstrap() -> tuple[BatchDriver, ApplyChanges]:
    client = connect_from_environment()
    generations = [
        Generation(
            client,
            name=name,
            progress=KafkaCdcProgress.from_environment(name),
            clock=SystemClock(),
            logger=logger,
        )
        for name in topics.generations(environment.required("CDC_GENERATION"))
    ]
    return batch_driver("cdc_consumer", logger, endless=True), ApplyChanges(client, *generations, logger=logger)


@observed(logger, ahead=ON_KAFKA)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Process an aws:kafka event and return a partial batch response."""
    return answer(bootstrap, event, context, logger)
