"""`masscomm alarms` prints the alarms that ring, with their runbooks."""

import json

import pytest
from typer.testing import CliRunner

from cli.alarms import app
from tests.support.servers.answering_server import AnsweringServer
from tests.support.servers.http_server import Asked

RINGS = {
    "name": "kafka-offline",
    "state": "alarm",
    "since": "2026-11-21T12:00:00Z",
    "description": "Partitions of Kafka have no leader.",
    "runbook": "kafka",
}
QUIET = RINGS | {"name": "failed", "state": "ok", "runbook": None}


def read(request: Asked) -> tuple[str, str, bytes]:
    return request.command, request.path, request.body


def run(server: AnsweringServer, body: dict[str, object], *arguments: str) -> tuple[int, str]:
    server.answers = [(200, json.dumps(body).encode())]
    done = CliRunner().invoke(app, [*arguments, "--url", server.url])
    assert server.asked[-1][:2] == ("GET", "/v1/alarms")
    return done.exit_code, done.output


def test_ringing_alarms_are_shown_with_their_runbooks(server: AnsweringServer) -> None:
    body = {"evaluated": True, "rows": [RINGS, QUIET]}
    status, shown = run(server, body)
    assert status == 1
    assert "1 of 2 alarms ring." in shown
    assert "Partitions of Kafka have no leader. docs/runbooks/kafka.md" in " ".join(shown.split())
    assert "failed" not in shown
    assert "failed" in run(server, body, "--all")[1]
    assert json.loads(run(server, body, "--json")[1]) == RINGS


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"evaluated": True, "rows": [QUIET]}, "0 of 1 alarms ring."),
        ({"evaluated": False, "rows": []}, "Nothing evaluates alarms for this installation."),
    ],
)
def test_without_a_ringing_alarm_the_status_is_zero(
    server: AnsweringServer, body: dict[str, object], text: str
) -> None:
    assert run(server, body) == (0, f"{text}\n")
