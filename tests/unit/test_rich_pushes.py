"""The field push from the send to the provider: silent pushes, pictures and shortened bodies."""

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from masscomm.domain.records import SendRequested
from masscomm.domain.send_content import content_of_send
from masscomm.domain.users import Template, User, UserSettings
from masscomm.kafka import topics
from masscomm.stores.categories.in_memory import InMemoryCategories
from masscomm.stores.categories.known import known_categories
from tests.support.categories import put_version
from tests.support.harness.chain import NOW, delivery, results_of, send
from tests.support.harness.whole_chain import ThreeSteps

SILENT = '{"data":{"refresh":"scores"},"silent":true}'
SENT, HELD = ("sent", None), ("held", None)
ALL_DAY = {"start": "00:00", "end": "23:59"}
WORDS = {"title": "Hello", "body": "It works."}
# A payload for either platform has room for fewer.
LONG = "Grüezi 👩‍👩‍👧 " * 300


class Chain(ThreeSteps):
    """The three functions, and user 1 with a phone, an address and quiet hours."""

    def __init__(self) -> None:
        super().__init__()
        self.directory.put(UserSettings(user_id=1, quiet_hours=ALL_DAY))

    def payloads(self) -> list[dict[str, Any]]:
        """Return what the platforms get."""
        messages = [json.loads(push.message) for push in self.push.published]
        return [json.loads(text) for each in messages for key, text in each.items() if key != "default"]

    def results(self) -> Counter[tuple[Any, ...]]:
        return Counter(
            (result.status, result.reason, result.layer, result.rule)
            for outcome in self.outcomes()
            for result in outcome.results
        )


@pytest.mark.kills(guard="quiet_hours.silent_push")
def test_a_silent_push_is_published_in_quiet_hours() -> None:
    """No template exists: a silent push needs none."""
    chain = Chain()
    assert chain.drive(send([1], channels=["push"], push=SILENT, data={}), topics.SEND_API) == []
    assert results_of(chain.outcomes()) == {(1, "push"): SENT}
    [payload] = chain.payloads()
    assert payload["fcmV1Message"]["message"]["data"].items() >= {"refresh": "scores"}.items()
    assert chain.dead_letters() == []


@pytest.mark.parametrize("push", ['{"badge":1}', None])
def test_another_push_is_held_in_quiet_hours(push: str | None) -> None:
    chain = Chain()
    assert chain.drive(send([1], channels=["push"], push=push, data=WORDS), topics.SEND_API) == []
    assert results_of(chain.outcomes()) == {(1, "push"): HELD}


def test_the_e_mail_of_a_silent_send_is_held_in_quiet_hours() -> None:
    chain = Chain()
    assert chain.drive(send([1], channels=["push", "email"], push=SILENT, data=WORDS), topics.SEND_API) == []
    assert results_of(chain.outcomes()) == {(1, "push"): SENT, (1, "email"): HELD}


@pytest.mark.kills(guard="quiet_hours.late_silent_push")
def test_a_late_silent_push_is_published_in_quiet_hours() -> None:
    chain = Chain()
    record = delivery([1], timestamp=NOW - 86_400_000, built_at=NOW - 86_400_000, content=[], push=SILENT)
    assert chain.deliver(record) == []
    assert results_of(chain.outcomes()) == {(1, "push"): SENT}


@pytest.mark.kills(guard="frequency_caps.silent_push")
def test_a_silent_push_neither_takes_nor_needs_a_place(stored_categories: InMemoryCategories) -> None:
    fields = {"channels": ["push"], "caps": [{"limit": 1, "window": "24h"}]}
    put_version(stored_categories, "news", fields, NOW - 3_600_000)
    known_categories().read()
    chain = Chain()
    chain.directory.put(UserSettings(user_id=1))
    pushes = [SILENT, None, SILENT]
    for number, push in enumerate(pushes):
        send_id = f"{number:08}-0000-4000-8000-000000000000"
        assert chain.drive(send([1], send_id=send_id, push=push, data=WORDS), topics.SEND_API) == []
        chain.producer.produced.clear()
    assert len(chain.push.published) == len(pushes)


def test_an_opt_out_holds_for_a_silent_push() -> None:
    chain = Chain()
    chain.directory.put(UserSettings(user_id=1, categories={"news": False}))
    assert chain.drive(send([1], channels=["push"], push=SILENT), topics.SEND_API) == []
    assert results_of(chain.outcomes()) == {(1, "push"): ("suppressed", "opted_out")}


def _category(store: InMemoryCategories, *, shorten: bool) -> None:
    put_version(store, "news", {"channels": ["push"], "shorten": shorten}, NOW - 3_600_000)
    known_categories().read()


def _long_chain() -> Chain:
    """Return the functions, and user 2 with a phone of each platform."""
    chain = Chain()
    chain.put_device(20, 2, platform="apns")
    return chain


def test_a_body_is_shortened_if_the_category_permits_it(stored_categories: InMemoryCategories) -> None:
    _category(stored_categories, shorten=True)
    chain = _long_chain()
    assert chain.drive(send([2], data={"title": "Hello", "body": LONG}), topics.SEND_API) == []
    bodies = {
        payload["fcmV1Message"]["message"]["notification"]["body"]
        if "fcmV1Message" in payload
        else payload["aps"]["alert"]["body"]
        for payload in chain.payloads()
    }
    assert len(bodies) == 2, "each platform has as much as fits"
    assert all(LONG.startswith(body.removesuffix("…")) and body.endswith("…") for body in bodies)
    assert chain.results() == {("sent", None, "content", "shortened for android and ios"): 1}


@pytest.mark.kills(guard="push.shortened_by_category")
def test_a_push_that_is_too_large_fails_otherwise(stored_categories: InMemoryCategories) -> None:
    _category(stored_categories, shorten=False)
    chain = _long_chain()
    assert chain.drive(send([2], data={"title": "Hello", "body": LONG}), topics.SEND_API) == []
    assert chain.payloads() == []
    assert results_of(chain.outcomes()) == {(2, "push"): ("failed", "too_large")}


def test_a_push_without_room_for_a_body_fails(stored_categories: InMemoryCategories) -> None:
    _category(stored_categories, shorten=True)
    chain = _long_chain()
    data = WORDS | {"url": f"https://club.example/{'x' * 1_900}"}
    push = json.dumps({"data": {"k": "x" * 2_000}})
    assert chain.drive(send([2], data=data, push=push), topics.SEND_API) == []
    assert results_of(chain.outcomes()) == {(2, "push"): ("failed", "too_large")}


def test_one_shortened_platform_is_named_alone(stored_categories: InMemoryCategories) -> None:
    """The payload for Android has 24 bytes more around the same texts than the one for Apple."""
    _category(stored_categories, shorten=True)
    chain = _long_chain()
    room = 4_096 - 170
    assert chain.drive(send([2], data={"title": "Hello", "body": "x" * room}), topics.SEND_API) == []
    assert chain.results() == {("sent", None, "content", "shortened for android"): 1}


def test_a_template_is_shown_with_the_picture_of_the_send() -> None:
    chain = Chain()
    chain.directory.put(
        User(user_id=2, club_id=7, first_name="Ada"),
        Template(
            template_id=1,
            club_id=None,
            type="news",
            channel="push",
            locale="en",
            title="Hi",
            body="{{ user.first_name }}",
        ),
    )
    push = '{"image":"https://club.example/a.jpg"}'
    assert chain.drive(send([2], push=push, data={}), topics.SEND_API) == []
    [payload] = chain.payloads()
    notification = {"title": "Hi", "body": "Ada", "image": "https://club.example/a.jpg"}
    assert payload["fcmV1Message"]["message"]["notification"] == notification


def test_a_send_without_options_has_its_earlier_digest() -> None:
    """A send of version 0.1.0 that is requested again is compared with the digest that was stored then."""
    values: dict[str, Any] = {"type": "news", "club_id": 7, "timestamp": 1, "to_users": [1], "channels": ["push"]}
    sent = SendRequested(**values, data={"title": "Hello"}, collapse_key="k")
    assert content_of_send(sent) == "21cadcf3aa6eea7661a1113f3fa3c7c4"
    assert content_of_send(replace(sent, push='{"badge":1}')) != content_of_send(sent)
