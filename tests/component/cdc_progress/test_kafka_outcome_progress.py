"""The progress of the consumer of outcomes on a real broker."""

from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from local.devstack.config import StackConfig
from local.devstack.provision import create_topics
from masscomm.clock import SystemClock
from masscomm.errors import Retry
from masscomm.kafka.outcome_progress import KafkaOutcomeProgress
from masscomm.kafka.topics import OUTCOME, chain_topics
from tests.support.until import until

# With this time left, the progress waits for a second.
SHORT_S = 6.0


def _progress(bootstrap: str, group: str) -> KafkaOutcomeProgress:
    return KafkaOutcomeProgress(bootstrap, group=group, clock=SystemClock(), security={})


def _has_passed(progress: KafkaOutcomeProgress) -> bool | None:
    """Return whether the present time is passed; None while the broker has no leader or group coordinator."""
    try:
        return progress.has_passed(SystemClock().now_ms(), SHORT_S)
    except Retry:
        return None


def test_time_is_passed_once_each_record_is_committed(kafka: StackConfig) -> None:
    create_topics(kafka.kafka_bootstrap, [topic for topic in chain_topics() if topic.name == OUTCOME])
    group, settings = f"g{uuid4().hex}", {"bootstrap.servers": kafka.kafka_bootstrap, "broker.address.family": "v4"}
    producer = Producer(dict(settings))
    producer.produce(OUTCOME, b"{}", partition=0)
    assert producer.flush(10) == 0
    progress = _progress(kafka.kafka_bootstrap, group)
    until("the broker answers", lambda: _has_passed(progress) is not None)
    assert _has_passed(progress) is False
    consumer = Consumer(settings | {"group.id": group})
    places = [TopicPartition(OUTCOME, each) for each in consumer.list_topics(OUTCOME, 10).topics[OUTCOME].partitions]
    ends = [consumer.get_watermark_offsets(place, 10)[1] for place in places]
    commits = [TopicPartition(OUTCOME, place.partition, end) for place, end in zip(places, ends, strict=True)]
    consumer.commit(offsets=commits, asynchronous=False)
    consumer.close()
    assert _has_passed(progress) is True


def test_unreachable_broker_is_a_retry() -> None:
    with pytest.raises(Retry, match="Kafka does not return"):
        _progress("127.0.0.1:9", "g").has_passed(SystemClock().now_ms(), 60)
