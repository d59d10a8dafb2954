"""`masscomm devices` calls the routes of the API and prints their answers."""

import json
from functools import partial

import pytest

from cli.devices import app
from cli.errors import CommandError
from tests.support.harness.command import output_of
from tests.support.servers.answering_server import AnsweringServer
from tests.support.servers.http_server import Asked

ROW = {
    "device_id": 420,
    "user_id": 42,
    "club_id": 7,
    "platform": "gcm",
    "reason": "takes_nothing",
    "since": "2026-11-21T12:00:00Z",
    "can_be_enabled": True,
}
GONE = {**ROW, "device_id": 421, "user_id": None, "club_id": None, "platform": None, "can_be_enabled": False}


def read(request: Asked) -> tuple[str, str, bytes]:
    return request.command, request.path, request.body


run = partial(output_of, app)


def test_disabled_devices_are_listed(server: AnsweringServer) -> None:
    page = {"rows": [ROW, GONE], "truncated": False, "next_cursor": None}
    server.answers = [(200, json.dumps(page).encode())]
    shown = run("list", "--club", "7", "--reason", "takes_nothing")
    assert server.asked == [("GET", "/v1/devices?club_id=7&reason=takes_nothing&limit=100", b"")]
    assert [line.split() for line in shown.splitlines()[2:]] == [
        ["420", "42", "7", "gcm", "takes_nothing", "2026-11-21", "12:00", "yes"],
        ["421", "-", "-", "-", "takes_nothing", "2026-11-21", "12:00", "no"],
    ]
    server.answers = [(200, json.dumps(page).encode())]
    assert [json.loads(line) for line in run("list", "--json").splitlines()] == [ROW, GONE]


def test_list_ends_at_its_limit(server: AnsweringServer) -> None:
    page = {"rows": [ROW, ROW], "truncated": True, "next_cursor": "c"}
    server.answers = [(200, json.dumps(page).encode())]
    assert len(run("list", "-n", "1", "--json").splitlines()) == 1
    assert server.asked == [("GET", "/v1/devices?limit=1", b"")]


def test_counts_of_some_devices_are_a_lower_bound(server: AnsweringServer) -> None:
    counted = {"rows": [{"club_id": 7, "reason": "inactive", "devices": 1_200}], "examined": 10_000, "complete": False}
    server.answers = [(200, json.dumps(counted).encode())]
    shown = run("counts", "--club", "7")
    assert server.asked == [("GET", "/v1/devices/counts?club_id=7", b"")]
    assert "1,200 devices" in shown
    assert "10,000 devices that were disabled last" in shown
    server.answers = [(200, json.dumps(counted).encode())]
    assert json.loads(run("counts", "--json")) == counted


def test_device_is_enabled_by_its_id(server: AnsweringServer) -> None:
    server.answers = [(202, b'{"device_id": 420, "status": "requested"}')]
    assert "420" in run("enable", "420")
    assert server.asked[0][:2] == ("POST", "/v1/devices/420/enable")


def test_device_that_is_not_disabled_is_an_error(server: AnsweringServer) -> None:
    server.answers = [(404, b'{"detail": "The device is unknown, or it is not disabled."}')]
    with pytest.raises(CommandError, match="not disabled"):
        run("enable", "421")
