"""The progress that asks Kafka, with a client that stands in for the broker."""

from typing import Any

import confluent_kafka.admin
import pytest
from confluent_kafka import KafkaError, KafkaException

from masscomm.cdc_progress import KafkaCdcProgress
from masscomm.errors import Retry


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
