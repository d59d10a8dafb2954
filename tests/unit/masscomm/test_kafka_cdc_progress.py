"""The progress that asks Kafka, with a client that stands in for the broker."""

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import confluent_kafka.admin
import pytest
from confluent_kafka import KafkaError, KafkaException

from masscomm.cdc_progress import KafkaCdcProgress
from masscomm.errors import Retry
from masscomm.topics import CDC_TABLES, cdc_topic


def test_a_client_that_times_out_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []

    class Client:
        def __init__(self, _settings: dict[str, Any]) -> None:
            made.append(self)

        def list_topics(self, timeout: float) -> None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    monkeypatch.setattr(confluent_kafka.admin, "AdminClient", Client)
    progress = KafkaCdcProgress("broker:9092", generation="g1", group="g", offsets_topic="o")
    for attempts in (1, 2):
        with pytest.raises(Retry):
            progress.committed_offsets()
        assert len(made) == attempts
    with pytest.raises(Retry):
        progress.end_offsets()
    assert len(made) == 3


def test_a_partition_whose_end_nobody_knows_is_not_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader is gone: the client answers -1001, without an error."""
    made: list[object] = []
    ends = [-1001, 7]

    class Client:
        def __init__(self, _settings: dict[str, Any]) -> None:
            made.append(self)
            self.end = ends.pop(0)

        def list_topics(self, timeout: float) -> SimpleNamespace:
            known = SimpleNamespace(error=None, partitions={0: None})
            return SimpleNamespace(topics={cdc_topic(table, "g1"): known for table in CDC_TABLES})

        def list_offsets(self, asked: dict[Any, Any], request_timeout: float) -> dict[Any, Future[Any]]:
            answer: Future[Any] = Future()
            answer.set_result(SimpleNamespace(offset=self.end))
            return dict.fromkeys(asked, answer)

    monkeypatch.setattr(confluent_kafka.admin, "AdminClient", Client)
    progress = KafkaCdcProgress("broker:9092", generation="g1", group="g", offsets_topic="o")
    with pytest.raises(Retry, match="no answer for"):
        progress.end_offsets()
    assert progress.end_offsets() == {cdc_topic(table, "g1"): {0: 7} for table in CDC_TABLES}
    assert len(made) == 2
