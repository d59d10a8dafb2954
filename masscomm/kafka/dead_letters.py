"""Builds dead-letter records: the original bytes of a record, with headers for its source position and the reason.

The headers that masscomm adds are masked (masscomm.untrusted). The key, the value and the record's own headers keep the
original bytes, personal data included, because a replay needs them.
"""

from collections.abc import Sequence

from masscomm.errors import DeadLetter
from masscomm.integers import integer
from masscomm.kafka.event import KafkaRecord
from masscomm.kafka.producer import Headers
from masscomm.untrusted import mask, visible

SOURCE_TOPIC = "masscomm.source.topic"
SOURCE_PARTITION = "masscomm.source.partition"
SOURCE_OFFSET = "masscomm.source.offset"
SOURCE_TIMESTAMP = "masscomm.source.timestamp"
REASON = "masscomm.reason"
ERROR = "masscomm.error"
FUNCTION = "masscomm.function"
# A header of a replayed record: the position of its dead letter, as topic-partition@offset.
REPLAYED = "masscomm.replayed"

_ERROR_CHARACTERS = 1_000


class ContainedDeadLetter(DeadLetter):
    """A permanent fault of a record inside the consumed one. The contained record is dead-lettered."""

    def __init__(self, record: KafkaRecord, reason: str, message: str) -> None:
        super().__init__(reason, message)
        self.record = record


def dead_letter_headers(record: KafkaRecord, error: DeadLetter, function: str) -> Headers:
    """Return the record's own headers, followed by those of the dead letter. A replayed record keeps the source
    position of the first original.
    """
    masked = mask(str(error))  # guard: masking.dead_letter_headers
    ours: Headers = [
        (REASON, error.reason.encode()),
        # The error may quote text that UTF-8 cannot encode. That must not prevent the production of the dead letter.
        (ERROR, visible(masked)[:_ERROR_CHARACTERS].encode()),
        (FUNCTION, function.encode()),
    ]
    replaced = {name for name, _ in ours}
    return [(name, value) for name, value in with_position(record) if name not in replaced] + ours


def with_position(record: KafkaRecord) -> Headers:
    """Return the record's headers with its source position. A replayed record keeps that of the first original."""
    if _is_replay(record):
        return list(record.headers)
    position: Headers = [
        (SOURCE_TOPIC, record.topic.encode()),
        (SOURCE_PARTITION, str(record.partition).encode()),
        (SOURCE_OFFSET, str(record.offset).encode()),
        (SOURCE_TIMESTAMP, str(record.timestamp_ms).encode()),
    ]
    replaced = {name for name, _ in position}
    return [(name, value) for name, value in record.headers if name not in replaced] + position


def replay_headers(headers: Sequence[tuple[str, bytes]], letter: str) -> Headers:
    """Return the headers of a replayed record: its own headers, its original position and the position of its dead
    letter.

    The ids of a send without a send_id are derived from the original position, so a replay must keep it.

    Args:
        headers: The headers of the dead letter.
        letter: The position of the dead letter, as topic-partition@offset.
    """
    ours = {REASON, ERROR, FUNCTION, REPLAYED}
    return [(name, value) for name, value in headers if name not in ours] + [(REPLAYED, letter.encode())]


def _is_replay(record: KafkaRecord) -> bool:
    """Return whether the headers contain a valid original position (topic, partition, offset)."""
    try:
        return record.header(SOURCE_TOPIC) is not None and bool(original_position(record))
    except DeadLetter:
        return False


def original_position(record: KafkaRecord) -> tuple[str, int, int, int]:
    """Return the topic, partition, offset and timestamp (ms) of the record when it was first produced, even after a
    replay.

    Raises:
        DeadLetter: The headers contain an invalid position (invalid).
    """
    topic = record.header(SOURCE_TOPIC)
    if topic is None:
        return record.topic, record.partition, record.offset, record.timestamp_ms
    try:
        partition, offset, timestamp = (
            integer(record.header(name)) for name in (SOURCE_PARTITION, SOURCE_OFFSET, SOURCE_TIMESTAMP)
        )
        return topic.decode(), partition, offset, timestamp
    except ValueError as error:
        raise DeadLetter("invalid", "the original-position headers are not a position") from error
