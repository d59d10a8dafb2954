import socket
from collections.abc import Iterator

import pytest

from local.devstack.config import StackConfig
from masscomm.errors import Retry
from masscomm.kafka.producer import KafkaProducer, Producer
from tests.support.contracts.producer import TOO_LARGE, DeliveryReports, ProducerContract, Target
from tests.support.servers.kafka_topics import make_topic, messages_of


class TestKafkaProducer(ProducerContract):
    @pytest.fixture
    def target(self, kafka: StackConfig) -> Target:
        topic = make_topic(kafka.kafka_bootstrap)
        producer = KafkaProducer(kafka.kafka_bootstrap)
        return Target(
            producer,
            topic,
            lambda: [message.value() for message in messages_of(kafka.kafka_bootstrap, topic)],
            compacted=make_topic(kafka.kafka_bootstrap, cleanup_policy="compact"),
        )

    @pytest.fixture
    def unreachable(self) -> Iterator[Producer]:
        with socket.socket() as bound:  # a bound socket that does not listen makes the broker unreachable
            bound.bind(("127.0.0.1", 0))
            yield KafkaProducer(f"127.0.0.1:{bound.getsockname()[1]}", message_timeout_ms=1000)

    def test_record_too_large_for_the_broker_is_a_dead_letter(self, target: Target) -> None:
        reports = DeliveryReports()
        assert len(TOO_LARGE) < 3_000_000  # less than the client's own limit, so that the broker rejects the record
        target.producer.produce(target.topic, None, TOO_LARGE, [], reports.to("large"))
        target.producer.flush(20)
        assert [getattr(error, "reason", error) for error in reports.of["large"]] == ["too_large"]
        assert target.values() == []

    @pytest.mark.guarantee("kafka_answer.no_topic")
    def test_absent_topic_is_a_retry(self, kafka: StackConfig) -> None:
        reports = DeliveryReports()
        producer = KafkaProducer(kafka.kafka_bootstrap, message_timeout_ms=1000)
        producer.produce("absent", None, b"value", [], reports.to("a"))
        producer.flush(20)
        assert [type(error) for error in reports.of["a"]] == [Retry]

    def test_timed_out_record_is_reported_by_the_client(self, unreachable: Producer) -> None:
        reports = DeliveryReports()
        unreachable.produce("topic", None, b"value", [], reports.to("a"))
        unreachable.flush(20)
        (error,) = reports.of["a"]
        assert "timed out" in str(error)
