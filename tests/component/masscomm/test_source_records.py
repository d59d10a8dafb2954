import socket

import pytest

from local.devstack.config import StackConfig
from masscomm.errors import Retry
from masscomm.kafka.producer import KafkaProducer
from masscomm.kafka.source_records import KafkaSourceRecords
from tests.support.contracts.source_records import HEADERS, SourceRecordsContract, StoredRecords
from tests.support.servers.kafka_topics import make_topic


class TestKafkaSourceRecords(SourceRecordsContract):
    @pytest.fixture
    def stored(self, kafka: StackConfig) -> StoredRecords:
        stored = StoredRecords(KafkaSourceRecords(kafka.kafka_bootstrap), make_topic(kafka.kafka_bootstrap))
        producer = KafkaProducer(kafka.kafka_bootstrap)
        errors: list[Exception | None] = []
        for value in stored.values:
            producer.produce(stored.topic, b"key", value, list(HEADERS), errors.append)
        producer.flush(20)
        assert errors == [None] * 3
        return stored


def test_unreachable_broker_is_a_retry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("masscomm.kafka.source_records.SOURCE_RECORD_REQUEST_S", 0.5)
    with socket.socket() as bound:  # a bound socket that does not listen makes the broker unreachable
        bound.bind(("127.0.0.1", 0))
        with pytest.raises(Retry):
            KafkaSourceRecords(f"127.0.0.1:{bound.getsockname()[1]}").at("topic", 0, 0)
