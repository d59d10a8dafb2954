"""Closing an AdminClient destroys it at once, on any thread, without waiting."""

import threading
from typing import Any

import confluent_kafka.admin
import pytest
from confluent_kafka import TopicPartition

from masscomm.kafka.admin import KafkaAdmin

NOBODY = {"bootstrap.servers": "127.0.0.1:9", "log_level": 0}


def test_closing_thread_destroys_a_client_before_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[tuple[str, threading.Thread]] = []

    class Client:
        def __init__(self, _settings: dict[str, Any]) -> None:
            said.append(("made", threading.current_thread()))

        def __exit__(self, *_: object) -> None:
            said.append(("destroyed", threading.current_thread()))

    monkeypatch.setattr(confluent_kafka.admin, "AdminClient", Client)
    admin = KafkaAdmin(NOBODY)
    admin.close()
    assert said == []
    first = admin.client()
    assert admin.client() is first
    admin.close()
    admin.close()
    assert admin.client() is not first
    assert said == [(each, threading.current_thread()) for each in ("made", "destroyed", "made")]


def test_client_with_a_pending_request_is_gone_once_closed() -> None:
    """A second reference to the client, such as the traceback of a failed future, does not keep the client alive."""
    admin = KafkaAdmin(NOBODY)
    kept = admin.client()
    latest = confluent_kafka.admin.OffsetSpec.latest()  # type: ignore[attr-defined,no-untyped-call]
    [asked] = kept.list_offsets({TopicPartition("t", 0): latest}, request_timeout=60).values()
    admin.close()
    with pytest.raises(RuntimeError, match="closed"):
        kept.list_topics(timeout=1)
    assert not asked.done()
