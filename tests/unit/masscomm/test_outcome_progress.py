"""The consumer of outcomes has passed a time once it has committed each record that was produced before."""

from typing import Any
from unittest.mock import MagicMock

import pytest

from masscomm.clock import FixedClock
from masscomm.errors import Retry
from masscomm.kafka import outcome_progress, topics
from masscomm.kafka.outcome_progress import GROUP, KafkaOutcomeProgress
from tests.support.harness.chain import NOW


class Broker:
    """Offsets that a test sets, and the calls for them."""

    def __init__(self) -> None:
        self.ends = {(topics.OUTCOME, 0): 5, (topics.OUTCOME, 1): 0}
        self.committed: dict[int, int] = {0: 5}
        self.asked = 0


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    found = Broker()
    monkeypatch.setattr(outcome_progress, "topic_offsets", lambda *_, **__: dict(found.ends))
    return found


@pytest.fixture
def progress(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> KafkaOutcomeProgress:
    made = KafkaOutcomeProgress("broker:9092", group=GROUP, clock=FixedClock(NOW), security={})

    def offsets(*_: Any, **__: Any) -> Any:
        broker.asked += 1
        found = [
            MagicMock(topic=topics.OUTCOME, partition=partition, offset=offset, error=None)
            for partition, offset in broker.committed.items()
        ]
        answer = MagicMock()
        answer.result.return_value.topic_partitions = found
        return {GROUP: answer}

    partitions = MagicMock(error=None, partitions={0: None, 1: None})
    client = MagicMock()
    client.list_topics.return_value.topics = {topics.OUTCOME: partitions}
    client.list_consumer_group_offsets = offsets
    monkeypatch.setattr(made, "_admin", MagicMock(client=lambda: client))
    return made


def test_time_is_passed_at_the_ends_of_the_topic(progress: KafkaOutcomeProgress, broker: Broker) -> None:
    assert progress.has_passed(NOW, 60)
    broker.ends[topics.OUTCOME, 1] = 9
    assert progress.has_passed(NOW, 60)
    assert broker.asked == 1


@pytest.mark.kills(guard="fallbacks.consumer_has_passed")
def test_time_is_not_passed_before_each_partition_is(progress: KafkaOutcomeProgress, broker: Broker) -> None:
    broker.ends[topics.OUTCOME, 1] = 1
    assert not progress.has_passed(NOW, 60)
    assert broker.asked > 2
    broker.committed[1] = 1
    assert progress.has_passed(NOW, 60)


def test_time_ahead_of_the_clock_is_not_passed(progress: KafkaOutcomeProgress) -> None:
    assert not progress.has_passed(NOW + 60_000, 60)


def test_time_is_not_passed_without_time_to_ask(progress: KafkaOutcomeProgress, broker: Broker) -> None:
    assert not progress.has_passed(NOW, 1)
    assert broker.asked == 0


def test_broker_without_answer_raises_retry(progress: KafkaOutcomeProgress, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> dict[Any, int]:
        raise Retry("no answer")

    monkeypatch.setattr(outcome_progress, "topic_offsets", fails)
    with pytest.raises(Retry):
        progress.has_passed(NOW, 60)
