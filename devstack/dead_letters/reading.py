"""Reading a whole topic, from its beginning to the end it has now."""

from collections.abc import Iterator

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

TIMEOUT_S = 10


def read_topic(bootstrap: str, topic: str) -> Iterator[Message]:
    """Every committed record, partition by partition. Raises KafkaException when the broker does not answer."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "masscomm.dead-letters",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            # The end cannot be told from the high watermark: transaction markers take offsets and are never seen.
            "enable.partition.eof": True,
            "broker.address.family": "v4",
        }
    )
    try:
        found = consumer.list_topics(topic, timeout=TIMEOUT_S).topics[topic]
        if found.error is not None:
            raise KafkaException(found.error)
        for partition in sorted(found.partitions):
            consumer.assign([TopicPartition(topic, partition, 0)])
            yield from _to_the_end(consumer, topic, partition)
    finally:
        consumer.close()


def _to_the_end(consumer: Consumer, topic: str, partition: int) -> Iterator[Message]:
    low, _ = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=TIMEOUT_S)
    consumer.assign([TopicPartition(topic, partition, low)])
    while True:
        message = consumer.poll(TIMEOUT_S)
        if message is None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"{topic}-{partition} is not answered for"))
        error = message.error()
        if error is None:
            yield message
        elif error.code() == KafkaError._PARTITION_EOF:
            return
        else:
            raise KafkaException(error)
