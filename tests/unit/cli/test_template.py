"""`masscomm template` shows previews and problems, and its exit status says whether there are any."""

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from cli.errors import CommandError
from cli.sending import shown_message
from cli.template import app
from tests.support.servers.answering_server import AnsweringServer
from tests.support.servers.http_server import Asked


def read(request: Asked) -> tuple[str, str, Any]:
    return request.command, request.path, json.loads(request.body or b"null")


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, arguments, catch_exceptions=False)
    return done.exit_code, done.output


def preview(problem: str | None = None) -> dict[str, Any]:
    message: dict[str, Any] = {
        "channel": "push",
        "template": {"id": 5, "club_id": None, "locale": "de"},
        "fields": {"title": "[opponent]", "body": "one\ntwo"},
        "missing": [],
        "problem": problem,
        "platforms": [
            {"platform": "ios", "body": "one…", "shortened": True, "payload_bytes": 4_096, "too_large": False},
            {"platform": "android", "body": "one", "shortened": False, "payload_bytes": 200, "too_large": False},
        ],
        "sms": None,
    }
    return {
        "complete": problem is None,
        "messages": [message],
        "warnings": [{"field": "data.x", "message": "is not used"}],
    }


def test_preview_prints_each_message(server: AnsweringServer) -> None:
    server.answers = [(200, json.dumps(preview()).encode())]
    status, shown = run(
        "preview", "--type", "news", "--club", "7", "--user", "42", "--data", "x=1", "--channel", "push"
    )
    assert status == 0
    for text in ("push, template 5 (de)", "title: [opponent]", "body: one\n    two", "data.x is not used"):
        assert text in shown
    assert "on ios it is shortened: 4,096 bytes" in shown
    assert "on android" not in shown
    body = {"type": "news", "club_id": 7, "data": {"x": "1"}, "user_id": 42, "channels": ["push"]}
    assert server.asked == [("POST", "/v1/previews", body)]


def test_incomplete_preview_has_exit_status_1(server: AnsweringServer) -> None:
    server.answers = [(200, json.dumps(preview("a value is missing: data.opponent")).encode())] * 2
    status, shown = run(
        "preview",
        "--type",
        "news",
        "--title",
        "t",
        "--body",
        "b",
        "--locale",
        "de",
        "--template",
        "n",
        "--link",
        "a://b",
    )
    assert (status, "a value is missing: data.opponent" in shown) == (1, True)
    assert server.asked[0][2]["draft"] == {"title": "t", "body": "b", "html": None, "url": "a://b"}
    status, shown = run("preview", "--type", "news", "--json")
    assert (status, json.loads(shown)) == (1, preview("a value is missing: data.opponent"))


def test_draft_needs_title_and_body(server: AnsweringServer) -> None:
    with pytest.raises(CommandError, match="--title and --body"):
        run("preview", "--type", "news", "--body", "b")


def test_refused_preview_names_its_fields(server: AnsweringServer) -> None:
    problem = {"detail": "type: invalid", "errors": [{"field": "type", "message": "invalid"}]}
    server.answers = [(400, json.dumps(problem).encode())]
    with pytest.raises(CommandError, match="type: invalid"):
        run("preview", "--type", "two words")


def test_check_names_templates_with_a_problem(server: AnsweringServer) -> None:
    good = {"id": 1, "club_id": None, "type": "news", "channel": "push", "locale": "en", "problem": None}
    bad = good | {"id": 2, "club_id": 7, "problem": "body: no filter"}
    server.answers = [
        (200, json.dumps({"rows": rows, "next_cursor": None}).encode()) for rows in ([good, bad], [good], [good, bad])
    ]
    status, shown = run("check", "--club", "7")
    assert status == 1
    assert "2 (news, push, en, tenant 7): body: no filter" in shown
    assert "2 templates, 1 of them cannot be rendered." in shown
    assert run("check")[0] == 0
    assert json.loads(run("check", "--json")[1]) == bad


@pytest.mark.parametrize(
    ("countries", "text"),
    [
        ([], "2 segments (GSM-7)"),
        ([("AT", 0.2), ("DE", 0.1)], "2 segments (GSM-7), $0.1000 to $0.2000 at the prices of 2026-11-01"),
    ],
)
def test_preview_of_an_sms_has_segments_and_prices(countries: list[tuple[str, float]], text: str) -> None:
    rows = [{"country": country, "segments": 2, "usd": usd} for country, usd in countries]
    sms = {"encoding": "GSM-7", "segments": 2, "too_large": False, "countries": rows, "prices_as_of": "2026-11-01"}
    message = preview()["messages"][0] | {"channel": "sms", "fields": {"text": "Hi"}, "platforms": [], "sms": sms}
    assert text in shown_message(message).plain.splitlines()[-1]
