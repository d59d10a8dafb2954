"""The field push of a send: a request and a record of Kafka are read by the same rules."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.send_handler.send_request import parse_request
from masscomm.chain.chunks import fault_of_send
from masscomm.clock import FixedClock
from masscomm.domain.limits import MAX_PUSH_BYTES
from masscomm.domain.push_options import (
    DATA_KEY_PATTERN,
    MAX_BADGE,
    RESERVED_KEYS,
    Action,
    InvalidPush,
    PushOptions,
    is_silent,
    push_options,
    push_problems,
    push_text,
)
from masscomm.domain.records import SendRequested
from masscomm.http.problem import Problem
from masscomm.http.scopes import Scope
from masscomm.http.send_scopes import scopes_of_send
from masscomm.kafka.event import KafkaRecord
from tests.support.harness.chain import NOW

LINK = "riverside://matches/7"
FULL: dict[str, Any] = {
    "image": "https://club.example/goal.jpg",
    "badge": 3,
    "sound": "default",
    "silent": False,
    "android_channel": "match news",
    "interruption_level": "time_sensitive",
    "actions": [{"id": "watch", "title": "Watch", "url": LINK}, {"id": "later", "title": "Später"}],
    "data": {"match": "7"},
}


def _paths(value: Any) -> list[str]:
    return [problem.path for problem in push_problems(value)]


def test_a_full_field_is_read_from_its_text() -> None:
    assert push_problems(FULL) == []
    assert push_options(push_text(FULL)) == PushOptions(
        image="https://club.example/goal.jpg",
        badge=3,
        sound="default",
        android_channel="match news",
        interruption_level="time_sensitive",
        actions=(Action("watch", "Watch", LINK), Action("later", "Später")),
        data={"match": "7"},
    )
    assert push_options("{}") == PushOptions()


def test_the_order_of_members_does_not_change_the_text() -> None:
    assert push_text(dict(reversed(FULL.items()))) == push_text(FULL)


@pytest.mark.parametrize(
    ("value", "paths"),
    [
        (None, [""]),
        ([], [""]),
        ({"Image": "x"}, ["Image"]),
        ({"image": "http://club.example/a.jpg"}, ["image"]),
        ({"image": "https://"}, ["image"]),
        ({"image": "https://club.example/a b"}, ["image"]),
        ({"image": f"https://c{'x' * 991}"}, ["image"]),
        ({"badge": -1}, ["badge"]),
        ({"badge": True}, ["badge"]),
        ({"badge": 1.0}, ["badge"]),
        ({"badge": MAX_BADGE + 1}, ["badge"]),
        ({"sound": ""}, ["sound"]),
        ({"sound": "../a.wav"}, ["sound"]),
        ({"sound": "a\n"}, ["sound"]),
        ({"silent": "true"}, ["silent"]),
        ({"android_channel": " a"}, ["android_channel"]),
        ({"interruption_level": "time-sensitive"}, ["interruption_level"]),
        ({"interruption_level": ["active"]}, ["interruption_level"]),
        ({"actions": {}}, ["actions"]),
        ({"actions": [{"id": str(n), "title": "x"} for n in range(4)]}, ["actions"]),
        ({"actions": [{"id": "a", "title": "x"}, {"id": "a", "title": "y"}]}, ["actions"]),
        ({"actions": [{"id": "a.b", "title": " "}]}, ["actions[0].id", "actions[0].title"]),
        ({"actions": [{"id": "a"}, 7]}, ["actions[0].title", "actions[1]"]),
        ({"actions": [{"id": "a", "title": "x", "icon": "y"}]}, ["actions[0].icon"]),
        ({"actions": [{"id": "a", "title": "x", "url": "javascript://x"}]}, ["actions[0].url"]),
        ({"data": []}, ["data"]),
        ({"data": {"a": 1}}, ["data.a"]),
        ({"data": {"": "x"}}, ["data."]),
        ({"data": {f"k{n}": "" for n in range(51)}}, ["data"]),
        ({"data": {"k": "x" * MAX_PUSH_BYTES}}, [""]),
        ({"silent": True, "badge": 0, "data": {"a": "b"}}, ["badge"]),
        ({"silent": True, "actions": [], "sound": "default"}, ["sound", "actions"]),
    ],
)
def test_an_invalid_field_names_its_path(value: Any, paths: list[str]) -> None:
    assert _paths(value) == paths


@pytest.mark.kills(guard="push.reserved_keys")
@pytest.mark.parametrize("key", [*RESERVED_KEYS, "google", "google.c.a.e", "gcm.notification.title", "gcmx"])
def test_a_reserved_key_is_refused(key: str) -> None:
    """Source: Firebase, "REST Resource: projects.messages", field data of Message; "Firebase Cloud Messaging HTTP
    protocol", parameter data, for collapse_key; Apple, "Generating a remote notification", for aps.
    """
    assert _paths({"data": {key: "x"}}) == [f"data.{key}"]


@pytest.mark.kills(guard="push.silent_shows_nothing")
@pytest.mark.parametrize("shown", ["image", "badge", "sound", "android_channel", "interruption_level", "actions"])
def test_a_silent_push_that_shows_something_is_refused(shown: str) -> None:
    """Source: Apple, "Pushing background updates to your App": aps has content-available only."""
    assert _paths({"silent": True, shown: FULL[shown]}) == [shown]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"badge":1,"badge":2}', '{"data":{"a":"\\ud800"}}', '{"badge":NaN}'])
def test_a_text_that_is_no_field_is_refused(text: str) -> None:
    with pytest.raises(InvalidPush, match="push"):
        push_options(text)


def test_a_push_is_silent_on_its_own_channel_only() -> None:
    silent = '{"silent":true}'
    assert is_silent(silent, "push")
    assert not any((is_silent(silent, "email"), is_silent(None, "push"), is_silent('{"silent":false}', "push")))


_values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-1, 2**31),
    st.text(max_size=5),
    st.sampled_from(["default", LINK, "https://club.example/a.jpg", "active"]),
    st.lists(st.fixed_dictionaries({"id": st.text("ab", max_size=2), "title": st.text(max_size=3)}), max_size=4),
    st.dictionaries(st.text("abfrom.", max_size=4), st.text(max_size=4), max_size=2),
)


@pytest.mark.kills(guard="push.invalid_field")
@given(st.dictionaries(st.sampled_from([*FULL, "other"]), _values, max_size=3))
def test_requests_and_records_are_accepted_alike(value: dict[str, Any]) -> None:
    send = SendRequested(type="news", club_id=7, timestamp=NOW, to_users=[1], push=json.dumps(value))
    record = KafkaRecord(topic="send.monolith", partition=0, offset=0, timestamp_ms=NOW, key=b"", value=b"")
    fault = fault_of_send(send, record, NOW)
    request = {"type": "news", "club_id": 7, "to_users": [1], "push": value}
    if fault is None:
        assert parse_request(request, FixedClock(NOW)).push_text == (push_text(value) if value else None)
    else:
        with pytest.raises(Problem) as caught:
            parse_request(request, FixedClock(NOW))
        assert {error.field.partition(".")[0].partition("[")[0] for error in caught.value.errors} == {"push"}


def test_a_picture_or_a_button_needs_the_scope_of_own_words() -> None:
    assert scopes_of_send("news", [], shows_own=True) == [Scope.SEND_CONTENT]
    assert scopes_of_send("news", []) == []


@given(st.one_of(st.text(max_size=66), st.sampled_from([*RESERVED_KEYS, "google.a", "gcm", "fromage", "a" * 64])))
def test_the_documented_form_of_a_key_is_the_permitted_one(key: str) -> None:
    assert (re.fullmatch(DATA_KEY_PATTERN, key) is not None) == (push_problems({"data": {key: ""}}) == [])
