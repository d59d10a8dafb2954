"""What was done with a dead letter: one mark a letter, keyed by its position, on a compacted topic.

The mark holds its whole history, because compaction keeps the last record of a key only.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from devstack.topic_reading import NO_SECURITY, read_topic


class MarkKind(StrEnum):
    """What can be done with a dead letter."""

    REPLAYED = "replayed"  # its bytes stand on its source topic again
    DISCARDED = "discarded"  # written off: nobody expects it to be processed any more


@dataclass(frozen=True, kw_only=True)
class Mark:
    """The last thing that was done, and everything that was, oldest first.

    history: each with status, at (ISO 8601, UTC), by (a user of the machine), and to (a topic) or why.
    """

    kind: MarkKind
    history: tuple[Mapping[str, str], ...]

    def encode(self) -> bytes:
        """As it stands on the topic."""
        return json.dumps({"status": self.kind, "history": self.history}).encode()


def decode(value: bytes) -> Mark:
    """Raises ValueError where the bytes are no mark."""
    try:
        document: dict[str, Any] = json.loads(value)
        return Mark(kind=MarkKind(document["status"]), history=tuple(document["history"]))
    except (KeyError, TypeError) as error:
        raise ValueError(f"no mark: {error!r}") from error


def read_marks(bootstrap: str, topic: str, security: Mapping[str, Any] = NO_SECURITY) -> dict[str, Mark]:
    """The mark of each letter that has one, by the letter's own position (partition@offset)."""
    marks: dict[str, Mark] = {}
    for message in read_topic(bootstrap, topic, security):
        key, value = message.key(), message.value()
        if isinstance(key, bytes) and isinstance(value, bytes):
            marks[key.decode()] = decode(value)
    return marks
