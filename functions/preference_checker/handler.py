"""The preference_checker function: it consumes sends, and produces build records for allowed recipients and outcome
records for the others.
"""

from functools import cache
from typing import Any

from functions.preference_checker.broadcast_queues import BroadcastQueues
from functions.preference_checker.check_preferences import CheckPreferences
from functions.preference_checker.output_lanes import OutputLanes
from functions.preference_checker.queue_leases_dynamodb import DynamoDbQueueLeaseStore
from functions.preference_checker.small_sends import BURST, PER_S, SmallSends
from masscomm import environment
from masscomm.chain.batch import BatchDriver
from masscomm.chain.bootstrap import answer, batch_driver, retry_schedule
from masscomm.clock import SystemClock
from masscomm.directory.chosen import directory_from_environment
from masscomm.kafka.outcome_progress import KafkaOutcomeProgress
from masscomm.lambda_context import LambdaContext
from masscomm.observability import logs
from masscomm.observability.invocation import ON_KAFKA, observed
from masscomm.stores.decision_log.dynamodb import DynamoDbDecisionLog
from masscomm.stores.delayed_records.dynamodb import DynamoDbDelayStore
from masscomm.stores.digests.dynamodb import DynamoDbDigests
from masscomm.stores.frequency_caps.dynamodb import DynamoDbFrequencyCaps
from masscomm.stores.sends.dynamodb import DynamoDbSends

logger = logs.logger("preference_checker")


@cache
def bootstrap() -> tuple[BatchDriver, CheckPreferences]:
    driver, clock = batch_driver("preference_checker", logger, has_categories=True), SystemClock()
    use_case = CheckPreferences(
        directory=directory_from_environment(),
        clock=clock,
        delay_store=DynamoDbDelayStore.from_environment(),
        retry_schedule=retry_schedule(),
        decision_log=DynamoDbDecisionLog.from_environment(clock=clock),
        sends=DynamoDbSends.from_environment(),
        frequency_caps=DynamoDbFrequencyCaps.from_environment(),
        digests=DynamoDbDigests.from_environment(),
        outcome_progress=KafkaOutcomeProgress.from_environment(),
        lanes=OutputLanes(
            small_sends=SmallSends(
                per_s=environment.number("SMALL_SENDS_PER_S", PER_S),
                burst=environment.number("SMALL_SENDS_BURST", BURST),
            ),
            queues=BroadcastQueues(DynamoDbQueueLeaseStore.from_environment(), environment.broadcast_queues()),
        ),
    )
    return driver, use_case


@observed(logger, ahead=ON_KAFKA)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Process an aws:kafka event and return a partial batch response."""
    return answer(bootstrap, event, context, logger)
