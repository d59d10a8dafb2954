"""Builds records of the topic on-failure for records that a function hands over to the scheduler.

The format is that of Lambda's event source mappings, so that the scheduler reads the records of both.
Source: AWS documentation, the record format of a Kafka on-failure destination.
"""

import json
from datetime import UTC, datetime
from typing import Any, NamedTuple

from masscomm.kafka.event import KafkaRecord, event_of


class LastResponse(NamedTuple):
    """The last response of a function to a record whose attempts are used up."""

    # The number of invocations with the record.
    invocations: int
    # Whether the function has crashed, or its time was over.
    crashed: bool


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
