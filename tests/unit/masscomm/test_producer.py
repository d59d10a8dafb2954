"""The producer in memory fulfils the contract; the Kafka producer replaces a client with a fatal error."""

from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, KafkaException

from masscomm.errors import Retry
from masscomm.kafka.producer import InMemoryProducer, KafkaProducer, Producer
from tests.support.contracts.producer import DeliveryReports, ProducerContract, Target


class TestInMemoryProducer(ProducerContract):
    @pytest.fixture
    def target(self) -> Target:
        producer = InMemoryProducer()
        return Target(
            producer,
            "topic",
            lambda: [value for _, _, value, _ in producer.produced],
            compacted="dead-letter-status",
        )

    @pytest.fixture
    def unreachable(self) -> Producer:
        producer = InMemoryProducer()
        producer.fail = lambda _topic, _value: Retry("down")
        return producer


class Client:
    """A fake of confluent_kafka's producer; made: all instances, in order."""

    made: list["Client"]

    def __init__(self, _settings: dict[str, Any]) -> None:
        self.made.append(self)
        self.errors: list[Exception] = []
        self.waiting: list[Any] = []

    def produce(self, _topic: str, *, value: Any, key: Any, headers: Any, on_delivery: Any) -> None:
        if self.errors:
            raise self.errors.pop(0)
        self.waiting.append(on_delivery)

    def poll(self, _timeout: float) -> int:
        return 0

    def flush(self, _timeout: float = -1) -> int:
        while self.waiting:
            self.waiting.pop(0)(None, None)
        return 0


@pytest.fixture
def clients(monkeypatch: pytest.MonkeyPatch) -> list[Client]:
    Client.made = []
    monkeypatch.setattr(confluent_kafka, "Producer", Client)
    return Client.made


def test_client_with_a_fatal_error_is_replaced(clients: list[Client]) -> None:
    producer, reports = KafkaProducer("nowhere:1"), DeliveryReports()
    fatal = KafkaError(KafkaError._FATAL, "lost its place", fatal=True)
    clients[0].errors.append(KafkaException(fatal))
    producer.produce("topic", None, b"1", [], reports.to("lost"))
    producer.produce("topic", None, b"2", [], reports.to("next"))
    producer.flush(1)
    assert [type(error) for error in reports.of["lost"]] == [Retry]
    assert reports.of["next"] == [None]
    assert len(clients) == 2


def test_temporary_error_keeps_the_client(clients: list[Client]) -> None:
    producer, reports = KafkaProducer("nowhere:1"), DeliveryReports()
    clients[0].errors.append(KafkaException(KafkaError(KafkaError._ALL_BROKERS_DOWN, "down")))
    producer.produce("topic", None, b"1", [], reports.to("lost"))
    producer.produce("topic", None, b"2", [], reports.to("next"))
    producer.flush(1)
    assert [type(error) for error in reports.of["lost"]] == [Retry]
    assert reports.of["next"] == [None]
    assert len(clients) == 1


def test_a_full_queue_is_emptied_first(clients: list[Client]) -> None:
    producer, reports = KafkaProducer("nowhere:1"), DeliveryReports()
    clients[0].errors += [BufferError("full"), BufferError("full")]
    producer.produce("topic", None, b"1", [], reports.to("a"))
    producer.flush(1)
    assert reports.of == {"a": [None]}


def test_report_after_its_flush_gave_up_is_ignored(clients: list[Client]) -> None:
    producer, reports = KafkaProducer("nowhere:1"), DeliveryReports()
    producer.produce("topic", None, b"1", [], reports.to("late"))
    late = clients[0].waiting.pop()
    producer.flush(1)
    late(None, None)
    assert [type(error) for error in reports.of["late"]] == [Retry]


def test_flush_sends_records_that_linger() -> None:
    """The broker is librdkafka's mock in this process. If the flush waited for the lingering time, it would give up."""
    lingering = {"test.mock.num.brokers": 1, "linger.ms": 600_000, "log_level": 0}
    producer, reports = KafkaProducer("", message_timeout_ms=900_000, **lingering), DeliveryReports()
    producer.produce("topic", b"key", b"value", [], reports.to("lingering"))
    producer.flush(60.0)
    assert reports.of["lingering"] == [None]
