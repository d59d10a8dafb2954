"""Builds and produces records of the topic on-failure for records that a function hands over to the scheduler.

The format is that of Lambda's event source mappings, so that the scheduler reads the records of both.
Source: AWS documentation, the record format of a Kafka on-failure destination.
"""

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from masscomm.errors import DeadLetter, Retry
from masscomm.kafka import topics
from masscomm.kafka.event import KafkaRecord, event_of
from masscomm.kafka.producer import Producer


class LastResponse(NamedTuple):
    """The last response of a function to a record whose attempts are used up."""

    # The number of invocations with the record.
    invocations: int
    # Whether the function has crashed, or its time was over.
    crashed: bool


class HandedOver(NamedTuple):
    """A record that is handed over; without a response, no record of its batch counts as the cause of its failure."""

    record: KafkaRecord
    response: LastResponse | None = None


def hand_over(
    producer: Producer, records: Sequence[HandedOver], now_ms: int, flush_s: Callable[[], float]
) -> Sequence[KafkaRecord]:
    """Produce records to the topic on-failure, as Lambda does in provisioned mode. A record that is too large for it is
    produced without its payload. Return the records that Kafka has not acknowledged.

    Args:
        producer: Produces the on-failure records.
        records: The records whose attempts are used up.
        now_ms: The present time in ms since the epoch.
        flush_s: Returns the seconds that remain for a flush.
    """
    errors: dict[str, Exception] = {
        each.record.source_position: Retry("Kafka has not acknowledged the on-failure record") for each in records
    }

    def produce(each: HandedOver, *, with_payload: bool) -> None:
        def report(error: Exception | None) -> None:
            if error is None:
                errors.pop(each.record.source_position, None)
            else:
                errors[each.record.source_position] = error

        value = on_failure_value(
            each.record, "RetryAttemptsExhausted", now_ms, response=each.response, with_payload=with_payload
        )
        producer.produce(topics.ON_FAILURE, each.record.key, value, [], report)

    for each in records:
        produce(each, with_payload=True)
    producer.flush(flush_s())
    refused = [each for each in records if isinstance(errors.get(each.record.source_position), DeadLetter)]
    if refused:
        for each in refused:
            produce(each, with_payload=False)
        producer.flush(flush_s())
    return [each.record for each in records if each.record.source_position in errors]


def on_failure_value(
    record: KafkaRecord,
    condition: str,
    now_ms: int,
    *,
    response: LastResponse | None = None,
    with_payload: bool = True,
) -> bytes:
    """Return the value of an on-failure record with the bytes, headers and position of a record.

    Args:
        record: The record that is handed over.
        condition: Why it is handed over.
        now_ms: The present time in ms since the epoch.
        response: The last response of the function; None if the record was not processed.
        with_payload: Whether the bytes and headers are in it. Without them, the scheduler reads the record from its
            topic.
    """
    document: dict[str, Any] = {
        "requestContext": {"condition": condition},
        "responseContext": None,
        "version": "1.0",
        "timestamp": datetime.fromtimestamp(now_ms / 1000, UTC).isoformat(),
    }
    if response is not None:
        document["requestContext"]["approximateInvokeCount"] = response.invocations
        document["responseContext"] = {"functionError": "Unhandled" if response.crashed else None}
    if with_payload:
        document["payload"] = event_of(record)
    else:
        partition = f"{record.topic}-{record.partition}"
        document["KafkaBatchInfo"] = {"recordsInfo": {partition: {"firstRecordOffset": str(record.offset)}}}
    return json.dumps(document).encode()
