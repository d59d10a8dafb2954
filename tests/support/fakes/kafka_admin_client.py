"""A confluent_kafka AdminClient that stands in for a broker."""

from collections.abc import Collection
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import confluent_kafka.admin
import pytest
from confluent_kafka import TopicCollection, Uuid


def stand_in(monkeypatch: pytest.MonkeyPatch, *ends: int, topics: Collection[str] = ("outcome",)) -> list[str]:
    """Have each client that is made say another end of each topic's only partition; -1001, as where a leader is gone.

    The end is its id, too.

    Gives what becomes of clients, as it happens: "made", "destroyed".
    """
    left = iter(ends)
    said: list[str] = []

    class Client:
        def __init__(self, _settings: dict[str, Any]) -> None:
            self.end = next(left)
            said.append("made")

        def __exit__(self, *_: object) -> None:
            said.append("destroyed")

        def list_topics(self, *_: object, **__: object) -> SimpleNamespace:
            return SimpleNamespace(topics=dict.fromkeys(topics, SimpleNamespace(error=None, partitions={0: None})))

        def describe_topics(self, asked: TopicCollection, **_: object) -> dict[str, Future[Any]]:
            answer: Future[Any] = Future()
            answer.set_result(SimpleNamespace(topic_id=Uuid(0, self.end)))
            return dict.fromkeys(asked.topic_names, answer)

        def list_offsets(self, asked: dict[Any, Any], **_: object) -> dict[Any, Future[Any]]:
            answer: Future[Any] = Future()
            answer.set_result(SimpleNamespace(offset=self.end))
            return dict.fromkeys(asked, answer)

    monkeypatch.setattr(confluent_kafka.admin, "AdminClient", Client)
    return said
