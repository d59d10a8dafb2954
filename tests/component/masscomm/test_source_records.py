"""A record read again from the real broker."""

import socket

import pytest

from devstack.settings import StackSettings
from masscomm.errors import Retry
from masscomm.producer import KafkaProducer
from masscomm.source_records import KafkaSourceRecords
from tests.component.masscomm.broker import make_topic


def test_a_record_is_read_where_it_stands_with_all_that_belongs_to_it(kafka: StackSettings) -> None:
    topic = make_topic(kafka.kafka_bootstrap)
    producer = KafkaProducer(kafka.kafka_bootstrap)
    errors: list[Exception | None] = []
    for value in (b"first", b"second", b"third"):
        producer.produce(topic, b"key", value, [("name", value), ("name", b"\xff")], errors.append)
    producer.flush(20)
    assert errors == [None] * 3
    source = KafkaSourceRecords(kafka.kafka_bootstrap)
    for offset, value in ((1, b"second"), (2, b"third"), (0, b"first")):
        record = source.at(topic, 0, offset)
        assert record is not None
        assert (record.topic, record.partition, record.offset, record.key) == (topic, 0, offset, b"key")
        assert (record.value, record.headers) == (value, (("name", value), ("name", b"\xff")))
        assert record.timestamp_ms > 0


def test_what_never_was_is_not_there(kafka: StackSettings) -> None:
    topic = make_topic(kafka.kafka_bootstrap)
    source = KafkaSourceRecords(kafka.kafka_bootstrap)
    assert source.at(topic, 0, 0) is None
    assert source.at(topic, 9, 0) is None


def test_a_broker_that_does_not_answer_is_asked_again_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("masscomm.source_records._TIMEOUT_S", 0.5)
    with socket.socket() as bound:  # bound, and nobody listens
        bound.bind(("127.0.0.1", 0))
        with pytest.raises(Retry):
            KafkaSourceRecords(f"127.0.0.1:{bound.getsockname()[1]}").at("topic", 0, 0)
