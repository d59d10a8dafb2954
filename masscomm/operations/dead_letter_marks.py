"""Marks of replayed and discarded dead letters: one mark per dead letter, keyed by its position, on a compacted
topic.

A mark contains the whole history of its dead letter, because compaction keeps only the last record of a key.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from masscomm.kafka.admin import KafkaAdmin
from masscomm.kafka.topic_ids import topic_ids
from masscomm.kafka.topic_reading import NO_SECURITY, read_topic
from masscomm.kafka.topics import DEAD_LETTER


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
    # Kafka's id of the topic of the dead letter; None if it is older than topic ids.
    topic_id: str | None = None

    def is_of(self, topic_id: str | None) -> bool:
        """Return whether the mark concerns a dead letter of the topic with this id. In a topic that was created again,
        other dead letters have the positions. None, the id of a topic that is older than topic ids, matches every mark.
        """
        return (
            self.topic_id is None or topic_id is None or self.topic_id == topic_id
        )  # guard: dead_letters.marked_topic

    def encode(self) -> bytes:
        """Return the mark as bytes, as it is stored on the topic."""
        known = {} if self.topic_id is None else {"topic_id": self.topic_id}
        return json.dumps({"status": self.kind, "history": self.history, **known}).encode()


def decode(value: bytes) -> Mark:
    """Parse a mark.

    Raises:
        ValueError: The bytes are not a mark.
    """
    try:
        document: dict[str, Any] = json.loads(value)
        return Mark(
            kind=MarkKind(document["status"]),
            history=tuple(document["history"]),
            topic_id=document.get("topic_id"),
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"no mark: {error!r}") from error


def id_of_letters(bootstrap: str, topic: str = DEAD_LETTER, security: Mapping[str, Any] = NO_SECURITY) -> str | None:
    """Return Kafka's id of the topic of dead letters; None if it is older than topic ids. Raises Retry."""
    admin = KafkaAdmin({**security, "bootstrap.servers": bootstrap, "broker.address.family": "v4"})
    try:
        return topic_ids(admin, [topic]).get(topic)
    finally:
        admin.close()


def read_marks(
    bootstrap: str, topic: str, security: Mapping[str, Any] = NO_SECURITY, *, of: str | None = None
) -> dict[str, Mark]:
    """Return the mark of each dead letter that has one, by the dead letter's own position (partition@offset).

    Args:
        bootstrap: The address of the Kafka broker.
        topic: The name of the topic of marks.
        security: Further configuration of the Kafka client, for authentication.
        of: Kafka's id of the topic of dead letters.
    """
    marks: dict[str, Mark] = {}
    for message in read_topic(bootstrap, topic, security):
        key, value = message.key(), message.value()
        if isinstance(key, bytes) and isinstance(value, bytes):
            marks[key.decode()] = decode(value)
    return {position: mark for position, mark in marks.items() if mark.is_of(of)}
