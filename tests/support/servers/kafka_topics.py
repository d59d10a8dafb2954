"""Topics for single tests on the shared broker."""

from uuid import uuid4

from confluent_kafka import Consumer, Message, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic


def make_topic(bootstrap: str, *, partitions: int = 1, **options: str) -> str:
    """Make a topic with a unique name; options: Kafka's configuration, with _ for a dot."""
    name = f"test.{uuid4()}"
    with AdminClient({"bootstrap.servers": bootstrap}) as admin:
        config = {key.replace("_", "."): value for key, value in options.items()}
        admin.create_topics([NewTopic(name, partitions, 1, config=config)])[name].result(20)
    return name


def messages_of(bootstrap: str, topic: str) -> list[Message]:
    """The records of a topic with one partition."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "test", "enable.auto.commit": False})
    try:
        partition = TopicPartition(topic, 0, 0)
        _, end = consumer.get_watermark_offsets(partition, timeout=20)
        consumer.assign([partition])
        messages: list[Message] = []
        while len(messages) < end:
            message = consumer.poll(20)
            assert message is not None
            assert message.error() is None
            messages.append(message)
        return messages
    finally:
        consumer.close()
