"""What the job asks the broker, with a client that stands in for it."""

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from masscomm.errors import Retry
from spark_metrics import broker
from spark_metrics.broker import Broker


def test_an_end_that_nobody_knows_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader is gone: the client answers -1001, without an error."""
    offsets = iter([-1001, 7])

    class Client:
        def __init__(self, _settings: dict[str, Any]) -> None:
            self.offset = next(offsets)

        def list_topics(self, timeout: float) -> SimpleNamespace:
            return SimpleNamespace(topics={"outcome": SimpleNamespace(error=None, partitions={0: None})})

        def list_offsets(self, asked: dict[Any, Any], request_timeout: float) -> dict[Any, Future[Any]]:
            answer: Future[Any] = Future()
            answer.set_result(SimpleNamespace(offset=self.offset))
            return dict.fromkeys(asked, answer)

    monkeypatch.setattr(broker, "AdminClient", Client)
    asked = Broker("broker:9092")
    with pytest.raises(Retry, match="no answer for outcome-0"):
        asked.ends(["outcome"])
    assert asked.ends(["outcome"]).end == {("outcome", 0): 7}
