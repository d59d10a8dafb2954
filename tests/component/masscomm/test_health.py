"""Lags and the directory's age are read from a real broker."""

from collections.abc import Iterator
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from local.devstack.config import StackConfig
from masscomm.errors import Retry
from masscomm.kafka.topics import cdc_topic
from masscomm.operations.health import DirectoryAge, KafkaHealth, Lag

MOMENT_MS = 1_795_262_400_000


@pytest.fixture
def generation(kafka: StackConfig) -> Iterator[str]:
    """A generation of the directory whose heartbeat topic exists."""
    name = f"t{uuid4().hex[:12]}"
    topic = cdc_topic("heartbeat", name)
    with AdminClient({"bootstrap.servers": kafka.kafka_bootstrap}) as admin:
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(20)
        yield name
        admin.delete_topics([topic])[topic].result(20)


def health(kafka: StackConfig, generation: str) -> KafkaHealth:
    group = f"test.{generation}.{{function}}.{{topic}}"
    return KafkaHealth(kafka.kafka_bootstrap, generation=generation, group=group, security={})


def produce(kafka: StackConfig, topic: str, number: int) -> None:
    producer = Producer({"bootstrap.servers": kafka.kafka_bootstrap, "broker.address.family": "v4"})
    for each in range(number):
        producer.produce(topic, b"v", timestamp=MOMENT_MS + each)
    assert producer.flush(20) == 0


def commit(kafka: StackConfig, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": kafka.kafka_bootstrap, "group.id": group, "broker.address.family": "v4"})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def test_lag_and_age_follow_the_committed_offset(kafka: StackConfig, generation: str) -> None:
    topic, measured = cdc_topic("heartbeat", generation), health(kafka, generation)
    produce(kafka, topic, 5)

    def lag() -> Lag:
        (found,) = (each for each in measured.lags() if each.topic == topic)
        return found

    assert lag() == Lag(function="cdc_consumer", topic=topic, records=5)
    assert measured.directory_ages() == [DirectoryAge(generation=generation, heartbeat_at_ms=None)]
    commit(kafka, f"test.{generation}.cdc_consumer.{topic}", topic, 3)
    assert lag().records == 2
    assert measured.directory_ages() == [DirectoryAge(generation=generation, heartbeat_at_ms=MOMENT_MS + 2)]


def test_a_broker_that_is_down_is_a_retry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("masscomm.operations.health.CDC_PROGRESS_REQUEST_S", 0.2)
    down = KafkaHealth("127.0.0.1:1", generation="g1", group="g.{function}", security={})
    for measure in (down.lags, down.directory_ages):
        with pytest.raises(Retry):
            measure()
