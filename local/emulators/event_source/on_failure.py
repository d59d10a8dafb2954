"""Builds the documents that Lambda writes to an on-failure destination: for a topic, one for each record whose attempts
are used up; for a bucket of S3, one for a batch.

Source: AWS documentation, "Using a Kafka topic as an on-failure destination", record format for a Kafka destination,
and "Capturing discarded batches for Amazon MSK and self-managed Apache Kafka event sources" for the names of the
conditions and the format for an S3 destination (https://docs.aws.amazon.com/lambda/latest/dg/kafka-on-failure.html).
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from itertools import groupby

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
    document = _document([record], len(event), condition, invocations, last, function_arn, envelope, now)
    head = json.dumps(document, separators=(",", ":")).encode()
    return head[:-1] + b',"payload":' + event + b"}" if with_payload else head


def discarded_batch(
    records: Sequence[SourceRecord],
    *,
    condition: Condition,
    invocations: int,
    last: LastResponse | None,
    function_arn: str,
    envelope: EventEnvelope,
    now: datetime,
) -> bytes:
    """Return the object with the records of a batch as JSON. Its payload is the event as a string.

    Args:
        records: The records, those of one partition adjacent.
        condition: The reason why the batch is discarded.
        invocations: The number of invocations with the batch.
        last: The response of the last invocation with the batch; None if there was no invocation.
        function_arn: The ARN of the function.
        envelope: The fields that all events of the mapping share.
        now: The current time, with a time zone.
    """
    event = envelope.encode(records)
    document = _document(records, len(event), condition, invocations, last, function_arn, envelope, now)
    return json.dumps(document | {"payload": event.decode()}, separators=(",", ":")).encode()


def _document(
    records: Sequence[SourceRecord],
    payload_bytes: int,
    condition: Condition,
    invocations: int,
    last: LastResponse | None,
    function_arn: str,
    envelope: EventEnvelope,
    now: datetime,
) -> dict[str, object]:
    batch: dict[str, object] = {
        "batchSize": len(records),
        "eventSourceArn": envelope.event_source_arn,
        "bootstrapServers": envelope.bootstrap_servers,
        "payloadSize": payload_bytes,
        # Lambda uses this field for destinations that are no topic; it names the partition even if the payload is
        # omitted.
        "recordsInfo": {
            str(partition): _records_info(list(group))
            for partition, group in groupby(records, key=lambda record: record.partition)
        },
    }
    if len(records) == 1:
        batch["recordInfo"] = {"offset": str(records[0].offset), "timestamp": _iso(records[0].timestamp_ms)}
    return {
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
        "KafkaBatchInfo": batch,
    }


def _records_info(records: Sequence[SourceRecord]) -> dict[str, str]:
    return {
        "firstRecordOffset": str(records[0].offset),
        "lastRecordOffset": str(records[-1].offset),
        "firstRecordTimestamp": _iso(records[0].timestamp_ms),
        "lastRecordTimestamp": _iso(records[-1].timestamp_ms),
    }


def _iso(timestamp_ms: int) -> str:
    moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{timestamp_ms % 1000:03d}Z"
