"""`masscomm webhooks` calls the routes of the API, and prints the result."""

import json
from functools import partial
from typing import Any

import pytest

from cli.errors import CommandError
from cli.webhooks import app
from tests.support.harness.command import output_of
from tests.support.servers.answering_server import AnsweringServer
from tests.support.servers.customer_account import QUEUE, ROLE
from tests.support.servers.http_server import Asked

PATH = "/v1/webhooks/ep_1/dead-letters"
LETTER: dict[str, Any] = {
    "id": "1700000000000-evt_1",
    "type": "match.goal",
    "event_id": "e1",
    "at": "2023-11-14T22:13:20Z",
    "reason": "all attempts failed",
    "attempts": 8,
    "status": 503,
}

_run = partial(output_of, app)


def read(request: Asked) -> Any:
    return request.command, request.path, json.loads(request.body or b"null")


def test_a_queue_is_created_with_its_role(server: AnsweringServer) -> None:
    endpoint = {"id": "ep_1", "role_arn": ROLE, "external_id": "ep_1"}
    server.answers = [(201, json.dumps({"secret": "whsec_x", "endpoint": endpoint}).encode())]
    shown = output_of(app, "create", QUEUE, "--club", "1", "--role", ROLE)
    assert "must require the external id ep_1" in shown
    body = {"club_id": 1, "url": QUEUE, "description": "", "role_arn": ROLE}
    assert server.asked == [("POST", "/v1/webhooks", body)]


def answers(server: AnsweringServer, *bodies: Any) -> None:
    server.answers = [(200, json.dumps(body).encode()) for body in bodies]


def test_dead_letters_of_all_pages_are_listed(server: AnsweringServer) -> None:
    without = LETTER | {"id": "1700000000001-evt_2", "status": None}
    answers(server, {"rows": [LETTER], "next_cursor": "c"}, {"rows": [without], "next_cursor": None})
    output = _run("dead-letters", "list", "ep_1", "--type", "match.goal", "--after", "2023-11-14T22:00:00Z")
    assert "2 dead letters" in output
    assert all(each in output for each in (LETTER["id"], "last answer: 503", "no answer"))
    first, second = (path for _, path, _ in server.asked)
    assert first == f"{PATH}?limit=20&after=2023-11-14T22%3A00%3A00Z&type=match.goal"
    assert second == f"{first}&cursor=c"


def test_all_dead_letters_are_acknowledged(server: AnsweringServer) -> None:
    answers(server, {"acknowledged": 500, "truncated": True}, {"acknowledged": 3, "truncated": False})
    assert json.loads(_run("dead-letters", "ack", "ep_1", "--up-to", "l", "--json")) == {"acknowledged": 503}
    assert server.asked == [("POST", f"{PATH}/ack", {"up_to": "l"})] * 2


@pytest.mark.parametrize(
    ("options", "body"),
    [
        (("--id", "a", "--id", "b"), {"ids": ["a", "b"]}),
        (("--after", "a", "--up-to", "b", "--type", "match.goal"), {"after": "a", "up_to": "b", "type": "match.goal"}),
        (("--all",), {}),
    ],
)
def test_dead_letters_are_replayed(server: AnsweringServer, options: tuple[str, ...], body: dict[str, Any]) -> None:
    answers(server, {"replayed": 2, "truncated": False})
    assert _run("dead-letters", "replay", "ep_1", *options).startswith("2 dead letters are sent again")
    assert server.asked == [("POST", f"{PATH}/replay", body)]


def test_a_replay_names_its_dead_letters(server: AnsweringServer) -> None:
    with pytest.raises(CommandError, match="--all"):
        _run("dead-letters", "replay", "ep_1")
    assert server.asked == []


@pytest.mark.parametrize(("user", "contact"), [((), None), (("42",), 42)])
def test_the_contact_of_an_endpoint_is_set(server: AnsweringServer, user: tuple[str, ...], contact: int | None) -> None:
    answers(server, {"id": "ep_1"})
    _run("contact", "ep_1", *user)
    assert server.asked == [("PATCH", "/v1/webhooks/ep_1", {"contact_user_id": contact})]
