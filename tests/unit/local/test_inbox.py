import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import pytest

from local.devstack import inbox
from local.devstack.config import StackConfig
from local.devstack.demo import provider
from local.devstack.demo.provider import Foreign
from local.devstack.demo.records import Published, PublishTimes
from local.devstack.inbox import Inbox, Message
from masscomm.directory.in_memory import InMemoryDirectory
from masscomm.domain.ids import notification_id
from masscomm.domain.users import Device, User
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec, InMemorySchemaRegistry, own_schema
from ops.provisioning import SCHEMAS

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
    """Return the inbox of the users; without any, that of all users."""
    return Inbox(StackConfig.on_free_ports(tmp_path), user_ids or None)


def test_unsubscribe_link_of_an_email_is_shown() -> None:
    link = "http://127.0.0.1:8080/v1/unsubscribe/token"
    assert link in replace(message(1, "email"), unsubscribe_link=link).rendered().plain
    assert "unsubscribe" not in message(1).rendered().plain


def test_deep_link_of_a_push_is_shown() -> None:
    assert "\n  link riverside://matches/7\n" in replace(message(1), url="riverside://matches/7").rendered().plain
    assert "link" not in message(1).rendered().plain


def test_message_in_another_form_is_shown_as_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    arn = "arn:aws:sns:us-east-1:000000000000:endpoint/GCM/masscomm/1"
    device = Device(device_id=10, user_id=1, platform="gcm", endpoint_arn=arn)
    directory = InMemoryDirectory()
    directory.put(User(user_id=1, club_id=7, email="ada@club1.example"), device)
    monkeypatch.setattr(Inbox, "_directory", directory)
    monkeypatch.setattr(Inbox, "_times", SimpleNamespace(all=lambda: {message(1).notification_id: Published(1, 1)}))
    pushed, mailed = Foreign("push", arn, "default text"), Foreign("email", "ada@club1.example", "raw")
    monkeypatch.setattr(provider, "pushes_to", lambda *_: [pushed])
    monkeypatch.setattr(provider, "emails", lambda *_: [mailed])
    for inbox_of in (of_users(tmp_path), of_users(tmp_path, 1)):
        assert [each.text for each in inbox_of.messages()] == ["default text", "raw"]
        shown = inbox_of.messages()[0].rendered().plain
        assert "push to user 1, device 10 (gcm)\n  Not a message of masscomm\n  default text" in shown
    assert of_users(tmp_path, 1).of_send(SEND) == []


def test_messages_of_other_sends_are_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = [message(1), message(1, send_id="another"), message(2, channel="email")]
    monkeypatch.setattr(Inbox, "_received", lambda *_: found)
    assert of_users(tmp_path, 1, 2).of_send(SEND) == [message(1), message(2, channel="email")]


def test_following_shows_each_message_once_and_each_duplicate(read: list[list[Message]], tmp_path: Path) -> None:
    first, second = message(1), message(2)
    read += [[first], [first, second], [first, first, second]]
    assert list(islice(of_users(tmp_path, 1, 2).follow(), 3)) == [first, second, first]


def test_messages_are_in_the_order_of_their_times(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A message whose outcome is not emitted yet is the last one, and has no time."""
    found = [message(1), message(2), message(3)]
    times = {found[0].notification_id: Published(2_000, 1), found[2].notification_id: Published(1_000, 3)}
    monkeypatch.setattr(Inbox, "_received", lambda *_: found)
    monkeypatch.setattr(Inbox, "_times", SimpleNamespace(all=lambda: times))
    assert [(each.user_id, each.at_ms) for each in of_users(tmp_path, 1, 2, 3).messages()] == [
        (3, 1_000),
        (1, 2_000),
        (2, None),
    ]


def test_inbox_without_users_has_the_latest_messages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = [message(user_id) for user_id in range(1, inbox.LATEST + 3)]
    times = {each.notification_id: Published(each.user_id, each.user_id) for each in found}
    monkeypatch.setattr(Inbox, "_times", SimpleNamespace(all=lambda: times))
    # The users of the latest messages have an older one, too.
    older = [message(user_id, send_id="another") for user_id in range(1, inbox.LATEST + 3)]
    monkeypatch.setattr(Inbox, "_received", lambda _, users: [each for each in found + older if each.user_id in users])
    assert [each.user_id for each in of_users(tmp_path).messages()] == list(range(3, inbox.LATEST + 3))


def test_time_of_a_message_is_that_of_its_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = InMemorySchemaRegistry()
    registry.register(f"{topics.OUTCOME}-value", own_schema("NotificationOutcome"))
    codec = Codec(registry)
    outcome = json.loads((SCHEMAS / "examples" / "NotificationOutcome.sent.json").read_text())
    suppressed = outcome | {"results": [outcome["results"][0] | {"status": "suppressed"}], "timestamp": 1}
    records = [codec.encode(topics.OUTCOME, "NotificationOutcome", each) for each in (suppressed, outcome)]
    polled = [b"no outcome", *records]
    reader = SimpleNamespace(poll=lambda: [SimpleNamespace(value=lambda value=value: value) for value in polled])
    monkeypatch.setattr("local.devstack.demo.records.TopicReader", lambda *_, **__: reader)
    monkeypatch.setattr("local.devstack.demo.records.HttpSchemaRegistry", lambda _: None)
    monkeypatch.setattr("local.devstack.demo.records.Codec", lambda _: codec)
    expected = {notification_id(outcome["send_id"], 101, "push"): Published(outcome["timestamp"], 101)}
    assert PublishTimes("kafka", "registry", [101, 102]).all() == expected
    assert PublishTimes("kafka", "registry", [102]).all() == {}
    assert {each.user_id for each in PublishTimes("kafka", "registry", None).all().values()} == {101, 103}


def test_message_is_printed_with_its_receiver_and_words() -> None:
    printed = message(1).rendered().plain
    assert printed.splitlines()[:3] == ["push to user 1, device 10 (gcm)", "  Hello", "  It works."]
    at = datetime(2026, 11, 23, 9, 5, 7).timestamp() * 1000  # noqa: DTZ001 - local time is shown
    assert replace(message(1), at_ms=int(at)).rendered().plain.startswith("2026-11-23 09:05:07 push to user 1")


def test_a_message_without_a_title_has_no_line_for_it() -> None:
    lines = replace(message(1, "sms"), title="", text="Doors open.").rendered().plain.splitlines()
    assert lines[1] == "  Doors open."
