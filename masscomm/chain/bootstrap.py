"""Builds the batch driver of every Kafka-triggered function."""

import os
from collections.abc import Callable, Mapping
from typing import Any

from aws_lambda_powertools import Logger

from masscomm import environment
from masscomm.chain.batch import BatchDriver, UseCase, redeliver_all
from masscomm.chain.result_writer import ResultWriter
from masscomm.chain.unlisted_errors import UnlistedErrors
from masscomm.chain.whole_batches import WholeBatches
from masscomm.domain.delays import RetrySchedule
from masscomm.domain.records import AvroRecord
from masscomm.domain.time_limits import DENIED_SCHEMA_RETRY_S
from masscomm.errors import Stop
from masscomm.kafka.avro import Codec, HttpSchemaRegistry
from masscomm.kafka.bundled_schema import BundledSchema
from masscomm.kafka.dead_letter_alarm import DEFAULT_LIMIT, DeadLetterAlarm
from masscomm.kafka.denied_ids import DeniedIds
from masscomm.kafka.event import parse
from masscomm.kafka.producer import KafkaProducer, NoProducer
from masscomm.lambda_context import LambdaContext
from masscomm.observability import traces
from masscomm.stores.categories.known import known_categories
from masscomm.stores.delayed_records.port import DelayStore


def retry_schedule() -> RetrySchedule:
    """Return the schedule of BACK_OFF_FIRST_S, BACK_OFF_LAST_S and BACK_OFF_LIFETIME_S. Raises Stop if one is not a
    number.
    """
    names = {"first_ms": "BACK_OFF_FIRST_S", "last_ms": "BACK_OFF_LAST_S", "lifetime_ms": "BACK_OFF_LIFETIME_S"}
    usual = RetrySchedule()
    return RetrySchedule(
        **{field: round(environment.number(name, getattr(usual, field) / 1000) * 1000) for field, name in names.items()}
    )


def batch_driver(function: str, logger: Logger, *, endless: bool = False, has_categories: bool = False) -> BatchDriver:
    """Return a batch driver that uses the real Kafka brokers and schema registry.

    Args:
        function: The function's name.
        logger: Its logger.
        endless: Whether the attempts of its event source mapping have no end.
        has_categories: Whether it uses categories of sends.

    Raises:
        Stop: An environment variable is missing or invalid.
    """
    traces.check_config()
    return BatchDriver(
        function=function,
        codec=Codec(HttpSchemaRegistry.from_environment()),
        producer=KafkaProducer.from_environment(),
        logger=logger,
        alarm=DeadLetterAlarm(limit=environment.number("DEAD_LETTER_ALARM_LIMIT", DEFAULT_LIMIT), logger=logger),
        unlisted=UnlistedErrors() if endless else None,
        denied_ids=DeniedIds(retry_s=environment.number("DENIED_SCHEMA_RETRY_S", DENIED_SCHEMA_RETRY_S)),
        on_demand=_is_on_demand(),
        whole_batches=_whole_batches(),
        results=ResultWriter.from_environment(),
        prepare=known_categories().refresh if has_categories else None,
    )


def offline_batch_driver(function: str, logger: Logger, kind: type[AvroRecord], delay_store: DelayStore) -> BatchDriver:
    """Return the batch driver of a function outside the VPC, which reaches neither brokers nor registry. It consumes
    one class of records. The delay store takes the records whose attempts are used up, if no mapping counts them.
    """
    traces.check_config()
    # Imported here: other functions do not need it.
    from masscomm.chain.delayer import DelayedProducer
    from masscomm.clock import SystemClock

    return BatchDriver(
        function=function,
        codec=Codec(BundledSchema(kind)),
        producer=NoProducer(),
        logger=logger,
        on_demand=_is_on_demand(),
        whole_batches=_whole_batches(),
        on_failure=DelayedProducer(store=delay_store, clock=SystemClock()),
    )


def _is_on_demand() -> bool:
    """Return whether the function's event source mappings are in on-demand mode."""
    return os.environ.get("MASSCOMM_POLLERS") == "on-demand"


def _whole_batches() -> WholeBatches | None:
    """Return the attempts of a function of which a mapping in provisioned mode would have a topic for failed records.
    Raises Stop if BATCH_RETRIES is not a number.
    """
    if not os.environ.get("BATCH_RETRIES"):
        return None
    # Imported here: a cold start in provisioned mode does not need it.
    from masscomm.stores.batch_marks.dynamodb import DynamoDbBatchMarks

    retries = environment.whole_number("BATCH_RETRIES", 0)
    return WholeBatches(marks=DynamoDbBatchMarks.from_environment(), retries=retries)


def answer[T](
    bootstrap: Callable[[], tuple[BatchDriver, UseCase[T]]],
    event: Mapping[str, Any],
    context: LambdaContext,
    logger: Logger,
) -> dict[str, Any]:
    """Return the partial batch response of the function that `bootstrap` builds, even if `bootstrap` fails.

    Raises:
        ValueError: The event is not an aws:kafka event.
        BatchFailed, Stop: As `BatchDriver.run`.
    """
    try:
        driver, use_case = bootstrap()
    except Stop as error:
        return redeliver_all(parse(event), error, logger, on_demand=_is_on_demand())
    return driver.run(event, context, use_case)
