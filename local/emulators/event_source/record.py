"""Records of a topic, and the `aws:kafka` event with which a function is invoked.

Source: AWS documentation, "Using Lambda with Amazon MSK", the example event.
"""

import base64
import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import NamedTuple


class Partition(NamedTuple):
    """One partition of one topic."""

    topic: str
    number: int

    def __str__(self) -> str:
        """Return the name of the partition in an event and in a partial batch response: `topic-number`."""
        return f"{self.topic}-{self.number}"


@dataclass(frozen=True, kw_only=True)
class SourceRecord:
    """One record of a topic.

    Attributes:
        timestamp_ms: The time of the record in milliseconds since the epoch.
        timestamp_type: The kind of that time: CREATE_TIME, LOG_APPEND_TIME or NO_TIMESTAMP_TYPE.
        value: The bytes of the value; None for a tombstone.
    """

    partition: Partition
    offset: int
    timestamp_ms: int
    timestamp_type: str = "CREATE_TIME"
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()

    @property
    def memory(self) -> int:
        """Return the approximate size of the record in memory in bytes, for the limit of the buffer."""
        return len(self.key or b"") + len(self.value or b"") + 512

    @cached_property
    def encoded(self) -> bytes:
        """Return the record as JSON, as in an event; a missing key, and the missing value of a tombstone, are
        omitted.
        """
        document: dict[str, object] = {
            "topic": self.partition.topic,
            "partition": self.partition.number,
            "offset": self.offset,
            "timestamp": self.timestamp_ms,
            "timestampType": self.timestamp_type,
        }
        if self.key is not None:
            document["key"] = base64.b64encode(self.key).decode()
        if self.value is not None:
            document["value"] = base64.b64encode(self.value).decode()
        document["headers"] = [
            # Lambda's pollers are written in Java, whose bytes are signed.
            {name: [byte - 256 if byte > 127 else byte for byte in value or b""]}
            for name, value in self.headers
        ]
        return json.dumps(document, separators=(",", ":")).encode()


@dataclass(frozen=True, kw_only=True)
class EventEnvelope:
    """The fields that all events of one mapping share."""

    event_source_arn: str
    bootstrap_servers: str

    def encode(self, records: Iterable[SourceRecord]) -> bytes:
        """Return the event for these records as JSON; records of one partition must be adjacent."""
        groups = (
            json.dumps(str(partition)).encode() + b":[" + b",".join(record.encoded for record in group) + b"]"
            for partition, group in groupby(records, key=lambda record: record.partition)
        )
        return self._head + b",".join(groups) + b"}}"

    @property
    def overhead(self) -> int:
        """Return the size in bytes of an event without records."""
        return len(self._head) + 2

    @staticmethod
    def added(record: SourceRecord, *, first_of_partition: bool) -> int:
        """Return the maximum number of bytes by which a record enlarges an event."""
        heading = len(json.dumps(str(record.partition))) + len(":[],") if first_of_partition else 0
        return len(record.encoded) + len(",") + heading

    @cached_property
    def _head(self) -> bytes:
        head = {
            "eventSource": "aws:kafka",
            "eventSourceArn": self.event_source_arn,
            "bootstrapServers": self.bootstrap_servers,
        }
        return json.dumps(head, separators=(",", ":")).encode()[:-1] + b',"records":{'
