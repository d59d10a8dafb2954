"""`masscomm events` calls the routes of the API, and prints the result."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cli.errors import CommandError
from cli.events import app
from tests.support.harness.command import output_of
from tests.support.servers.answering_server import AnsweringServer
from tests.support.servers.http_server import Asked

EVENT = {"event_id": "e1", "type": "match.finished", "club_id": 1, "data": {"goals": [2, 1]}}
TYPE: dict[str, Any] = {
    "name": "match.finished",
    "description": "A match",
    "example": {},
    "schema": None,
    "user_path": None,
}
SUBSCRIPTION = {
    "id": "sub_1",
    "endpoint_id": "ep_1",
    "types": ["match.*"],
    "club_ids": [1, 2],
    "units": [],
    "filter": {"kind": ["league"]},
    "notification": None,
    "refused": [],
    "owner": None,
}


def read(request: Asked) -> Any:
    return request.command, request.path, json.loads(request.body or b"null")


_run = partial(output_of, app)


def answers(server: AnsweringServer, body: Any) -> None:
    server.answers = [(200, json.dumps(body).encode())]


@pytest.mark.parametrize("content", [EVENT, [EVENT]])
def test_events_of_a_file_are_reported(server: AnsweringServer, tmp_path: Path, content: Any) -> None:
    answers(server, {"events": [{"event_id": "e1", "club_id": 1, "status": "repeated"}]})
    file = tmp_path / "events.json"
    file.write_text(json.dumps(content))
    assert _run("report", str(file)).split() == ["e1", "club", "1:", "repeated"]
    assert server.asked == [("POST", "/v1/events", {"events": [EVENT]})]


def test_one_event_is_reported_by_its_fields(server: AnsweringServer) -> None:
    body = {"events": [{"event_id": "e1", "club_id": 1, "status": "accepted"}]}
    answers(server, body)
    fields = ("--id", "e1", "--type", "match.finished", "--data", '{"goals": [2, 1]}', "--unit", "100/7")
    assert json.loads(_run("report", *fields, "--json")) == body
    assert server.asked == [("POST", "/v1/events", {"events": [EVENT | {"unit": "100/7", "key": None}]})]


@pytest.mark.parametrize(
    "arguments",
    [
        ("report",),
        ("report", "--id", "e1"),
        ("report", "/nowhere"),
        ("report", "--id", "1", "--type", "a", "--data", "{"),
    ],
)
def test_unusable_arguments_are_refused(server: AnsweringServer, arguments: tuple[str, ...]) -> None:
    with pytest.raises(CommandError):
        _run(*arguments)
    assert server.asked == []


def test_types_are_listed_and_shown(server: AnsweringServer) -> None:
    answers(server, {"rows": [TYPE]})
    assert "match.finished" in _run("types", "list")
    assert json.loads(_run("types", "list", "--json")) == TYPE
    answers(server, TYPE)
    assert json.loads(_run("types", "show", "match.finished")) == TYPE
    paths = [path for _, path, _ in server.asked]
    assert paths == ["/v1/event-types", "/v1/event-types", "/v1/event-types/match.finished"]


def test_a_type_is_stored_and_deleted(server: AnsweringServer, tmp_path: Path) -> None:
    fields = {"description": "A match", "example": {}}
    file = tmp_path / "type.json"
    file.write_text(json.dumps(fields))
    answers(server, TYPE)
    assert "is stored" in _run("types", "put", "match.finished", str(file))
    answers(server, {"name": "match.finished", "status": "deleted"})
    assert "is deleted" in _run("types", "delete", "match.finished")
    path = "/v1/event-types/match.finished"
    assert server.asked == [("PUT", path, fields), ("DELETE", path, None)]


def test_subscriptions_are_listed(server: AnsweringServer) -> None:
    answers(server, {"rows": [SUBSCRIPTION]})
    shown = _run("subscriptions", "list", "ep_1")
    assert all(text in shown for text in ("sub_1", "match.*", "tenants 1, 2", "every unit", "league"))
    assert json.loads(_run("subscriptions", "list", "ep_1", "--json")) == SUBSCRIPTION
    assert {path for _, path, _ in server.asked} == {"/v1/subscriptions?endpoint_id=ep_1"}


def test_a_subscription_is_added_and_removed(server: AnsweringServer) -> None:
    answers(server, SUBSCRIPTION)
    conditions = (
        "--type",
        "match.*",
        "--club",
        "1",
        "--club",
        "2",
        "--unit",
        "100",
        "--filter",
        '{"kind": ["league"]}',
    )
    assert "sub_1" in _run("subscriptions", "add", "ep_1", *conditions)
    answers(server, {"id": "sub_1", "status": "deleted"})
    assert "is deleted" in _run("subscriptions", "remove", "sub_1")
    body = {
        "endpoint_id": "ep_1",
        "types": ["match.*"],
        "club_ids": [1, 2],
        "units": ["100"],
        "filter": {"kind": ["league"]},
    }
    assert server.asked == [("POST", "/v1/subscriptions", body), ("DELETE", "/v1/subscriptions/sub_1", None)]


def test_users_are_notified_by_a_rule(server: AnsweringServer) -> None:
    notification = {"type": "news", "users_path": "fans"}
    rule = SUBSCRIPTION | {"endpoint_id": None, "notification": notification, "owner": "k"}
    answers(server, rule)
    assert "Users are notified: sub_1" in _run(
        "subscriptions", "add", "--type", "*", "--notify", json.dumps(notification)
    )
    refused = {"reason": "scope", "detail": "send", "events": 2, "last_at": "2026-01-01T00:00:00.000Z"}
    answers(server, {"rows": [rule | {"refused": [refused]}]})
    listed = _run("subscriptions", "list", "--club", "7")
    assert "users_path" in listed
    assert "refused 2, last at 2026-01-01T00:00:00.000Z: scope send" in listed
    body = {"types": ["*"], "notification": notification}
    assert server.asked == [("POST", "/v1/subscriptions", body), ("GET", "/v1/subscriptions?club_id=7", None)]
