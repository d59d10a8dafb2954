"""Reading the dead-letter topic."""

from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from confluent_kafka import Consumer, Message, TopicPartition

from masscomm import dead_letters as headers
from masscomm.topics import DEAD_LETTER

TIMEOUT_S = 10


@dataclass(frozen=True)
class DeadLetter:
    """One record of the topic: where it stood, when (ISO 8601, UTC), why it is here, and its size in bytes."""

    topic: str
    partition: str
    offset: str
    timestamp: str
    reason: str
    error: str
    function: str
    size: int

    def as_dict(self) -> dict[str, str | int]:
        """For JSON."""
        return asdict(self)


def read(message: Message) -> DeadLetter:
    """What a dead letter's headers say; a header that is missing reads as an empty string."""
    found = dict(message.headers() or [])

    def text(name: str) -> str:
        value = found.get(name) or b""
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else value

    timestamp = text(headers.SOURCE_TIMESTAMP)
    when = datetime.fromtimestamp(int(timestamp) / 1000, UTC).isoformat() if timestamp.isdecimal() else timestamp
    return DeadLetter(
        topic=text(headers.SOURCE_TOPIC),
        partition=text(headers.SOURCE_PARTITION),
        offset=text(headers.SOURCE_OFFSET),
        timestamp=when,
        reason=text(headers.REASON),
        error=text(headers.ERROR),
        function=text(headers.FUNCTION),
        size=len(message.value() or b""),
    )


def newest(bootstrap: str, limit: int) -> list[DeadLetter]:
    """The newest `limit` dead letters, oldest first. Raises KafkaException when the broker does not answer."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "masscomm.dead-letters", "enable.auto.commit": False}
    )
    try:
        partitions = consumer.list_topics(DEAD_LETTER, timeout=TIMEOUT_S).topics[DEAD_LETTER].partitions
        found: list[tuple[int, DeadLetter]] = []
        for partition in partitions:
            low, high = consumer.get_watermark_offsets(TopicPartition(DEAD_LETTER, partition), timeout=TIMEOUT_S)
            begin = max(low, high - limit)
            consumer.assign([TopicPartition(DEAD_LETTER, partition, begin)])
            position = begin
            while position < high:
                messages = consumer.consume(num_messages=min(500, high - position), timeout=TIMEOUT_S)
                if not messages:
                    break  # the rest of the range was removed by retention
                for message in messages:
                    position = (message.offset() or 0) + 1
                    found.append((message.timestamp()[1], read(message)))
        found.sort(key=lambda each: each[0])
        return [letter for _, letter in found[-limit:]]
    finally:
        consumer.close()
