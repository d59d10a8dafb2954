"""Reads topics up to their current ends, without a consumer group."""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from masscomm.errors import Retry
from masscomm.kafka.event import KafkaRecord

if TYPE_CHECKING:
    from confluent_kafka import Message, TopicPartition

TIMEOUT_S = 10
# Kafka clients must have a group id; no offset is ever committed under it.
OPERATIONS_GROUP = "masscomm.operations"
NO_SECURITY: Mapping[str, Any] = MappingProxyType({})


def record_of(message: "Message") -> KafkaRecord:
    """Return a consumed message as a record, without its headers. Raises Retry if it has no position."""
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    if topic is None or partition is None or offset is None:
        raise Retry("Kafka handed over a record without its position")
    key, value = message.key(), message.value()
    return KafkaRecord(
        topic=topic,
        partition=partition,
        offset=offset,
        timestamp_ms=message.timestamp()[1],
        key=key if key is None or isinstance(key, bytes) else key.encode(),
        value=value if value is None or isinstance(value, bytes) else value.encode(),
    )


def read_topic(bootstrap: str, topic: str, security: Mapping[str, Any] = NO_SECURITY) -> "Iterator[Message]":
    """Yield every committed record, partition by partition.

    Args:
        bootstrap: The address of the Kafka broker.
        topic: The name of the topic.
        security: Further configuration of the Kafka client, for authentication.

    Raises:
        KafkaException: The broker does not respond.
    """
    with TopicReader(bootstrap, security) as reader:
        for partition in reader.partitions(topic):
            yield from reader.read([partition])


def read_topics(
    bootstrap: str, topics: Iterable[str], security: Mapping[str, Any] = NO_SECURITY
) -> "Iterator[Message]":
    """Yield every committed record of several topics: in order within a partition, the partitions in any order.

    Raises KafkaException if the broker does not respond.
    """
    with TopicReader(bootstrap, security) as reader:
        yield from reader.read([partition for topic in topics for partition in reader.partitions(topic)])


class TopicReader:
    """A consumer for one thread. Its methods raise KafkaException if the broker does not respond."""

    def __init__(self, bootstrap: str, security: Mapping[str, Any] = NO_SECURITY) -> None:
        from confluent_kafka import Consumer

        self._consumer: Consumer = Consumer(
            {
                **security,
                "bootstrap.servers": bootstrap,
                "group.id": OPERATIONS_GROUP,
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                # The end of a partition is detected by its EOF event, because the high watermark also counts
                # transaction markers, which are never delivered.
                "enable.partition.eof": True,
                # The end of a partition is known after an empty response, which the broker delays by fetch.wait.max.ms.
                "fetch.wait.max.ms": 10,
                "broker.address.family": "v4",
            }
        )

    def __enter__(self) -> "TopicReader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._consumer.close()

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        """Return the first offset of a partition, and the offset after its last record."""
        from confluent_kafka import TopicPartition

        first, end = self._consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=TIMEOUT_S)
        return first, end

    def partitions(self, topic: str) -> "list[TopicPartition]":
        """Return the first offset of each partition that is not empty."""
        from confluent_kafka import KafkaException, TopicPartition

        found = self._consumer.list_topics(topic, timeout=TIMEOUT_S).topics[topic]
        if found.error is not None:
            raise KafkaException(found.error)
        bounds = {partition: self.bounds(topic, partition) for partition in sorted(found.partitions)}
        return [TopicPartition(topic, partition, low) for partition, (low, high) in bounds.items() if low < high]

    def read(self, partitions: "Iterable[TopicPartition]") -> "Iterator[Message]":
        """Yield the committed records of partitions from the given offsets to their ends."""
        from confluent_kafka import KafkaError, KafkaException

        partitions = list(partitions)
        if not partitions:
            return
        self._consumer.assign(partitions)
        waiting = {(partition.topic, partition.partition) for partition in partitions}
        while waiting:
            message = self._consumer.poll(TIMEOUT_S)
            if message is None:
                names = ", ".join(f"{topic}-{partition}" for topic, partition in sorted(waiting))
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"{names} is not answered for"))
            error = message.error()
            if error is None:
                yield message
            elif error.code() == KafkaError._PARTITION_EOF:
                waiting.discard((message.topic() or "", message.partition() or 0))
            else:
                raise KafkaException(error)

    def read_range(self, topic: str, partition: int, start: int, end: int) -> "Iterator[Message]":
        """Yield the committed records of a partition with an offset in [start, end)."""
        from confluent_kafka import TopicPartition

        for message in self.read([TopicPartition(topic, partition, start)]):
            if (message.offset() or 0) >= end:
                return
            yield message
