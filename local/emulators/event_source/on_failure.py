"""Builds the records that Lambda writes to an on-failure topic: one for each record whose attempts are used up.

Source: AWS documentation, "Using a Kafka topic as an on-failure destination", record format for a Kafka destination,
and "Capturing discarded batches for Amazon MSK and self-managed Apache Kafka event sources" for the names of the
conditions.
"""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from local.emulators.event_source.record import EventEnvelope, SourceRecord


class Condition(StrEnum):
    """The reason why a record is sent to the on-failure destination."""

    RETRIES_EXHAUSTED = "RetryAttemptsExhausted"
    TOO_OLD = "MaximumRecordAgeExceeded"
    TOO_LARGE = "MaximumPayloadSizeExceeded"


@dataclass(frozen=True, kw_only=True)
class LastResponse:
    """The response of the last invocation with the record. function_error is None for a partial batch response."""

    request_id: str
    status_code: int
    executed_version: str
    function_error: str | None


def failure_record(
    record: SourceRecord,
    *,
    condition: Condition,
    invocations: int,
    last: LastResponse | None,
    function_arn: str,
    envelope: EventEnvelope,
    now: datetime,
    with_payload: bool = True,
) -> bytes:
    """Return the on-failure record as JSON.

    Args:
        record: The failed record.
        condition: The reason why the record is sent to the on-failure topic.
        invocations: The number of invocations with the record.
        last: The response of the last invocation with the record; None if there was no invocation.
        function_arn: The ARN of the function.
        envelope: The fields that all events of the mapping share.
        now: The current time, with a time zone.
        with_payload: Whether to include the payload. Without it the record is small enough for a topic that refused its
            size; KafkaBatchInfo.recordsInfo still has the record's topic, partition and offset.
    """
    event = envelope.encode([record])
    moment = _iso(record.timestamp_ms)
    document: dict[str, object] = {
        "requestContext": {
            "requestId": last.request_id if last else "",
            "functionArn": f"{function_arn}:$LATEST",
            "condition": condition.value,
            "approximateInvokeCount": invocations,
        },
        "responseContext": None
        if last is None
        else {
            "statusCode": last.status_code,
            "executedVersion": last.executed_version,
            "functionError": last.function_error,
        },
        "version": "1.0",
        "timestamp": _iso(int(now.astimezone(UTC).timestamp() * 1000)),
        "KafkaBatchInfo": {
            "batchSize": 1,
            "eventSourceArn": envelope.event_source_arn,
            "bootstrapServers": envelope.bootstrap_servers,
            "payloadSize": len(event),
            "recordInfo": {"offset": str(record.offset), "timestamp": moment},
            # Lambda uses this field for SQS and SNS destinations; it names the partition even if the payload is
            # omitted.
            "recordsInfo": {
                str(record.partition): {
                    "firstRecordOffset": str(record.offset),
                    "lastRecordOffset": str(record.offset),
                    "firstRecordTimestamp": moment,
                    "lastRecordTimestamp": moment,
                }
            },
        },
    }
    head = json.dumps(document, separators=(",", ":")).encode()
    return head[:-1] + b',"payload":' + event + b"}" if with_payload else head


def _iso(timestamp_ms: int) -> str:
    moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{timestamp_ms % 1000:03d}Z"
