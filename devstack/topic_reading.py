"""Reads whole topics, from their beginning to their current end."""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from devstack.client_log import KAFKA_LOGGER

TIMEOUT_S = 10
# Kafka clients must have a group id; no offset is ever committed under it.
OPERATIONS_GROUP = "masscomm.operations"
NO_SECURITY: Mapping[str, Any] = MappingProxyType({})


def read_topic(bootstrap: str, topic: str, security: Mapping[str, Any] = NO_SECURITY) -> Iterator[Message]:
    """Yield every committed record, partition by partition.

    Args:
        bootstrap: The address of the Kafka broker.
        topic: The name of the topic.
        security: Further configuration of the Kafka client, for authentication.

    Raises:
        KafkaException: The broker does not respond.
    """
    consumer = _consumer(bootstrap, security)
    try:
        for partition in _whole(consumer, topic):
            consumer.assign([partition])
            yield from _to_the_ends(consumer, [partition])
    finally:
        consumer.close()


def read_topics(bootstrap: str, topics: Iterable[str], security: Mapping[str, Any] = NO_SECURITY) -> Iterator[Message]:
    """Yield every committed record of several topics: in order within a partition, the partitions in any order.

    Raises KafkaException if the broker does not respond.
    """
    consumer = _consumer(bootstrap, security)
    try:
        partitions = [partition for topic in topics for partition in _whole(consumer, topic)]
        if partitions:
            consumer.assign(partitions)
            yield from _to_the_ends(consumer, partitions)
    finally:
        consumer.close()


def _consumer(bootstrap: str, security: Mapping[str, Any]) -> Consumer:
    return Consumer(
        {
            **security,
            "bootstrap.servers": bootstrap,
            "group.id": OPERATIONS_GROUP,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            # The end of a partition is detected by its EOF event, because the high watermark also counts transaction
            # markers, which are never delivered.
            "enable.partition.eof": True,
            # The end of a partition is known after an empty response, which the broker delays by fetch.wait.max.ms.
            "fetch.wait.max.ms": 10,
            "broker.address.family": "v4",
            "logger": KAFKA_LOGGER,
        }
    )


def _whole(consumer: Consumer, topic: str) -> list[TopicPartition]:
    """Return the first offset of each partition that is not empty."""
    found = consumer.list_topics(topic, timeout=TIMEOUT_S).topics[topic]
    if found.error is not None:
        raise KafkaException(found.error)
    bounds = {
        partition: consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=TIMEOUT_S)
        for partition in sorted(found.partitions)
    }
    return [TopicPartition(topic, partition, low) for partition, (low, high) in bounds.items() if low < high]


def _to_the_ends(consumer: Consumer, partitions: Iterable[TopicPartition]) -> Iterator[Message]:
    waiting = {(partition.topic, partition.partition) for partition in partitions}
    while waiting:
        message = consumer.poll(TIMEOUT_S)
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
