from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from devstack import inbox
from devstack.config import StackConfig
from devstack.inbox import Inbox, Message
from masscomm.domain.ids import notification_id

SEND = "0f8fad5b-d9cb-469f-a165-70867728950e"


def message(user_id: int, channel: str = "push", send_id: str = SEND) -> Message:
    return Message(
        user_id=user_id,
        channel=channel,
        notification_id=notification_id(send_id, user_id, channel),
        receiver="device 10 (gcm)",
        title="Hello",
        text="It works.",
    )


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[list[Message]]]:
    """The lists of messages that the next reads of the inbox return, one list for each read."""
    answers: list[list[Message]] = []
    monkeypatch.setattr(Inbox, "messages", lambda _: answers.pop(0))
    monkeypatch.setattr(inbox, "POLL_S", 0)
    yield answers
    assert answers == []


def of_users(tmp_path: Path, *user_ids: int) -> Inbox:
    return Inbox(StackConfig.on_free_ports(tmp_path), user_ids)


def test_messages_of_other_sends_are_left_out(read: list[list[Message]], tmp_path: Path) -> None:
    read.append([message(1), message(1, send_id="another"), message(2, channel="email")])
    assert of_users(tmp_path, 1, 2).of_send(SEND) == [message(1), message(2, channel="email")]


def test_following_shows_each_message_once_and_each_duplicate(read: list[list[Message]], tmp_path: Path) -> None:
    first, second = message(1), message(2)
    read += [[first], [first, second], [first, first, second]]
    assert list(islice(of_users(tmp_path, 1, 2).follow(), 3)) == [first, second, first]


def test_message_is_printed_with_its_receiver_and_words() -> None:
    printed = message(1).rendered().plain
    assert printed.splitlines()[:3] == ["push to user 1, device 10 (gcm)", "  Hello", "  It works."]
