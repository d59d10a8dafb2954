"""`masscomm preferences` calls the routes of the API and prints what reaches the user."""

import json
from functools import partial
from typing import Any

import pytest

from cli.errors import CommandError
from cli.preferences import app, body_of
from tests.support.harness.command import output_of
from tests.support.servers.answering_server import AnsweringServer
from tests.support.servers.http_server import Asked

FOUND = {
    "user_id": 42,
    "club_id": 7,
    "channels": {},
    "categories": {"newsletter": {"email": False}},
    "quiet_hours": {"start": "22:00", "end": "07:00"},
    "effective": [
        {"category": "newsletter", "channel": "email", "wanted": False, "rule": "category:newsletter channel:email"},
        {"category": "newsletter", "channel": "push", "wanted": True, "rule": None},
    ],
    "pending": True,
    "links": {"self": "/v1/users/42/preferences"},
}


def read(request: Asked) -> Any:
    return request.command, request.path, json.loads(request.body or b"null")


_run = partial(output_of, app)


@pytest.fixture
def server(server: AnsweringServer) -> AnsweringServer:
    server.answers = [(200, json.dumps(FOUND).encode())]
    return server


def test_preferences_are_shown(server: AnsweringServer) -> None:
    shown = _run("show", "--user", "42")
    assert server.asked == [("GET", "/v1/users/42/preferences", None)]
    assert [line.split()[:3] for line in shown.splitlines()[2:4]] == [
        ["newsletter", "email", "no"],
        ["newsletter", "push", "yes"],
    ]
    assert "not applied" in shown
    assert "Quiet hours: 22:00 to 07:00" in shown
    assert json.loads(_run("show", "--user", "42", "--json")) == FOUND


def test_rules_are_set(server: AnsweringServer) -> None:
    _run("set", "--user", "42", "newsletter.email=off", "news=on", "push=off")
    body = {"channels": {"push": False}, "categories": {"newsletter": {"email": False}, "news": True}}
    assert server.asked == [("PUT", "/v1/users/42/preferences", body)]


@pytest.mark.parametrize(
    ("rule", "value"), [("quiet_hours=22:00-07:00", {"start": "22:00", "end": "07:00"}), ("quiet_hours=off", None)]
)
def test_quiet_hours_are_set_or_removed(server: AnsweringServer, rule: str, value: Any) -> None:
    _run("set", "--user", "42", rule)
    assert server.asked == [("PUT", "/v1/users/42/preferences", {"quiet_hours": value})]


@pytest.mark.parametrize(
    "rules",
    [
        ["news"],
        ["news=maybe"],
        ["=on"],
        ["news=on", "news.push=off"],
        ["news.push=on", "news=on"],
        ["news=on", "quiet_hours=on"],
    ],
)
def test_invalid_rule_is_refused(rules: list[str]) -> None:
    with pytest.raises(CommandError, match=r"news|=on"):
        body_of(rules)


def test_reason_of_the_api_is_shown(server: AnsweringServer) -> None:
    server.answers = [(404, b'{"detail": "This user is unknown."}')]
    with pytest.raises(CommandError, match="unknown"):
        _run("show", "--user", "1")


TENANT = {
    "club_id": 7,
    "channels": {"push": True},
    "categories": {"newsletter": {"email": False}, "news": False},
    "changed_at": "2026-11-21T12:00:00Z",
    "etag": '"e"',
    "links": {"self": "/v1/tenants/7/preferences"},
}


def test_rules_of_a_tenant_are_shown_and_replaced(server: AnsweringServer) -> None:
    server.answers = [(200, json.dumps(TENANT).encode())]
    shown = _run("tenant", "show", "7")
    assert shown.splitlines() == ["Tenant 7", "newsletter.email=off", "news=off", "push=on"]
    assert json.loads(_run("tenant", "put", "7", "news=off", "push=on", "--if-match", '"e"', "--json")) == TENANT
    _run("tenant", "delete", "default")
    assert server.asked == [
        ("GET", "/v1/tenants/7/preferences", None),
        ("PUT", "/v1/tenants/7/preferences", {"channels": {"push": True}, "categories": {"news": False}}),
        ("DELETE", "/v1/tenants/default/preferences", None),
    ]


def test_quiet_hours_of_a_tenant_are_refused(server: AnsweringServer) -> None:
    with pytest.raises(CommandError, match="no quiet hours"):
        _run("tenant", "put", "7", "quiet_hours=off")
    assert server.asked == []
