"""The examples of the documentation, executed in each language against the API in memory."""

import json
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import httpx
import pytest

from masscomm.domain.webhook_signatures import headers
from tests.support.harness import client_examples, rest_api
from tests.support.until import until

SEND_ID = "3f5e7b0c-6d0e-4a52-9d5c-0d3c3a1f7f39"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("classes")
    client_examples.compile_java(folder)
    return folder


@pytest.fixture
def outputs(classes: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, str]]:
    """Return a function that executes an example, and returns its output by language."""

    def execute(name: str, *arguments: str, sent: int = 2) -> dict[str, str]:
        rest_api.build(monkeypatch, sent=sent)
        with rest_api.serving() as url:
            return {
                language: client_examples.output(language, name, *arguments, classes=classes, url=url, key=rest_api.KEY)
                for language in client_examples.languages(name)
            }

    return execute


def test_example_requests_a_send(outputs: Callable[..., dict[str, str]]) -> None:
    found = outputs("send")
    assert json.loads(found.pop("curl"))["status"] == "accepted"
    assert len({UUID(text.strip()) for text in found.values()}) == 3


def test_example_checks_before_sending(outputs: Callable[..., dict[str, str]]) -> None:
    found = outputs("check")
    (channel,) = json.loads(found.pop("curl"))["channels"]
    assert channel["requested"] == 2
    lines = [f"{channel['channel']} {channel['deliverable']} of 2"]
    lines += [f"{each['count_total']} {each['status']} {each['reason']}" for each in channel["reasons"]]
    assert len(lines) >= 2
    assert {text.rstrip("\n") for text in found.values()} == {"\n".join(lines)}


def test_example_reads_the_result_of_a_send(outputs: Callable[..., dict[str, str]]) -> None:
    found = outputs("result", SEND_ID, sent=3)
    assert json.JSONDecoder().raw_decode(found.pop("curl"))[0]["status"] == "ended"
    assert set(found.values()) == {"ended 3\n42 push sent\n"}


def test_example_cancels_a_send(outputs: Callable[..., dict[str, str]]) -> None:
    found = outputs("cancel", SEND_ID)
    assert json.loads(found.pop("curl"))["status"] == "cancelling"
    assert set(found.values()) == {"cancelling\n"}


def test_example_sets_preferences(outputs: Callable[..., dict[str, str]]) -> None:
    found = outputs("preferences")
    assert json.loads(found.pop("curl"))["categories"] == {"news": {"push": False}}
    (text,) = set(found.values())
    assert "news push no\n" in text
    assert "news email yes\n" in text


def test_example_reports_an_event(outputs: Callable[..., dict[str, str]]) -> None:
    """The languages report the same event: the first one is accepted."""
    found = outputs("event")
    assert json.loads(found.pop("curl"))["events"][0]["status"] == "accepted"
    assert set(found.values()) == {"match-4711 repeated\n"}


@pytest.mark.parametrize("language", ["Python", "TypeScript", "Java"])
def test_example_verifies_a_webhook(classes: Path, language: str) -> None:
    body = b'{"type": "send.completed"}'
    signed = headers([SECRET], message_id="evt_1", at_s=round(time.time()), body=body)
    with socket.socket() as reserved:
        # A socket that does not listen keeps the port for the example.
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
        command = client_examples.command(language, "webhook", classes)
        environment = client_examples.environment(PORT=str(port), WEBHOOK_SECRET=SECRET)
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as receiver:
            try:
                until("the example listens", lambda: receiver.poll() is not None or is_open(port))
                url = f"http://127.0.0.1:{port}/hook"
                assert httpx.post(url, content=body + b" ", headers=signed).status_code == 400
                assert httpx.post(url, content=body, headers=signed).status_code == 204
                assert receiver.stdout is not None
                assert receiver.stdout.readline() == "send.completed\n"
            finally:
                receiver.terminate()


def is_open(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0
