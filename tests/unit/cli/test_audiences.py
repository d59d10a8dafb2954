"""`masscomm audience` calls the routes of the API and prints their answers."""

import json
from functools import partial

import pytest

from cli.audiences import app
from cli.errors import CommandError
from tests.support.harness.command import output_of
from tests.support.servers.answering_server import AnsweringServer
from tests.support.servers.http_server import Asked

COUNTED = {"users": 1_200, "channels": {"push": 1_100, "email": 900}, "examined": 5_000, "complete": True}


def read(request: Asked) -> tuple[str, bytes]:
    return request.path, request.body


run = partial(output_of, app)


def test_condition_and_exceptions_are_sent(server: AnsweringServer) -> None:
    server.answers = [(200, json.dumps(COUNTED).encode())]
    where = {"field": "locale", "is": "de"}
    shown = run("count", "--club", "7", "--where", json.dumps(where), "--except", "42", "--channel", "email", "--json")
    assert json.loads(shown) == COUNTED
    ((path, body),) = server.asked
    audience = {"where": where, "except_users": [42]}
    assert (path, json.loads(body)) == (
        "/v1/audiences/count",
        {"club_id": 7, "audience": audience, "channels": ["email"]},
    )


def test_count_that_is_not_complete_is_a_lower_bound(server: AnsweringServer) -> None:
    server.answers = [(200, json.dumps(COUNTED | {"complete": False}).encode())]
    shown = run("count", "--club", "7")
    assert "at least 1,200 users" in shown
    assert "after 5,000 users" in shown
    assert json.loads(server.asked[0][1])["audience"] == {"all_users": True, "except_users": []}


def test_condition_with_invalid_json_is_not_sent(server: AnsweringServer) -> None:
    with pytest.raises(CommandError, match="is not JSON"):
        run("count", "--club", "7", "--where", "locale=de")
    assert server.asked == []


SAVED = {
    "name": "germans",
    "changed_at": "2026-11-30T12:00:00Z",
    "audience": {"all_users": True},
    "etag": '"a1"',
}


def test_name_of_a_saved_audience_is_sent(server: AnsweringServer) -> None:
    server.answers = [(200, json.dumps(COUNTED).encode())]
    run("count", "--club", "7", "--where", "germans")
    assert json.loads(server.asked[0][1])["audience"] == {"saved": "germans", "except_users": []}


def test_followers_of_an_object_are_counted(server: AnsweringServer) -> None:
    server.answers = [(200, json.dumps(COUNTED).encode())] * 2
    run("count", "--club", "7", "--follows", "team:42")
    run("count", "--club", "7", "--follows", "team:42", "--where", '{"field": "locale", "is": "de"}')
    sent = [json.loads(body)["audience"] for _, body in server.asked]
    where = {"field": "locale", "is": "de"}
    assert sent == [
        {"follows": "team:42", "except_users": []},
        {"where": where, "follows": "team:42", "except_users": []},
    ]


def test_audience_is_saved_listed_shown_and_deleted(server: AnsweringServer) -> None:
    server.answers = [(200, json.dumps(body).encode()) for body in (SAVED, {"rows": [SAVED]}, SAVED, SAVED, {})]
    where = {"field": "locale", "is": "de"}
    assert run("put", "germans", "--club", "7", "--where", json.dumps(where)) == "germans is saved.\n"
    assert run("list", "--club", "7") == "1 saved audiences\ngermans\n  changed at 2026-11-30T12:00:00Z\n"
    assert json.loads(run("show", "germans", "--club", "7", "--json")) == SAVED
    assert run("show", "germans", "--club", "7").splitlines() == [
        "germans",
        '  {"all_users": true}',
        "  changed at 2026-11-30T12:00:00Z",
        '  etag "a1"',
    ]
    assert run("delete", "germans", "--club", "7") == "germans is deleted.\n"
    path = "/v1/audiences/germans?club_id=7"
    assert [asked for asked, _ in server.asked] == [path, "/v1/audiences?club_id=7", path, path, path]
    assert json.loads(server.asked[0][1]) == {"audience": {"where": where}}


def conditions(request: Asked) -> list[str | None]:
    return [request.headers.get(name) for name in ("If-Match", "If-None-Match")]


def test_conditions_of_a_change_are_sent(server: AnsweringServer) -> None:
    server.read = conditions
    server.answers = [(200, json.dumps(SAVED).encode())] * 3
    run("put", "germans", "--club", "7", "--if-match", '"a1"')
    run("put", "germans", "--club", "7", "--new")
    run("delete", "germans", "--club", "7", "--if-match", '"a1"')
    assert server.asked == [['"a1"', None], [None, "*"], ['"a1"', None]]
