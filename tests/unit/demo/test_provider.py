"""The demo reads from LocalStack the same messages that delivery wrote."""

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from local.devstack.demo import provider
from local.devstack.demo.provider import Call, Foreign
from masscomm.channels.email import email_message
from masscomm.channels.push import push_message
from masscomm.channels.unsubscribe_links import WaysOut

ARN = "arn:aws:sns:us-east-1:000000000000:endpoint/{}/masscomm/1"
NOTIFICATION = "0f8fad5b-d9cb-469f-a165-70867728950e"

type Answer = Callable[[list[dict[str, Any]], list[dict[str, Any]]], None]

URL = "http://localhost"


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Answer:
    """Makes the pages of LocalStack and the stand-in return these pushes and e-mails."""

    def install(pushes: list[dict[str, Any]], mails: list[dict[str, Any]]) -> None:
        by_target: dict[str, list[dict[str, Any]]] = {}
        for push in pushes:
            by_target.setdefault(push["TargetArn"], []).append(push)

        def respond(request: httpx.Request) -> httpx.Response:
            if request.url.path == "/_control/emails":
                return httpx.Response(200, json=mails)
            if request.url.path == "/_control/texts":
                return httpx.Response(200, json=[])
            return httpx.Response(200, json={"platform_endpoint_messages": by_target})

        real = httpx.Client
        monkeypatch.setattr(httpx, "Client", lambda **values: real(**values, transport=httpx.MockTransport(respond)))

    return install


@pytest.mark.parametrize("platform", ["gcm", "apns"])
def test_push_call_has_its_notification_id(platform: str, answer: Answer) -> None:
    message = push_message(
        platform,
        None,
        title="We won",
        body="7:1",
        notification_id=NOTIFICATION,
        send_id="s",
        collapse_id=None,
        url="riverside://matches/7",
    )
    target = ARN.format(platform.upper())
    answer([{"TargetArn": target, "Message": json.dumps(json.loads(message)[platform.upper()])}], [])

    assert provider.calls(URL, URL) == [
        Call("push", NOTIFICATION, target, "We won", "7:1", url="riverside://matches/7")
    ]


@pytest.mark.parametrize("platform", ["gcm", "apns"])
def test_a_silent_push_has_no_texts(platform: str, answer: Answer) -> None:
    message = push_message(
        platform,
        None,
        title="",
        body="",
        notification_id=NOTIFICATION,
        send_id="s",
        collapse_id=None,
        push='{"data":{"refresh":"scores"},"silent":true}',
    )
    target = ARN.format(platform.upper())
    answer([{"TargetArn": target, "Message": json.dumps(json.loads(message)[platform.upper()])}], [])
    assert provider.calls(URL, URL) == [Call("push", NOTIFICATION, target, "(silent)", "")]


def test_email_call_has_its_notification_id(answer: Answer) -> None:
    raw = email_message(
        sender="club@masscomm.example",
        recipient="ada@club1.example",
        subject="Der Monat in deinem Verein für März",
        text="Hallo",
        html="<p>Hallo</p>",
        notification_id=NOTIFICATION,
    )
    answer([], [{"Id": "1", "RawData": raw.decode()}])

    expected = Call("email", NOTIFICATION, "ada@club1.example", "Der Monat in deinem Verein für März", "Hallo")
    assert provider.calls(URL, URL) == [expected]


def test_email_call_has_its_unsubscribe_link(answer: Answer) -> None:
    link = "https://example.org/v1/unsubscribe/token"
    raw = email_message(
        sender="club@masscomm.example",
        recipient="ada@club1.example",
        subject="News",
        text="Hallo",
        html=None,
        notification_id=NOTIFICATION,
        ways_out=WaysOut(link),
    )
    answer([], [{"Id": "1", "RawData": raw.decode()}])
    assert [call.unsubscribe_link for call in provider.calls(URL, URL)] == [link]


def test_push_call_without_notification_id_is_an_error(answer: Answer) -> None:
    answer([{"TargetArn": ARN.format("GCM"), "Message": '{"data": {"title": "?"}}'}], [])

    with pytest.raises(provider.ProviderError, match="is not masscomm's"):
        provider.calls(URL, URL)


@pytest.mark.kills(guard="inbox.foreign_message")
@pytest.mark.parametrize("text", ["We won", '{"data": {"title": "?"}}', '"text"', "[1, 2]", "7", ""])
def test_push_in_another_form_is_foreign(text: str, answer: Answer) -> None:
    target = ARN.format("GCM")
    answer([{"TargetArn": target, "Message": text}], [])
    assert provider.pushes_to("http://localhost", target) == [Foreign("push", target, text)]


def test_email_in_another_form_is_foreign(answer: Answer) -> None:
    raw = "To: Ada <ada@club1.example>\nSubject: Hallo\n\nText"
    answer([], [{"RawData": raw}])
    assert provider.emails("http://localhost") == [Foreign("email", "ada@club1.example", raw)]
