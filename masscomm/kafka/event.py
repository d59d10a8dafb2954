"""The event a Lambda function gets from a Kafka event source mapping, and the answer it gives.

Source: AWS Lambda developer guide, "Using Lambda with Amazon MSK" and "Partial batch responses for Kafka".
"""

import base64
import binascii
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class KafkaRecord:
    """One record as it stands in its topic; value None is a tombstone."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = field(default=())

    def header(self, name: str) -> bytes | None:
        """The last header of that name, as Kafka's own lastHeader."""
        return next((value for key, value in reversed(self.headers) if key == name), None)

    @property
    def source_position(self) -> str:
        """For people: topic-partition@offset."""
        return f"{self.topic}-{self.partition}@{self.offset}"


def parse(event: Mapping[str, Any]) -> list[KafkaRecord]:
    """The records of an `aws:kafka` event, in its order.

    Errors: ValueError where it is not such an event, which is the caller's fault and nobody's data.
    """
    try:
        return [_record(entry) for entries in event["records"].values() for entry in entries]
    except (KeyError, TypeError, AttributeError, binascii.Error) as error:
        raise ValueError(f"not an aws:kafka event: {error!r}") from error


def _record(entry: Mapping[str, Any]) -> KafkaRecord:
    numbers = entry["partition"], entry["offset"], entry["timestamp"]
    # An on-failure record holds an event that anybody may have written. No timestamp is -1.
    if type(entry["topic"]) is not str or not all(type(each) is int and -1 <= each < 2**63 for each in numbers):
        raise TypeError("a record without its position")
    return KafkaRecord(
        topic=entry["topic"],
        partition=entry["partition"],
        offset=entry["offset"],
        timestamp_ms=entry["timestamp"],
        key=_bytes(entry.get("key")),
        value=_bytes(entry.get("value")),
        headers=tuple(
            # Java's bytes are signed; a header may have no value, and whoever writes to a topic can send one.
            (name, bytes(byte & 0xFF for byte in value or ()))
            for header in entry.get("headers") or ()
            for name, value in header.items()
        ),
    )


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text, validate=True)


def batch_response(failed: Iterable[KafkaRecord]) -> dict[str, Any]:
    """The partial batch response that names the records to be delivered again."""
    return {
        "batchItemFailures": [
            {"itemIdentifier": {"partition": f"{record.topic}-{record.partition}", "offset": record.offset}}
            for record in failed
        ]
    }
