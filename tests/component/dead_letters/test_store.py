"""The store of dead letters in Kafka keeps the contract, and bounds what a page reads."""

from collections.abc import Sequence
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from local.devstack.config import StackConfig
from masscomm.errors import DeadLetter as BadRecord
from masscomm.errors import Retry
from masscomm.kafka.dead_letters import dead_letter_headers
from masscomm.kafka.event import KafkaRecord
from masscomm.kafka.topic_reading import TopicReader
from masscomm.operations import dead_letter_replays, dead_letter_store
from masscomm.operations.dead_letter_store import DeadLetterStore, KafkaDeadLetters, LetterPage
from masscomm.operations.dead_letters import DeadLetter
from tests.support.contracts.dead_letter_store import DeadLetterStoreContract, Made, found, values
from tests.support.until import until


@pytest.fixture
def made(kafka: StackConfig) -> Made:
    name = f"test.{uuid4()}"
    source, dead, status = f"{name}.source", f"{name}.dead", f"{name}.status"
    with AdminClient({"bootstrap.servers": kafka.kafka_bootstrap}) as admin:
        for future in admin.create_topics([NewTopic(topic, 1, 1) for topic in (source, dead, status)]).values():
            future.result(20)
    consumer = Consumer({"bootstrap.servers": kafka.kafka_bootstrap, "broker.address.family": "v4", "group.id": name})

    def have_leaders() -> bool:
        try:
            for topic in (source, dead, status):
                consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=5)
        except KafkaException:
            return False
        return True

    until("the new topics have leaders", have_leaders, 20)
    consumer.close()

    def of(several: Sequence[bytes]) -> DeadLetterStore:
        producer = Producer({"bootstrap.servers": kafka.kafka_bootstrap, "broker.address.family": "v4"})
        for offset, value in enumerate(several):
            record = KafkaRecord(topic=source, partition=3, offset=offset, timestamp_ms=1)
            headers = dead_letter_headers(record, BadRecord("invalid", "bad"), "preference_checker")
            producer.produce(dead, value, b"key", headers=list(headers))
        assert producer.flush(20) == 0
        return KafkaDeadLetters(kafka.kafka_bootstrap, allowed=frozenset({source}), topic=dead, status_topic=status)

    return of


class TestKafkaDeadLetters(DeadLetterStoreContract):
    @pytest.fixture
    def made(self, made: Made) -> Made:
        return made


def test_a_page_reads_a_bounded_number_of_records(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page without matches ends, and continues with the next one."""
    monkeypatch.setattr(dead_letter_store, "WINDOW", 3)
    monkeypatch.setattr(dead_letter_store, "MAX_READ", 6)
    store = made([b"%d" % number for number in range(8)])
    seen = list[bytes | None]()

    def refuse(letter: DeadLetter) -> None:
        seen.append(letter.value)

    first: LetterPage[None] = store.page(refuse, before=None, limit=5, budget_s=30)
    assert (list(first.rows), first.before, len(seen)) == ([], 2, 6)
    assert store.page(refuse, before=2, limit=5, budget_s=30).before is None
    assert sorted(each or b"" for each in seen) == [b"%d" % number for number in range(8)]
    assert store.page(refuse, before=None, limit=5, budget_s=0).before == 8


def test_marks_of_another_store_are_seen(made: Made) -> None:
    """Each environment of the function has a store of its own."""
    first = made([b"one", b"two"])
    assert isinstance(first, KafkaDeadLetters)
    second = KafkaDeadLetters(
        first._bootstrap, allowed=first._allowed, topic=first._topic, status_topic=first._status_topic
    )
    assert dict(first.marks()) == {}
    assert second.replay(found(first, "0@1"), operator="bob").ok
    assert sorted(first.marks()) == ["0@1"]
    assert not first.replay(found(first, "0@1"), operator="ada").ok
    assert first.replay(found(first, "0@0"), operator="ada").ok
    assert sorted(second.marks()) == ["0@0", "0@1"]


class Lagging(TopicReader):
    """A reader of a broker that shows the last record of a topic after some questions."""

    left = 0

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        first, end = super().bounds(topic, partition)
        type(self).left -= 1
        return first, end - 2 if self.left >= 0 else end


@pytest.mark.kills(guard="dead_letters.marks_are_seen")
def test_an_operation_ends_when_its_mark_is_shown(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker acknowledges a commit before readers of committed records can see it."""
    monkeypatch.setattr(dead_letter_replays, "TopicReader", Lagging)
    monkeypatch.setattr(Lagging, "left", 3)
    store = made([b"one", b"two"])
    assert store.replay(found(store, "0@0"), operator="ada").ok
    assert Lagging.left < 0
    assert sorted(store.marks()) == ["0@0"]

    monkeypatch.setattr(Lagging, "left", 1_000_000)
    monkeypatch.setattr(dead_letter_replays, "MARK_SHOWN_S", 0.0)
    with pytest.raises(Retry, match="not shown yet"):
        store.discard(found(store, "0@1"), "over", operator="ada", request="its digest")
    monkeypatch.undo()
    assert store.discard(found(store, "0@1"), "over", operator="ada", request="its digest").repeated


def test_a_topic_that_is_created_again_has_no_mark(made: Made, kafka: StackConfig) -> None:
    """Other dead letters have the positions of the former ones."""
    store = made([b"one", b"two"])
    assert isinstance(store, KafkaDeadLetters)
    for position in ("0@0", "0@1"):
        assert store.discard(found(store, position), "over", operator="ada").ok
    with AdminClient({"bootstrap.servers": kafka.kafka_bootstrap}) as admin:
        for future in admin.delete_topics([store._topic]).values():
            future.result(20)

        def is_created() -> bool:
            try:
                for future in admin.create_topics([NewTopic(store._topic, 1, 1)]).values():
                    future.result(20)
            except KafkaException:  # The broker is still deleting the topic.
                return False
            return True

        until("the topic is created again", is_created, 20)
    producer = Producer({"bootstrap.servers": kafka.kafka_bootstrap, "broker.address.family": "v4"})
    record = KafkaRecord(topic=next(iter(store._allowed)), partition=3, offset=0, timestamp_ms=1)
    headers = dead_letter_headers(record, BadRecord("invalid", "bad"), "preference_checker")
    producer.produce(store._topic, b"three", b"key", headers=list(headers))
    assert producer.flush(20) == 0
    again = KafkaDeadLetters(
        kafka.kafka_bootstrap, allowed=store._allowed, topic=store._topic, status_topic=store._status_topic
    )
    assert (again.open_count(), dict(again.marks())) == (1, {})
    assert again.replay(found(again, "0@0"), operator="ada").ok
    assert sorted(again.marks()) == ["0@0"]


def test_a_broker_that_is_down_is_a_retry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("masscomm.kafka.topic_reading.TIMEOUT_S", 0.2)
    with pytest.raises(Retry):
        values(KafkaDeadLetters("127.0.0.1:1", allowed=frozenset()))
