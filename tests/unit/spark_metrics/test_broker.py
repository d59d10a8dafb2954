"""What the job asks the broker, with a client that stands in for it."""

import pytest

from masscomm.errors import Retry
from spark_metrics.broker import Broker
from tests.support.fakes.kafka_admin_client import stand_in


def test_an_end_that_nobody_knows_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    said = stand_in(monkeypatch, -1001, 7)
    asked = Broker("broker:9092")
    with pytest.raises(Retry, match="no answer for outcome-0"):
        asked.ends(["outcome"])
    assert asked.ends(["outcome"]).end == {("outcome", 0): 7}
    assert said == ["made", "destroyed", "made"]


def test_a_topic_that_is_older_than_ids_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is given one later, without being made again."""
    stand_in(monkeypatch, 0)
    assert Broker("broker:9092").topic_ids(["outcome"]) == {}
    stand_in(monkeypatch, 7)
    assert set(Broker("broker:9092").topic_ids(["outcome"])) == {"outcome"}
