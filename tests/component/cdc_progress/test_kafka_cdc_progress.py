import json
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from local.devstack.config import StackConfig
from local.devstack.provision import create_topics
from masscomm.cdc.progress import KafkaCdcProgress
from masscomm.errors import Retry
from masscomm.kafka.topics import cdc_topics
from tests.support.contracts.cdc_progress import STREAMING, Capture, CdcProgressContract
from tests.support.until import until


class KafkaCapture(Capture):
    """A generation on the real broker. group: the pattern of cdc_consumer's groups, which may contain {topic}."""

    def __init__(self, bootstrap: str, group: str = "group.{generation}") -> None:
        self.generation = f"t{uuid4().hex[:8]}"
        self.bootstrap = {"bootstrap.servers": bootstrap, "broker.address.family": "v4"}
        self.offsets_topic = f"offsets.{self.generation}"
        self.group = group.replace("{generation}", self.generation)
        create_topics(bootstrap, cdc_topics(self.generation))
        with AdminClient(dict(self.bootstrap)) as admin:
            admin.create_topics([NewTopic(self.offsets_topic, 2, 1)])[self.offsets_topic].result()
            until(
                "the broker knows the new topic",
                lambda: admin.list_topics(self.offsets_topic, 10).topics[self.offsets_topic].error is None,
            )
        self.progress: KafkaCdcProgress = KafkaCdcProgress(
            bootstrap, generation=self.generation, group=self.group, offsets_topic=self.offsets_topic
        )
        self._await_leaders()

    def close(self) -> None:
        self.progress.close()

    def _await_leaders(self) -> None:
        """Wait until a new topic has leaders and a new broker a group coordinator: before, each call raises Retry."""
        deadline, pause = time.monotonic() + 30, threading.Event()
        while True:
            try:
                self.progress.end_offsets()
                self.progress.committed_offsets()
            except Retry:
                assert time.monotonic() < deadline
                pause.wait(0.05)
            else:
                return

    def write(self, topic: str, partition: int, count: int) -> None:
        producer = Producer(dict(self.bootstrap))
        for _ in range(count):
            producer.produce(topic, b"{}", b"a key", partition=partition)
        assert producer.flush(10) == 0

    def commit(self, topic: str, partition: int, offset: int) -> None:
        consumer = Consumer(self.bootstrap | {"group.id": self.group.replace("{topic}", topic)})
        consumer.commit(offsets=[TopicPartition(topic, partition, offset)], asynchronous=False)
        consumer.close()

    def store(self, generation: str, offset: dict[str, Any], **config: Any) -> None:
        producer = Producer(self.bootstrap | config)
        if config:
            producer.init_transactions(10)
            producer.begin_transaction()
        key = json.dumps([f"monolith-{generation}", {"server": f"cdc.{generation}"}])
        producer.produce(self.offsets_topic, json.dumps(offset).encode(), key=key.encode())
        if config:
            producer.commit_transaction(10)
        assert producer.flush(10) == 0


class TestKafkaCdcProgress(CdcProgressContract):
    @pytest.fixture
    def capture(self, kafka: StackConfig) -> Iterator[KafkaCapture]:
        with closing(KafkaCapture(kafka.kafka_bootstrap)) as made:
            yield made

    def test_transaction_marker_at_the_end_is_not_awaited(self, capture: KafkaCapture) -> None:
        capture.store(capture.generation, STREAMING, **{"transactional.id": capture.generation})
        assert capture.progress.acknowledged_lsn() == 77
        assert capture.progress.acknowledged_lsn() == 77

    def test_a_table_without_its_topic_is_not_ready(self, kafka: StackConfig) -> None:
        progress = KafkaCdcProgress(
            kafka.kafka_bootstrap, generation="never-made", group="nobody", offsets_topic="connect.offsets"
        )
        with pytest.raises(Retry, match="there is no topic"):
            progress.end_offsets()
        with pytest.raises(Retry, match="there is no topic"):
            progress.committed_offsets()

    def test_unreachable_broker_is_a_retry_for_each_query(self) -> None:
        progress = KafkaCdcProgress("127.0.0.1:9", generation="g", group="g", offsets_topic="o", timeout_s=0.5)
        for ask in (progress.acknowledged_lsn, progress.end_offsets, progress.committed_offsets):
            with pytest.raises(Retry, match="Kafka does not return"):
                ask()


class TestKafkaCdcProgressOfAGroupForEachTopic(CdcProgressContract):
    """The contract with groups as in AWS, where each mapping consumes one topic under its own group."""

    @pytest.fixture
    def capture(self, kafka: StackConfig) -> Iterator[KafkaCapture]:
        with closing(KafkaCapture(kafka.kafka_bootstrap, group="group.{generation}.{topic}")) as made:
            yield made
