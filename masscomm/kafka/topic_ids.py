"""Kafka's ids of topics: a topic that is deleted and created again has another one."""

from collections.abc import Sequence

from masscomm.errors import Retry
from masscomm.kafka.admin import KafkaAdmin
from masscomm.kafka.topic_reading import TIMEOUT_S


def topic_ids(admin: KafkaAdmin, topics: Sequence[str]) -> dict[str, str]:
    """Return the ids of topics. A topic that is older than topic ids is omitted. Raises Retry if Kafka does not
    describe each topic.
    """
    from confluent_kafka import KafkaException, TopicCollection, Uuid

    no_id = str(Uuid(0, 0))
    try:
        asked = admin.client().describe_topics(TopicCollection(list(topics)), request_timeout=TIMEOUT_S)
        found = {name: str(answer.result().topic_id) for name, answer in asked.items()}
    except KafkaException as error:
        admin.close()
        raise Retry(f"Kafka does not describe its topics: {error}") from error
    return {name: topic_id for name, topic_id in found.items() if topic_id != no_id}
