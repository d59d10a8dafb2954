from collections.abc import Collection
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import confluent_kafka.admin
import pytest
from confluent_kafka import TopicCollection, Uuid


def patch_admin_client(
    monkeypatch: pytest.MonkeyPatch, *ends: int, topics: Collection[str] = ("outcome",)
) -> list[str]:
    """Replace AdminClient by a fake whose nth instance returns ends[n] as the end of each topic's only partition.

    The end is also the topic's id; -1001 is Kafka's answer for a partition without a leader.

    Returns:
        A list that grows with each creation ("made") and destruction ("destroyed") of a client.
    """
    remaining = iter(ends)
    events: list[str] = []

    class Client:
        def __init__(self, _settings: dict[str, Any]) -> None:
            self.end = next(remaining)
            events.append("made")

        def __exit__(self, *_: object) -> None:
            events.append("destroyed")

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
    return events
