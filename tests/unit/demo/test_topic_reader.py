"""A topic reader reads end offsets from fake broker clients."""

from unittest.mock import Mock

import pytest

from local.devstack.demo import records
from local.devstack.demo.records import TopicReader
from tests.support.fakes.kafka_admin_client import patch_admin_client


def test_client_without_an_end_offset_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    events = patch_admin_client(monkeypatch, -1001, 7)
    monkeypatch.setattr(records, "Consumer", consumer := Mock())
    reader = TopicReader("broker:9092", ["outcome"], from_beginning=False)
    [place] = consumer.return_value.assign.call_args.args[0]
    assert (place.topic, place.partition, place.offset) == ("outcome", 0, 7)
    assert events == ["made", "destroyed", "made"]
    reader.close()
    assert events[3:] == ["destroyed"]
