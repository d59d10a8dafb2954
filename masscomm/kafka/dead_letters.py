"""The dead-letter record: the original bytes, and in the headers where they stood and why they are here.

Our headers are masked (masscomm.untrusted). The key, the value and the record's own headers stay the original bytes,
personal data included: a replay needs them.
"""

from collections.abc import Sequence

from masscomm.errors import DeadLetter
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
# On a record that was replayed: which dead letter it was, as topic-partition@offset.
REPLAYED = "masscomm.replayed"

_ERROR_CHARACTERS = 1_000


def dead_letter_headers(record: KafkaRecord, error: DeadLetter, function: str) -> Headers:
    """The record's own headers, then ours; a replayed record keeps the position it first had."""
    masked = mask(str(error))  # guard: masking.dead_letter_headers
    ours: Headers = [
        (REASON, error.reason.encode()),
        # An error may quote what no encoding takes; a dead letter must not fail for its own reason.
        (ERROR, visible(masked)[:_ERROR_CHARACTERS].encode()),
        (FUNCTION, function.encode()),
    ]
    position: Headers = [
        (SOURCE_TOPIC, record.topic.encode()),
        (SOURCE_PARTITION, str(record.partition).encode()),
        (SOURCE_OFFSET, str(record.offset).encode()),
        (SOURCE_TIMESTAMP, str(record.timestamp_ms).encode()),
    ]
    replaced = {name for name, _ in ours}
    if not _is_replay(record):
        ours = position + ours
        replaced |= {name for name, _ in position}
    return [(name, value) for name, value in record.headers if name not in replaced] + ours


def replay_headers(headers: Sequence[tuple[str, bytes]], letter: str) -> Headers:
    """The headers of a dead letter's replay: its own and its original position's, and which dead letter it was.

    The position is what the ids of a send without a send_id follow from: a replay must derive the same ones.
    """
    ours = {REASON, ERROR, FUNCTION, REPLAYED}
    return [(name, value) for name, value in headers if name not in ours] + [(REPLAYED, letter.encode())]


def _is_replay(record: KafkaRecord) -> bool:
    """Whether the headers hold a position that can be kept."""
    try:
        return record.header(SOURCE_TOPIC) is not None and bool(original_position(record))
    except DeadLetter:
        return False


def original_position(record: KafkaRecord) -> tuple[str, int, int, int]:
    """(topic, partition, offset, timestamp ms) where the record first stood, also after a replay.

    Errors: DeadLetter(invalid) where the headers say something that is no position.
    """
    topic = record.header(SOURCE_TOPIC)
    if topic is None:
        return record.topic, record.partition, record.offset, record.timestamp_ms
    try:
        partition, offset, timestamp = (
            int(record.header(name) or b"") for name in (SOURCE_PARTITION, SOURCE_OFFSET, SOURCE_TIMESTAMP)
        )
        return topic.decode(), partition, offset, timestamp
    except ValueError as error:
        raise DeadLetter("invalid", "the original-position headers are not a position") from error
