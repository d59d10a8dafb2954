"""`masscomm categories` calls the routes of the API; what a change does not name stays."""

import json
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from cli.categories import app
from cli.errors import CommandError
from tests.support.harness.command import output_of
from tests.support.servers.answering_server import AnsweringServer
from tests.support.servers.http_server import Asked

CAP = {"limit": 3, "window": "24h", "by_channel": True, "group": "ads"}
DIGEST = {"template": "news_digest", "window": "1h", "at": None, "key": "team", "list": 10}
OWN = {"club_id": 7, "channels": ["push", "email"], "opt_in": ["email"], "caps": [CAP], "digest": None}
FOLLOWING = {"club_id": 8, "channels": ["push"], "opt_in": [], "caps": [], "digest": DIGEST}
VALUES: dict[str, Any] = {
    "valid_from": "2026-11-24T12:01:00Z",
    "channels": ["push"],
    "mandatory": False,
    "critical": False,
    "opt_in": ["email"],
    "caps": [CAP],
    "digest": DIGEST,
    "shorten": True,
    "titles": {"en": "News", "de": "Neues"},
    "descriptions": {"en": "What happens"},
    "retired": False,
    "clubs": [OWN, FOLLOWING],
}
FILE = VALUES | {
    "valid_from": None,
    "clubs": [],
    "retired": True,
    "opt_in": [],
    "mandatory": True,
    "caps": None,
    "digest": None,
    "shorten": False,
    "critical": True,
    "descriptions": {},
}
FOUND = {"type": "news", "versions": [VALUES, FILE], "etag": '"a1"'}
_KEPT = ("channels", "mandatory", "critical", "opt_in", "caps", "digest", "shorten", "titles", "descriptions")
# The request that changes nothing: a club has what differs.
SAME: dict[str, Any] = {
    **{name: VALUES[name] for name in _KEPT},
    "retired": False,
    "clubs": [{"club_id": 7, "channels": ["push", "email"], "digest": None}, {"club_id": 8, "opt_in": [], "caps": []}],
}
PATH = "/v1/categories/news"
UNKNOWN = (404, json.dumps({"detail": "The category is unknown."}).encode())


def read(request: Asked) -> Any:
    conditions = [request.headers[name] for name in ("If-Match", "If-None-Match") if name in request.headers]
    return request.command, request.path, json.loads(request.body or b"null"), *conditions


_run = partial(output_of, app)


def answers(server: AnsweringServer, *bodies: Any) -> None:
    server.answers = [body if isinstance(body, tuple) else (200, json.dumps(body).encode()) for body in bodies]


def test_categories_are_listed(server: AnsweringServer) -> None:
    rows = [{"type": "news", **VALUES}, {"type": "offers", **FILE}]
    answers(server, {"rows": rows})
    assert _run("list").splitlines() == [
        "2 categories",
        "news",
        "  push; opt-in on email; at most 3/24h,by_channel,group=ads; digest news_digest/1h,key=team,list=10; "
        "long pushes are shortened",
        "  de=Neues, en=News",
        "  en=What happens",
        "  club 7: push, email; opt-in on email; at most 3/24h,by_channel,group=ads; no digest",
        "  club 8: push",
        "  valid from 2026-11-24T12:01:00Z",
        "offers",
        "  push, mandatory, critical",
        "  retired",
        "  de=Neues, en=News",
        "  from the installation's file",
    ]
    assert [json.loads(line) for line in _run("list", "--json").splitlines()] == rows
    assert {path for _, path, *_ in server.asked} == {"/v1/categories"}


def test_versions_of_a_category_are_shown(server: AnsweringServer) -> None:
    answers(server, FOUND)
    lines = _run("show", "news").splitlines()
    assert [line for line in lines if line[0] != " "] == [
        "valid from 2026-11-24T12:01:00Z",
        "from the installation's file",
    ]
    assert json.loads(_run("show", "news", "--json")) == FOUND
    assert server.asked == [("GET", PATH, None)] * 2


@pytest.mark.parametrize(
    ("arguments", "changed"),
    [
        (("put", "news", "--channel", "email", "--channel", "push"), {"channels": ["email", "push"]}),
        (("put", "news", "--mandatory", "--opt-in", "none"), {"mandatory": True, "opt_in": []}),
        (("put", "news", "--optional"), {"mandatory": False}),
        (("put", "news", "--shorten"), {"shorten": True}),
        (("put", "news", "--no-shorten"), {"shorten": False}),
        (("put", "news", "--title", "fr=Actus", "--title", "de="), {"titles": {"en": "News", "fr": "Actus"}}),
        (
            ("put", "news", "--cap", "2/day"),
            {"caps": [{"limit": 2, "window": "day", "by_channel": False, "group": None}]},
        ),
        (("put", "news", "--cap", "3/24h,group=ads,by_channel"), {}),
        (("put", "news", "--cap", "none"), {"caps": []}),
        (("put", "news", "--digest", "daily/08:00"), {"digest": {"template": "daily", "at": "08:00"}}),
        (
            ("put", "news", "--digest", "replies/5m,key=post,list=20"),
            {"digest": {"template": "replies", "window": "5m", "key": "post", "list": 20}},
        ),
        (("put", "news", "--digest", "none"), {"digest": None}),
        (("retire", "news"), {"retired": True}),
        (("retire", "news", "--undo"), {"retired": False}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, Sequence) else "",
)
def test_fields_that_are_not_named_stay(
    server: AnsweringServer, arguments: tuple[str, ...], changed: dict[str, Any]
) -> None:
    answers(server, FOUND)
    assert _run(*arguments) == "news: valid from 2026-11-24T12:01:00Z.\n"
    assert server.asked == [("GET", PATH, None), ("PUT", PATH, SAME | changed, '"a1"')]
    assert json.loads(_run(*arguments, "--json")) == FOUND


def test_category_may_follow_the_default_caps(server: AnsweringServer) -> None:
    answers(server, FOUND)
    _run("put", "news", "--cap", "default")
    assert server.asked[1] == ("PUT", PATH, {name: value for name, value in SAME.items() if name != "caps"}, '"a1"')


def test_new_category_has_the_named_fields(server: AnsweringServer) -> None:
    answers(server, UNKNOWN, FOUND)
    _run("put", "news", "--channel", "push", "--title", "en=News")
    assert server.asked[1] == ("PUT", PATH, {"channels": ["push"], "titles": {"en": "News"}}, "*")


def test_category_that_changed_meanwhile_stays(server: AnsweringServer) -> None:
    answers(server, FOUND, (412, b'{"detail": "Another request has changed it: read it again."}'))
    with pytest.raises(CommandError, match="412: Another request has changed it: read it again"):
        _run("retire", "news")


@pytest.mark.parametrize(
    ("answer", "arguments", "reason"),
    [
        (UNKNOWN, ("put", "news", "--mandatory"), "not a category yet"),
        (UNKNOWN, ("retire", "news"), "not a category"),
        ((403, b'{"detail": "not permitted"}'), ("put", "news", "--channel", "push"), "403: not permitted"),
        (FOUND, ("put", "news", "--title", "Nachrichten"), "no language"),
        (FOUND, ("put", "news", "--cap", "3"), "is no cap"),
        (FOUND, ("put", "news", "--cap", "3/"), "is no cap"),
        (FOUND, ("put", "news", "--cap", "a/24h"), "is no cap"),
        (FOUND, ("put", "news", "--cap", "3/24h,group"), "is no cap"),
        (FOUND, ("put", "news", "--cap", "3/24h,group=a,group=b"), "is no cap"),
        (FOUND, ("put", "news", "--cap", "3/24h,by_channel,by_channel"), "is no cap"),
    ],
)
def test_unusable_request_changes_nothing(
    server: AnsweringServer, answer: Any, arguments: tuple[str, ...], reason: str
) -> None:
    answers(server, answer)
    with pytest.raises(CommandError, match=reason):
        _run(*arguments)
    assert [method for method, *_ in server.asked] == ["GET"]
