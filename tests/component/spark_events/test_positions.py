"""The job's offsets are committed to Kafka with the ids of their topics."""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from local.devstack.config import StackConfig
from masscomm.errors import Retry
from masscomm.kafka.event_sources import EventSources, event_sources
from spark_events.positions import Positions
from spark_metrics.common.broker import Offsets
from spark_metrics.common.waiting import DependencyWaiter
from tests.support.servers.kafka_topics import make_topic

MAPPING: dict[str, Any] = {"type": {"value": "order.paid"}, "club_id": {"value": 1}}


# The coordinator of a new group may not be there yet, for which the job waits, too.
WAIT = DependencyWaiter(60)


def started(positions: Positions) -> Offsets:
    return WAIT.call("Kafka", lambda: positions.start(positions.topic_ids()))


def sources_of(*topics: str) -> EventSources:
    return event_sources({"sources": [{"name": "orders", "topics": list(topics), "mapping": MAPPING}]})


@pytest.fixture
def admin(kafka: StackConfig) -> Iterator[AdminClient]:
    with AdminClient({"bootstrap.servers": kafka.kafka_bootstrap}) as client:
        yield client


@pytest.fixture
def group() -> str:
    return f"test.{uuid.uuid4()}"


@pytest.fixture
def consumer(kafka: StackConfig, group: str) -> Iterator[Consumer]:
    """A consumer of the group that reads nothing."""
    client = Consumer({"bootstrap.servers": kafka.kafka_bootstrap, "group.id": group, "enable.auto.commit": False})
    yield client
    client.close()


def produce(kafka: StackConfig, topic: str, records: int) -> None:
    producer = Producer({"bootstrap.servers": kafka.kafka_bootstrap})
    for _ in range(records):
        producer.produce(topic, b"{}", partition=0)
    assert producer.flush(20) == 0


def test_positions_begin_where_the_group_ended(kafka: StackConfig, group: str) -> None:
    topic, other = make_topic(kafka.kafka_bootstrap, partitions=2), make_topic(kafka.kafka_bootstrap)
    produce(kafka, topic, 3)
    positions = Positions(kafka.kafka_bootstrap, sources_of(topic), group)
    ids = positions.topic_ids()
    assert ids.keys() == {topic}
    assert started(positions) == {(topic, 0): 0, (topic, 1): 0}
    # An offset of a topic without a source is not committed.
    positions.commit({(topic, 0): 2, (other, 0): 1}, ids)
    later = Positions(kafka.kafka_bootstrap, sources_of(topic, other), group)
    assert started(later) == {(topic, 0): 2, (topic, 1): 0, (other, 0): 0}


@pytest.mark.kills(guard="own_topics.offset_of_another_topic")
def test_offset_of_the_topic_before_is_ignored(kafka: StackConfig, group: str, consumer: Consumer) -> None:
    """Kafka deletes the offsets of a deleted topic, but a commit may follow. An operator's offset has no id."""
    topic = make_topic(kafka.kafka_bootstrap)
    produce(kafka, topic, 5)
    positions = Positions(kafka.kafka_bootstrap, sources_of(topic), group)
    assert started(positions) == {(topic, 0): 0}
    for metadata, first in (("the id of the topic before", 0), ("", 4)):
        consumer.commit(offsets=[TopicPartition(topic, 0, 4, metadata=metadata)], asynchronous=False)
        assert started(positions) == {(topic, 0): first}


def test_positions_begin_at_the_first_record_that_kafka_has(
    kafka: StackConfig, group: str, admin: AdminClient, caplog: pytest.LogCaptureFixture
) -> None:
    topic = make_topic(kafka.kafka_bootstrap)
    produce(kafka, topic, 5)
    positions = Positions(kafka.kafka_bootstrap, sources_of(topic), group)
    ids = positions.topic_ids()
    assert started(positions) == {(topic, 0): 0}
    positions.commit({(topic, 0): 1}, ids)
    gone = TopicPartition(topic, 0, 3)
    admin.delete_records([gone])[gone].result(20)
    assert started(positions) == {(topic, 0): 3}
    assert f"{topic}-0: Kafka has deleted the records from 1 to 3 unread" in caplog.text


def test_no_topic_is_no_error(kafka: StackConfig, group: str) -> None:
    positions = Positions(kafka.kafka_bootstrap, sources_of(f"absent-{group}"), group)
    assert positions.topic_ids() == {}
    assert positions.start({}) == {}
    positions.commit({}, {})


@pytest.mark.nightly
def test_broker_that_does_not_answer_is_tried_again(kafka: StackConfig, group: str) -> None:
    positions = Positions("127.0.0.1:1", sources_of("orders"), group, **{"socket.connection.setup.timeout.ms": 1000})
    with pytest.raises(Retry, match="Kafka does not answer"):
        positions.topic_ids()
