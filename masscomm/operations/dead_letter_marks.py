"""Marks of replayed and discarded dead letters: one mark per dead letter, keyed by its position, on a compacted
topic.

A mark contains the whole history of its dead letter, because compaction keeps only the last record of a key.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from masscomm.kafka.topic_reading import NO_SECURITY, read_topic


class MarkKind(StrEnum):
    """An operation on a dead letter."""

    REPLAYED = "replayed"  # The bytes of the dead letter were produced to its source topic again.
    DISCARDED = "discarded"  # The dead letter will not be processed any more.


@dataclass(frozen=True, kw_only=True)
class Mark:
    """The last operation on a dead letter, and the list of all of them."""

    kind: MarkKind
    # The operations, oldest first. An operation has the keys `status`, `at` (ISO 8601, UTC), `by` (the operator's user
    # name), and `to` (the topic of a replay) or `why` (the reason of a discard), and `request` (the digest of a request
    # with an Idempotency-Key).
    history: tuple[Mapping[str, str], ...]

    def encode(self) -> bytes:
        """Return the mark as bytes, as it is stored on the topic."""
        return json.dumps({"status": self.kind, "history": self.history}).encode()


def decode(value: bytes) -> Mark:
    """Parse a mark.

    Raises:
        ValueError: The bytes are not a mark.
    """
    try:
        document: dict[str, Any] = json.loads(value)
        return Mark(kind=MarkKind(document["status"]), history=tuple(document["history"]))
    except (KeyError, TypeError) as error:
        raise ValueError(f"no mark: {error!r}") from error


def read_marks(bootstrap: str, topic: str, security: Mapping[str, Any] = NO_SECURITY) -> dict[str, Mark]:
    """Return the mark of each dead letter that has one, by the dead letter's own position (partition@offset)."""
    marks: dict[str, Mark] = {}
    for message in read_topic(bootstrap, topic, security):
        key, value = message.key(), message.value()
        if isinstance(key, bytes) and isinstance(value, bytes):
            marks[key.decode()] = decode(value)
    return marks
