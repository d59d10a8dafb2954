"""The progress of change data capture is read from Kafka, here through a fake client."""

from typing import Any

import confluent_kafka.admin
import pytest
from confluent_kafka import KafkaError, KafkaException

from masscomm.cdc.captured_tables import captured_tables
from masscomm.cdc.progress import KafkaCdcProgress
from masscomm.errors import Retry
from masscomm.kafka.topics import cdc_topic
from tests.support.fakes.kafka_admin_client import patch_admin_client


def test_timed_out_request_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []

    class Client:
        def __init__(self, _settings: dict[str, Any]) -> None:
            events.append("made")

        def __exit__(self, *_: object) -> None:
            events.append("destroyed")

        def list_topics(self, timeout: float) -> None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    monkeypatch.setattr(confluent_kafka.admin, "AdminClient", Client)
    progress = KafkaCdcProgress("broker:9092", generation="g1", group="g", offsets_topic="o")
    for ask in (progress.committed_offsets, progress.committed_offsets, progress.end_offsets):
        events.clear()
        with pytest.raises(Retry):
            ask()
        assert events == ["made", "destroyed"]


@pytest.mark.guarantee("kafka_down.no_leader_means_incomplete")
def test_partition_without_a_known_end_is_a_retry(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = [cdc_topic(table, "g1") for table in captured_tables()]
    events = patch_admin_client(monkeypatch, -1001, 7, topics=tables)
    progress = KafkaCdcProgress("broker:9092", generation="g1", group="g", offsets_topic="o")
    with pytest.raises(Retry, match="no answer for"):
        progress.end_offsets()
    assert progress.end_offsets() == {table: {0: 7} for table in tables}
    assert events == ["made", "destroyed", "made"]
    progress.close()
    assert events[3:] == ["destroyed"]
