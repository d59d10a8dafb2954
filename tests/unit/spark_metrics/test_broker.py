"""The job's queries to the broker, with a fake client."""

import pytest

from masscomm.errors import Retry
from spark_metrics.common.broker import Broker
from tests.support.fakes.kafka_admin_client import patch_admin_client


def test_unknown_end_offset_is_a_retry_on_a_new_client(monkeypatch: pytest.MonkeyPatch) -> None:
    events = patch_admin_client(monkeypatch, -1001, 7)
    asked = Broker("broker:9092")
    with pytest.raises(Retry, match="no answer for outcome-0"):
        asked.ends(["outcome"])
    assert asked.ends(["outcome"]).end == {("outcome", 0): 7}
    assert events == ["made", "destroyed", "made"]


def test_topic_created_before_topic_ids_has_no_id(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka reports a zero id for such a topic, and may assign an id later without recreating the topic."""
    patch_admin_client(monkeypatch, 0)
    assert Broker("broker:9092").topic_ids(["outcome"]) == {}
    patch_admin_client(monkeypatch, 7)
    assert set(Broker("broker:9092").topic_ids(["outcome"])) == {"outcome"}
