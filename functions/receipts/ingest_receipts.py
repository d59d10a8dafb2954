"""Produces the receipts in an AWS event to Kafka, unchanged, and answers to SMS (STOP, START) without their texts.

    CloudWatch Logs   SNS' delivery status of pushes and SMS: {"awslogs": {"data": base64 of gzip of JSON}}
    SNS               EventDeliveryFailure of a platform application, SES event publishing, and answers to SMS:
                      {"Records": [{"Sns": …}]}
    EventBridge       SES event publishing: {"source": "aws.ses", "detail": …}; SMS: {"source": "aws.sms-voice", …}

This module does not interpret receipts. If a body is not a receipt, process_receipts dead-letters it with its bytes and
a reason, so that it can be replayed.
"""

import base64
import binascii
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aws_lambda_powertools import Logger

from functions.receipts.answers import MalformedAnswer, body_of
from functions.receipts.reading import TENANT_EVENTS
from masscomm.clock import Clock
from masscomm.domain.ids import receipt_id
from masscomm.domain.records import ReceiptReceived
from masscomm.domain.time_limits import INGEST_RESERVE_S
from masscomm.errors import Retry
from masscomm.json_reader import read_json
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec
from masscomm.kafka.producer import Producer

_EVENT_SOURCES = ("aws.ses", "aws.sms-voice")
# The maximum size after decompression. CloudWatch Logs sends at most a megabyte; larger data does not come from it.
_MAX_UNPACKED = 64_000_000


class _NotUnderstood(Exception):
    """The event has none of the forms that the module describes."""


@dataclass(frozen=True, kw_only=True)
class IngestReceipts:
    """The use case that produces receipts to Kafka. Each function environment has one instance."""

    codec: Codec
    producer: Producer
    clock: Clock
    logger: Logger

    def ingest(self, event: Mapping[str, Any], remaining_s: float) -> dict[str, int]:
        """Return how many receipts were produced, as {"receipts": n}.

        Raises:
            Retry: Kafka did not acknowledge all receipts. Lambda then invokes the function again, and the receipts have
                the same ids.
        """
        try:
            bodies = _bodies(event)
        except (_NotUnderstood, MalformedAnswer) as error:
            self.logger.warning("an event without receipts", error=str(error))
            # The event of an answer has its text, which is not kept.
            bodies = [] if isinstance(error, MalformedAnswer) else [json.dumps(event)]
        errors: list[Exception] = []
        for body in bodies:
            record = ReceiptReceived(record_id=receipt_id(body), body=body, received_at=self.clock.now_ms())
            value = self.codec.encode(topics.RECEIPT, "ReceiptReceived", record.to_avro())
            self.producer.produce(
                topics.RECEIPT,
                record.record_id.encode(),
                value,
                [],
                lambda error: errors.append(error) if error is not None else None,
            )
        self.producer.flush(max(0.1, remaining_s - INGEST_RESERVE_S))
        if errors:
            raise Retry(f"{len(errors)} of {len(bodies)} receipts were not acknowledged: {errors[0]}")
        return {"receipts": len(bodies)}


def _bodies(event: Mapping[str, Any]) -> list[str]:
    """Yield the JSON text of each receipt as AWS wrote it."""
    try:
        if "awslogs" in event:
            return _log_lines(event["awslogs"]["data"])
        if event.get("source") == "aws.ses" and event.get("detail-type") in TENANT_EVENTS:
            # The tenant is among the resources, outside of the detail. The id tells two pauses apart.
            return [json.dumps({name: event[name] for name in ("id", "detail-type", "resources", "detail")})]
        if event.get("source") in _EVENT_SOURCES:
            return [json.dumps(event["detail"])]
        if "Records" in event:
            bodies = [body_of(_text(each["Sns"]["Message"]), each["Sns"].get("Timestamp")) for each in event["Records"]]
            return [body for body in bodies if body is not None]
    except (KeyError, TypeError, AttributeError) as error:
        raise _NotUnderstood(repr(error)) from error
    raise _NotUnderstood(f"an event of neither CloudWatch Logs, SNS nor EventBridge: {sorted(event)[:10]}")


def _log_lines(data: str) -> list[str]:
    unpacking = zlib.decompressobj(wbits=31)
    try:
        document = read_json(unpacking.decompress(base64.b64decode(data, validate=True), _MAX_UNPACKED))
    except (binascii.Error, zlib.error, ValueError) as error:
        raise _NotUnderstood(f"not gzip-compressed JSON in base64: {error}") from error
    # CloudWatch Logs tests with a control message whether it can invoke the function.
    if document["messageType"] == "CONTROL_MESSAGE":
        return []
    return [_text(entry["message"]) for entry in document["logEvents"]]


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _NotUnderstood(f"no text: {value!r:.100}")
    # Kafka cannot store half of a surrogate pair. The character is escaped, so that process_receipts rejects only this
    # receipt.
    return value.encode(errors="backslashreplace").decode()
