"""Parses the event of a Kafka event source mapping, and builds the response of the Lambda function.

Source: AWS Lambda developer guide, "Using Lambda with Amazon MSK" and "Partial batch responses for Kafka".
"""

import base64
import binascii
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple


class KafkaRecord(NamedTuple):
    """One record of a topic, with its original bytes."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None = None
    # The bytes of the value; None in a tombstone.
    value: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()

    def header(self, name: str) -> bytes | None:
        """Return the value of the last header with that name, as Kafka's lastHeader does; None if there is none."""
        return next((value for key, value in reversed(self.headers) if key == name), None)

    @property
    def source_position(self) -> str:
        """Return the record's position as topic-partition@offset, for log lines and messages."""
        return f"{self.topic}-{self.partition}@{self.offset}"


def parse(event: Mapping[str, Any]) -> list[KafkaRecord]:
    """Return the records of an `aws:kafka` event, in the order of the event.

    Raises:
        ValueError: The event is not an `aws:kafka` event. Its sender is the cause, not the data of a record.
    """
    try:
        return [_record(entry) for entries in event["records"].values() for entry in entries]
    except (KeyError, TypeError, AttributeError, binascii.Error) as error:
        raise ValueError(f"not an aws:kafka event: {error!r}") from error


def _record(entry: Mapping[str, Any]) -> KafkaRecord:
    numbers = entry["partition"], entry["offset"], entry["timestamp"]
    # The event inside an on-failure record is untrusted, because any producer may have written it. A missing timestamp
    # is -1.
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
            (name, _header_value(value)) for header in entry.get("headers") or () for name, value in header.items()
        ),
    )


def _header_value(value: list[int] | None) -> bytes:
    """Return the value of a header, which the event has as Java's signed bytes. It is empty if the header has no value:
    any producer of the topic can send such a header.
    """
    if value is None:
        return b""
    if type(value) is not list:
        raise TypeError("a header's value is not a list")
    try:
        return bytes(value)  # A `traceparent` has only characters of ASCII, whose bytes are not negative.
    except ValueError:
        return bytes([byte & 0xFF for byte in value])


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text, validate=True)


def event_of(record: KafkaRecord) -> dict[str, Any]:
    """Return the `aws:kafka` event with a single record, from which `parse` returns the same record."""
    entry: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "headers": [{name: list(value)} for name, value in record.headers],
    }
    if record.key is not None:
        entry["key"] = base64.b64encode(record.key).decode()
    if record.value is not None:
        entry["value"] = base64.b64encode(record.value).decode()
    return {"eventSource": "aws:kafka", "records": {f"{record.topic}-{record.partition}": [entry]}}


def batch_response(failed: Iterable[KafkaRecord]) -> dict[str, Any]:
    """Return the partial batch response that lists the records to redeliver."""
    return {
        "batchItemFailures": [
            {"itemIdentifier": {"partition": f"{record.topic}-{record.partition}", "offset": record.offset}}
            for record in failed
        ]
    }
