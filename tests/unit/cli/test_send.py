"""`masscomm send` requests what its options say, and shows each message as it arrives."""

import io
import json
from collections.abc import Iterator
from typing import Any

import pytest
from rich.text import Text
from typer.testing import CliRunner

from cli import sending
from cli.errors import CommandError
from cli.send import app, record_fields
from cli.terminal import Terminal
from masscomm.domain.digests import read_digest
from masscomm.domain.fallbacks import check_fallbacks
from masscomm.domain.push_options import check_push
from masscomm.kafka.avro import mismatch, own_schema
from masscomm_client import Client
from tests.support.servers.answering_server import AnsweringServer, answering
from tests.support.servers.http_server import Asked

SEND_ID = "4e0525b7-7f84-4005-b07a-add265132d94"
ACCEPTED = 202, json.dumps({"send_id": SEND_ID}).encode()


def read(request: Asked) -> tuple[str, str | None, Any]:
    return request.path, request.headers.get("Idempotency-Key"), json.loads(request.body or b"null")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[AnsweringServer]:
    with answering(read) as made:
        monkeypatch.setenv("MASSCOMM_API_URL", made.url)
        monkeypatch.setenv("MASSCOMM_API_KEY", "mc_test")
        yield made


def test_options_become_the_fields_of_the_request(server: AnsweringServer) -> None:
    server.answers = [ACCEPTED]
    done = CliRunner().invoke(
        app,
        [
            *("--to", "1,3-4", "--club", "7", "--type", "offer", "--channel", "push", "--data", "title=Hello"),
            *("--template", "spring", "--at", "2026-11-24T18:00:00Z", "--reference", "order-7", "--critical"),
            *("--idempotency-key", "key-1", "--push", '{"badge": 1}'),
        ],
        catch_exceptions=False,
    )
    assert f"send_id {SEND_ID}\n{server.url}/#/sends/{SEND_ID}\n" in done.output
    body = {
        "type": "offer",
        "club_id": 7,
        "to_users": [1, 3, 4],
        "channels": ["push"],
        "template": "spring",
        "data": {"title": "Hello"},
        "send_at": "2026-11-24T18:00:00Z",
        "push": {"badge": 1},
        "reference": "order-7",
        "priority": "critical",
    }
    assert server.asked == [("/v1/sends", "key-1", body)]


@pytest.mark.parametrize(
    ("audience", "sent"),
    [
        (["--audience", "all"], {"all_users": True}),
        (["--audience", '{"field": "locale", "is": "de"}'], {"where": {"field": "locale", "is": "de"}}),
        (["--follows", "team:42"], {"follows": "team:42"}),
    ],
)
def test_audience_takes_the_place_of_ids(server: AnsweringServer, audience: list[str], sent: dict[str, Any]) -> None:
    server.answers = [ACCEPTED]
    time = "2026-11-24T18:00:00Z"
    options = [*audience, "--except", "42", "--at", time, "--audience-at", "request", "--json"]
    done = CliRunner().invoke(app, options, catch_exceptions=False)
    assert json.loads(done.output) == {"send_id": SEND_ID}
    ((_, key, body),) = server.asked
    assert body == {
        "type": "news",
        "club_id": 1,
        "audience": {**sent, "except_users": [42]},
        "audience_at": "request",
        "send_at": time,
    }
    assert key, "a repetition by the client itself has a key, too"


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--to", "1", "--audience", "all"),
        ("--to", "1", "--follows", "team:42"),
        ("--follows", "team:42", "--via", "kafka"),
        ("--to", "1", "--except", "2"),
        ("--to", "1", "--via", "kafka", "--at", "2026-11-24T18:00:00Z"),
        ("--to", "1", "--via", "post"),
    ],
    ids=" ".join,
)
def test_options_that_contradict_are_refused(server: AnsweringServer, options: tuple[str, ...]) -> None:
    assert CliRunner().invoke(app, list(options)).exit_code == 2
    assert server.asked == []


def test_fields_of_a_request_become_those_of_a_record() -> None:
    push, digest = {"badge": 1}, {"template": "news_digest", "window": "1h"}
    request = {"type": "news", "club_id": 7, "to_users": [1], "data": {"title": "Hello"}, "reference": "order-7"}
    record = record_fields({**request, "push": push, "digest": digest, "spread_over": "2h"})
    assert record.keys() <= {each["name"] for each in own_schema("SendRequested")["fields"]}
    assert mismatch("SendRequested", {**record, "timestamp": 0}) is None
    assert read_digest(json.loads(record["digest"])).window == "1h"
    check_push(record["push"])
    assert record["spread_over_ms"] == 7_200_000
    with pytest.raises(CommandError, match="spread_over"):
        record_fields({**request, "spread_over": "2"})


@pytest.mark.parametrize("push", ["{", "[]", "badge"])
def test_a_push_that_is_no_object_is_refused(server: AnsweringServer, push: str) -> None:
    with pytest.raises(CommandError, match="--push"):
        CliRunner().invoke(app, ["--to", "1", "--push", push], catch_exceptions=False)
    assert server.asked == []


def test_message_is_shown_before_it_is_counted(server: AnsweringServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "POLL_S", 0)
    totals = {"requested": 1, "suppressed": {}, "failed": {}, "held": 0, "collected": 0}
    reads: list[dict[str, Any]] = [{"totals": None, "status": "in_progress", "complete": False}] * 2
    reads += [{"totals": {**totals, "sent": 1, "in_flight": 0}, "status": "ended", "complete": True}]
    server.answers = [(200, json.dumps(each).encode()) for each in reads]
    reads_before: list[int] = []

    def messages() -> Iterator[list[Text]]:
        yield []
        reads_before.append(len(server.asked))
        yield [Text("the message")]
        yield []

    output = io.StringIO()
    with Client(server.url, key="mc_test") as api:
        sending.follow(api, SEND_ID, Terminal(file=output, width=80), messages=messages())
    assert reads_before == [2]
    assert output.getvalue().index("the message") < output.getvalue().index("100% of 1")


def test_send_without_a_message_has_a_line_instead(server: AnsweringServer) -> None:
    totals = {
        "requested": 1,
        "suppressed": {"opted_out": 1},
        "sent": 0,
        "failed": {},
        "held": 0,
        "collected": 0,
        "in_flight": 0,
    }
    server.answers = [(200, json.dumps({"totals": totals, "status": "ended", "complete": True}).encode())]
    output = io.StringIO()
    with Client(server.url, key="mc_test") as api:
        sending.follow(api, SEND_ID, Terminal(file=output, width=80), messages=iter([[]]))
    assert "No message reached" in output.getvalue()


@pytest.mark.parametrize(
    ("option", "value", "field"), [("--per-minute", 500, "per_minute"), ("--spread-over", "2h", "spread_over")]
)
def test_pace_is_a_field_of_the_request(server: AnsweringServer, option: str, value: object, field: str) -> None:
    server.answers = [ACCEPTED]
    done = CliRunner().invoke(app, ["--to", "1", option, str(value), "--json"], catch_exceptions=False)
    assert json.loads(done.output) == {"send_id": SEND_ID}
    ((_, _, body),) = server.asked
    assert body[field] == value


def test_fallback_is_a_channel_with_a_condition(server: AnsweringServer) -> None:
    server.answers = [ACCEPTED]
    options = ("--to", "1", "--channel", "push", "--fallback", "email:not_sent:10m")
    CliRunner().invoke(app, options, catch_exceptions=False)
    ((_, _, body),) = server.asked
    assert body["channels"] == ["push", {"channel": "email", "if": "not_sent", "after": "10m"}]
    record = record_fields({"channels": body["channels"]})
    assert record["channels"] == ["push", "email"]
    check_fallbacks(record["fallbacks"], record["channels"])


@pytest.mark.parametrize("text", ["email", "email:not_sent", "email::10m", "email:not_sent:10m:1"])
def test_wrong_fallback_is_named(text: str) -> None:
    with pytest.raises(CommandError, match="email:not_sent:10m"):
        sending.fallback_of(text)
