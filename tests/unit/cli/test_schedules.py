"""`masscomm schedule` calls the routes of the API and prints their answers."""

import json
from functools import partial

import pytest

from cli.schedules import app
from tests.support.harness.command import output_of
from tests.support.servers.answering_server import AnsweringServer
from tests.support.servers.http_server import Asked

RULE = "FREQ=WEEKLY;BYDAY=TU;BYHOUR=9;BYMINUTE=0"
NEXT = {"local_time": "2026-11-24T09:00", "at": "2026-11-24T08:00:00Z"}
ROW = {
    "name": "weekly",
    "state": "active",
    "paused": None,
    "rule": RULE,
    "time_zone": "Europe/Zurich",
    "type": "news",
    "next": NEXT,
    "changed_at": "2026-11-21T12:00:00Z",
}
SKIPPED = {**NEXT, "local_time": "2026-11-17T09:00", "state": "skipped", "reason": "late", "send_id": None}
SCHEDULE = {
    **ROW,
    "starts_at_local": "2026-11-01T00:00",
    "expires_after_minutes": None,
    "catch_up": "none",
    "owner": "7d793037a0760186",
    "send": {"type": "news", "club_id": 7, "to_users": [42]},
    "next_times": [NEXT],
    "history": [SKIPPED],
}
RULE_OPTIONS = ("--rule", RULE, "--zone", "Europe/Zurich", "--start", "2026-11-01T00:00")


def read(request: Asked) -> tuple[str, str, bytes]:
    return request.command, request.path, request.body


run = partial(output_of, app)


def test_schedule_is_saved_with_its_send(server: AnsweringServer) -> None:
    server.answers = [(200, json.dumps(SCHEDULE).encode())]
    options = ("--to", "42", "--data", "title=Hi", "--expires-after", "90", "--catch-up", "last")
    shown = run("put", "weekly", "--club", "7", *RULE_OPTIONS, *options)
    assert "weekly is active" in shown
    assert "2026-11-24T08:00:00Z" in shown
    ((method, path, body),) = server.asked
    assert (method, path) == ("PUT", "/v1/schedules/weekly?club_id=7")
    assert json.loads(body) == {
        "rule": RULE,
        "time_zone": "Europe/Zurich",
        "starts_at_local": "2026-11-01T00:00",
        "expires_after_minutes": 90,
        "catch_up": "last",
        "send": {"type": "news", "club_id": 7, "to_users": [42], "data": {"title": "Hi"}},
    }


def test_schedule_without_recipients_is_refused(server: AnsweringServer) -> None:
    with pytest.raises(AssertionError, match="name the recipients"):
        run("put", "weekly", "--club", "7", *RULE_OPTIONS)


def test_paused_schedules_are_listed_with_their_reason(server: AnsweringServer) -> None:
    paused = ROW | {"state": "paused", "paused": {"reason": "key_revoked", "since": NEXT["at"]}, "next": None}
    server.answers = [(200, json.dumps({"rows": [ROW, paused]}).encode())] * 2
    shown = run("list", "--club", "7")
    assert "paused: key_revoked" in shown
    assert [json.loads(line) for line in run("list", "--club", "7", "--json").splitlines()] == [ROW, paused]


def test_schedule_is_shown_with_its_history(server: AnsweringServer) -> None:
    server.answers = [(200, json.dumps(SCHEDULE).encode())] * 2
    assert "skipped late" in run("show", "weekly", "--club", "7")
    assert json.loads(run("show", "weekly", "--club", "7", "--json")) == SCHEDULE


@pytest.mark.parametrize("command", ["pause", "resume", "delete"])
def test_schedule_is_controlled(server: AnsweringServer, command: str) -> None:
    server.answers = [(200, json.dumps(SCHEDULE).encode())]
    assert json.loads(run(command, "weekly", "--club", "7", "--json"))["name"] == "weekly"
    path = "/v1/schedules/weekly" + ("" if command == "delete" else f"/{command}")
    assert [asked[:2] for asked in server.asked] == [("DELETE" if command == "delete" else "POST", f"{path}?club_id=7")]
