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
