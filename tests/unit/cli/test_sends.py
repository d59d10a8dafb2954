"""`masscomm sends` calls the routes of the API and prints their answers."""

import io
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cli import sending as send
from cli.errors import CommandError
from cli.sends import app
from cli.terminal import Terminal
from local.devstack.config import StackConfig
from local.devstack.state import NotRunningError
from masscomm_client import Client
from tests.support.harness.command import output_of
from tests.support.servers.answering_server import AnsweringServer
from tests.support.servers.http_server import Asked

KEY = "mc_test"


def read(request: Asked) -> tuple[str, str, str | None]:
    return request.command, request.path, request.headers.get("x-api-key")


run = partial(output_of, app)


def row(number: int) -> dict[str, Any]:
    return {
        "send_id": f"send-{number}",
        "club_id": 7,
        "type": "news",
        "requested_at": "2026-11-21T12:00:00Z",
        "status": "in_progress",
        "requested": 1_500,
        "published": 3,
        "cancelled": 0,
        "in_flight": 1_497,
    }


def page(*numbers: int, cursor: str | None = None) -> tuple[int, bytes]:
    return 200, json.dumps({"rows": [row(number) for number in numbers], "next_cursor": cursor}).encode()


def test_command_makes_no_key_for_a_stack_that_does_not_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MASSCOMM_API_KEY", raising=False)
    monkeypatch.delenv("MASSCOMM_API_URL", raising=False)
    monkeypatch.setenv("MASSCOMM_STATE", str(tmp_path / "typo"))
    with pytest.raises(NotRunningError, match="typo has no stack"):
        run("list")
    assert list(tmp_path.iterdir()) == []


def test_list_reads_pages_until_the_limit(server: AnsweringServer) -> None:
    server.answers = [page(1, 2, cursor="c"), page(3, cursor="d")]
    shown = [json.loads(line) for line in run("list", "--club", "7", "-n", "3", "--json").splitlines()]
    assert shown == [row(1), row(2), row(3)]
    assert server.asked == [
        ("GET", "/v1/sends?club_id=7&limit=3", KEY),
        ("GET", "/v1/sends?club_id=7&limit=3&cursor=c", KEY),
    ]


def test_list_ends_with_the_last_page(server: AnsweringServer) -> None:
    send_id = "4e0525b7-7f84-4005-b07a-add265132d94"
    server.answers = [(200, json.dumps({"rows": [row(1) | {"send_id": send_id}], "next_cursor": None}).encode())]
    shown = run("list", "--status", "ended", "--type", "news", "--type", "offer")
    assert send_id in shown
    assert server.asked == [("GET", "/v1/sends?type=news&type=offer&status=ended&limit=20", KEY)]


def test_list_begins_at_the_given_time(server: AnsweringServer) -> None:
    server.answers = [page(1)]
    run("list", "--since", "2026-11-21T10:00:00")
    ((_, path, _),) = server.asked
    assert "start=2026-11-21T10%3A00%3A00%2B00%3A00" in path


def test_pace_is_changed(server: AnsweringServer) -> None:
    server.answers = [(200, b'{"per_minute": 5000}')]
    assert "at most 5,000 recipients a minute" in run("pace", "a", "5000")
    assert server.asked == [("PATCH", "/v1/sends/a", KEY)]


def test_cancel_posts_once_and_an_id_cannot_name_another_route(server: AnsweringServer) -> None:
    server.answers = [(202, b'{"send_id": "a", "published_before": 1200}')]
    assert "1,200 notifications were published before" in run("cancel", "a/../b?c")
    assert server.asked == [("POST", "/v1/sends/a%2F..%2Fb%3Fc/cancel", KEY)]


def test_pause_resume_and_move_call_their_routes(server: AnsweringServer) -> None:
    server.answers = [
        (202, b'{"paused_at": "2026-11-21T12:00:00Z", "published_before": 1200}'),
        (202, b'{"resumed_at": "2026-11-21T12:00:00Z"}'),
        (200, b'{"send_at": "2026-11-24T17:00:00Z"}'),
    ]
    assert "1,200 notifications are published" in run("pause", "a")
    assert json.loads(run("resume", "a", "--json")) == {"resumed_at": "2026-11-21T12:00:00Z"}
    assert "2026-11-24T17:00:00Z" in run("move", "a/b", "2026-11-24T18:00:00+01:00")
    assert server.asked == [
        ("POST", "/v1/sends/a/pause", KEY),
        ("POST", "/v1/sends/a/resume", KEY),
        ("PATCH", "/v1/sends/a%2Fb", KEY),
    ]


def test_message_is_previewed_for_a_user(server: AnsweringServer) -> None:
    content = {"type": "news", "club_id": 7, "channels": ["push"], "template": None, "locale": "de", "data": {"a": "b"}}
    shown: dict[str, Any] = {
        "channel": "push",
        "template": None,
        "fields": {"title": "Hello"},
        "missing": [],
        "platforms": [],
        "sms": None,
        "problem": None,
    }
    server.answers = [
        (200, json.dumps({"send_id": "a", "content": content, "hidden": ["title"], "reason": None}).encode()),
        (200, json.dumps({"complete": True, "messages": [shown], "warnings": []}).encode()),
    ]
    server.read = lambda asked: (asked.path, json.loads(asked.body or b"null"))
    found = run("message", "a", "--user", "42")
    assert "title: Hello" in found
    assert "The values of title need the scope users:read." in found
    assert server.asked == [("/v1/sends/a/message", None), ("/v1/previews", content | {"user_id": 42})]


def test_message_that_is_not_kept_has_its_reason(server: AnsweringServer) -> None:
    server.answers = [(200, b'{"send_id": "a", "content": null, "hidden": [], "reason": "critical"}')]
    with pytest.raises(CommandError, match="messages of critical sends are not kept"):
        run("message", "a")


def test_recipients_are_read_in_pages(server: AnsweringServer) -> None:
    rows = [
        {
            "user_id": number,
            "channel": "push",
            "status": "sent",
            "at": "2026-11-21T12:00:00Z",
            "decision": "It was sent.",
        }
        for number in (1, 2)
    ]
    pages = [{"rows": rows[:1], "next_cursor": "c"}, {"rows": rows[1:], "next_cursor": None}]
    server.answers = [(200, json.dumps(each).encode()) for each in pages]
    shown = run("recipients", "a", "--status", "sent")
    assert "2 notifications" in shown
    assert "It was sent." in shown
    assert server.asked == [
        ("GET", "/v1/sends/a/recipients?status=sent&limit=100", KEY),
        ("GET", "/v1/sends/a/recipients?status=sent&limit=100&cursor=c", KEY),
    ]


def counted(*, held: int = 0, sent: int = 0, collected: int = 0) -> tuple[int, bytes]:
    totals = {
        "requested": 2,
        "suppressed": {},
        "sent": sent,
        "failed": {},
        "held": held,
        "collected": collected,
        "in_flight": 2 - sent,
    }
    return 200, json.dumps({"totals": totals, "complete": sent == 2}).encode()


@pytest.mark.parametrize(("through_quiet_hours", "reads"), [(False, 2), (True, 3)])
def test_waiting_ends_when_all_others_are_held(
    server: AnsweringServer, monkeypatch: pytest.MonkeyPatch, through_quiet_hours: bool, reads: int
) -> None:
    monkeypatch.setattr(send, "POLL_S", 0)
    server.answers = [counted(held=1), counted(held=1, sent=1), counted(sent=2)]
    output = io.StringIO()
    console = Terminal(file=output, width=100)
    with Client(server.url, key=KEY) as api:
        send.follow(api, "a", console, through_quiet_hours=through_quiet_hours)
    assert len(server.asked) == reads
    assert ("1 held until the end" in output.getvalue()) == (not through_quiet_hours)


def test_waiting_ends_when_all_others_are_collected(server: AnsweringServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(send, "POLL_S", 0)
    server.answers = [counted(collected=1), counted(collected=1, sent=1)]
    output = io.StringIO()
    with Client(server.url, key=KEY) as api:
        send.follow(api, "a", Terminal(file=output, width=100))
    assert (len(server.asked), "1 collected in digests" in output.getvalue()) == (2, True)


def test_waiting_ends_before_the_end_is_counted(server: AnsweringServer) -> None:
    """The results of a small send are readable at once; a client that needs lists and metrics waits for `complete`."""
    _, body = counted(sent=2)
    server.answers = [(200, json.dumps({**json.loads(body), "status": "ended", "complete": False}).encode())]
    with Client(server.url, key=KEY) as api:
        send.follow(api, "a", Terminal(file=io.StringIO(), width=100))
    assert len(server.asked) == 1


def test_the_share_of_ended_notifications_is_shown(server: AnsweringServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(send, "POLL_S", 0)
    server.answers = [counted(), counted(sent=1), counted(sent=2)]
    shown = list[str]()
    progress = send._progress

    def rendered(body: Any) -> Any:
        output = io.StringIO()
        Terminal(file=output, width=100).print(progress(body))
        shown.append(output.getvalue().splitlines()[0])
        return progress(body)

    monkeypatch.setattr(send, "_progress", rendered)
    with Client(server.url, key=KEY) as api:
        send.follow(api, "a", Terminal(file=io.StringIO(), width=100))
    shares = ["not counted yet", *(f"{share} of 2 notifications have ended" for share in ("0%", "50%", "100%"))]
    assert [next(share for share in reversed(shares) if line.endswith(share)) for line in shown] == [
        *shares,
        shares[-1],
    ]
    assert shown[-1].count("━") == 40


def test_watching_for_programs_prints_each_change(server: AnsweringServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(send, "POLL_S", 0)
    server.answers = [counted(), counted(), counted(sent=2)]
    sent = [json.loads(line)["totals"]["sent"] for line in run("watch", "a", "--json").splitlines()]
    assert sent == [0, 2]


def test_watching_an_unknown_send_ends(server: AnsweringServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.answers = [(404, b'{"detail": "The send is unknown."}')]
    monkeypatch.setattr(send, "POLL_S", 31)
    with pytest.raises(CommandError, match="unknown"):
        run("watch", "a")


def test_warnings_of_a_send_are_printed() -> None:
    output = io.StringIO()
    send.show_warnings([{"field": "data.title", "message": "is not used on push"}], Terminal(file=output, width=100))
    assert output.getvalue() == "warning: data.title is not used on push\n"


@pytest.mark.parametrize("command", ["show", "cancel", "watch", "pause", "resume", "recipients"])
def test_refusal_is_an_error_with_the_reason_of_the_api(server: AnsweringServer, command: str) -> None:
    server.answers = [(403, b'{"detail": "These credentials may see no club."}')]
    with pytest.raises(CommandError, match="may see no club"):
        run(command, "a")


def test_an_api_that_is_down_is_one_line(server: AnsweringServer) -> None:
    server.answers = [None]
    with pytest.raises(CommandError, match="does not answer"):
        run("show", "a")


def test_the_development_key_goes_to_the_local_api_alone(
    server: AnsweringServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("MASSCOMM_API_KEY")
    monkeypatch.setenv("MASSCOMM_STATE", str(tmp_path))
    server.answers = [page(1), page(1)]
    run("list")
    monkeypatch.delenv("MASSCOMM_API_URL")
    monkeypatch.setenv("MASSCOMM_PORT_GATEWAY", server.url.rpartition(":")[2])
    own = StackConfig.from_environment().api_key
    run("list")
    assert own.startswith("mc_")
    assert [key for _, _, key in server.asked] == [None, own]
