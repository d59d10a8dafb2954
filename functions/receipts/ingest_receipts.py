"""Produce the receipts of an AWS event to Kafka, unchanged.

    CloudWatch Logs   SNS' delivery status of pushes and SMS: {"awslogs": {"data": base64 of gzip of JSON}}
    SNS               EventDeliveryFailure of a platform application, SES event publishing: {"Records": [{"Sns": …}]}
    EventBridge       SES event publishing: {"source": "aws.ses", "detail": …}

Nothing is interpreted here: a body that is no receipt is dead-lettered by process_receipts, with its bytes and a
reason, and can be replayed.
"""

import base64
import binascii
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aws_lambda_powertools import Logger

from masscomm.clock import Clock
from masscomm.domain.ids import receipt_id
from masscomm.domain.records import ReceiptReceived
from masscomm.errors import Retry
from masscomm.json_reader import read_json
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec
from masscomm.kafka.producer import Producer

# CloudWatch Logs sends at most a megabyte; more than this is no batch of log lines.
_MAX_UNPACKED = 64_000_000
# Part of the remaining time that is reserved for the response.
_RESERVE_S = 1.0


class _NotUnderstood(Exception):
    """The envelope is none of those above."""


@dataclass(frozen=True, kw_only=True)
class IngestReceipts:
    """The use case; one for each function environment."""

    codec: Codec
    producer: Producer
    clock: Clock
    logger: Logger

    def ingest(self, event: Mapping[str, Any], remaining_s: float) -> dict[str, int]:
        """Return how many receipts were produced, as {"receipts": n}.

        Raises:
            Retry: Kafka did not acknowledge all of them. Lambda invokes the function again; the ids stay the same.
        """
        try:
            bodies = _bodies(event)
        except _NotUnderstood as error:
            self.logger.warning("an event that holds no receipts", error=str(error))
            bodies = [json.dumps(event)]
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
        self.producer.flush(max(0.1, remaining_s - _RESERVE_S))
        if errors:
            raise Retry(f"{len(errors)} of {len(bodies)} receipts were not acknowledged: {errors[0]}")
        return {"receipts": len(bodies)}


def _bodies(event: Mapping[str, Any]) -> list[str]:
    """Each receipt's JSON as AWS wrote it."""
    try:
        if "awslogs" in event:
            return _log_lines(event["awslogs"]["data"])
        if event.get("source") == "aws.ses":
            return [json.dumps(event["detail"])]
        if "Records" in event:
            return [_text(record["Sns"]["Message"]) for record in event["Records"]]
    except (KeyError, TypeError, AttributeError) as error:
        raise _NotUnderstood(repr(error)) from error
    raise _NotUnderstood(f"neither logs nor SNS nor EventBridge: {sorted(event)[:10]}")


def _log_lines(data: str) -> list[str]:
    unpacking = zlib.decompressobj(wbits=31)
    try:
        document = read_json(unpacking.decompress(base64.b64decode(data, validate=True), _MAX_UNPACKED))
    except (binascii.Error, zlib.error, ValueError) as error:
        raise _NotUnderstood(f"no gzip of JSON in base64: {error}") from error
    if document["messageType"] == "CONTROL_MESSAGE":  # CloudWatch tries whether we are there
        return []
    return [_text(entry["message"]) for entry in document["logEvents"]]


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _NotUnderstood(f"no text: {value!r:.100}")
    # Half of a surrogate pair cannot stand on Kafka; escaped, the receipt alone is refused where receipts are read.
    return value.encode(errors="backslashreplace").decode()
