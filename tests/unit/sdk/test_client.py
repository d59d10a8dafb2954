"""Both clients, against the API in memory over HTTP and against prepared responses."""

import asyncio
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

import masscomm_client
from local.devstack.config import ROOT
from masscomm.kafka.topics import EVENT, SUBSCRIPTION
from masscomm_client import ApiError, AsyncClient, Client
from masscomm_client.calls import KEY
from ops.openapi import java_client
from ops.openapi.client_types import client_types
from ops.openapi.synchronous_client import synchronous_client
from tests.support.harness import operations_api, rest_api
from tests.support.harness.chain import Chain
from tests.support.harness.client_calls import methods
from tests.support.harness.events_api import endpoint_key

FOLDER = Path(masscomm_client.__file__).parent
SEND = {"type": "news", "club_id": 1, "to_users": [42, 42]}
SEND_ID = "3f5e7b0c-6d0e-4a52-9d5c-0d3c3a1f7f39"


@dataclass
class Caller:
    """Calls one method of a client; iterators become lists."""

    is_async: bool
    url: str = "http://api.test"
    transport: Any = None
    pauses: list[float] = field(default_factory=list)

    def __call__(self, method: str, *args: Any, **options: Any) -> Any:
        return asyncio.run(self._async(method, args, options)) if self.is_async else self._sync(method, args, options)

    def _sync(self, method: str, args: Sequence[Any], options: dict[str, Any]) -> Any:
        with Client(self.url, key=rest_api.KEY, transport=self.transport, sleep=self.pauses.append) as api:
            found = getattr(api, method)(*args, **options)
            return list(found) if hasattr(found, "__next__") else found

    async def _async(self, method: str, args: Sequence[Any], options: dict[str, Any]) -> Any:
        async def sleep(seconds: float) -> None:
            self.pauses.append(seconds)

        async with AsyncClient(self.url, key=rest_api.KEY, transport=self.transport, sleep=sleep) as api:
            found = getattr(api, method)(*args, **options)
            return [each async for each in found] if hasattr(found, "__aiter__") else await found


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def call(request: pytest.FixtureRequest) -> Caller:
    return Caller(is_async=request.param)


class Script:
    """Answers requests in turn: a status, a response, or an error."""

    def __init__(self, call: Caller, *answers: int | httpx.Response | Exception) -> None:
        self.requests: list[httpx.Request] = []
        self._answers = iter(answers)
        call.transport = httpx.MockTransport(self._answer)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = next(self._answers)
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, httpx.Response) else httpx.Response(answer, json={"detail": "why"})

    @property
    def keys(self) -> set[str | None]:
        return {request.headers.get(KEY) for request in self.requests}


@pytest.fixture
def chain(monkeypatch: pytest.MonkeyPatch) -> Chain:
    return rest_api.build(monkeypatch)


def test_every_method_works_against_the_api(call: Caller, chain: Chain) -> None:
    with rest_api.serving() as call.url:
        send = call("send", **SEND)
        assert (send["requested"], send["duplicates"]) == (1, 1)
        batch = call("send_batch", [SEND, SEND | {"to_users": []}])
        assert [result["status"] for result in batch["results"]] == [202, 400]
        assert call("get_send", SEND_ID)["totals"]["sent"] == 2
        assert [row["send_id"] for row in call("sends", club_id=1, limit=1)] == [SEND_ID]
        assert [row["send_id"] for row in call("user_notifications", 42)] == [SEND_ID]
        query = {"granularity": "hour", "start": "2026-11-21T12:00:00Z", "end": "2026-11-21T13:00:00Z"}
        assert [row["count_total"] for row in call("metrics", **query)["rows"]] == [2]
        (recipient,) = call("recipients", SEND_ID, channel="push")
        assert recipient["user_id"] == 42
        name = recipient["links"]["self"].rpartition("/")[2]
        assert call("notification", name)["notification"] == name
        assert call("pause", SEND_ID)["status"] == "paused"
        assert call("resume", SEND_ID)["status"] == "resumed"
        moved = call("reschedule", SEND_ID, "2026-11-24T18:00:00+01:00")
        assert moved["send_at"] == "2026-11-24T17:00:00Z"
        assert call("cancel", SEND_ID)["status"] == "cancelling"
        assert call("user", 42)["first_name"] == "Ada"
        changed = call("set_preferences", 42, categories={"news": {"push": False}})
        assert changed["categories"] == {"news": {"push": False}}
        assert call("preferences", 42) == changed
        rules = call("set_tenant_preferences", 1, categories={"news": False})
        assert call("tenant_preferences", 1) == rules
        with pytest.raises(ApiError):
            call("set_tenant_preferences", 1, if_match='"earlier"', channels={"push": False})
        assert call("delete_tenant_preferences", 1, if_match=rules["etag"])["categories"] == {}
    assert len(chain.producer.produced) == 3


def test_operations_work_against_the_api(call: Caller, chain: Chain) -> None:
    with rest_api.serving() as call.url:
        assert call("health")["open_dead_letters"] == 1
        (letter,) = call("dead_letters", status="open", club_id=1)
        assert call("dead_letter", letter["position"])["letter"] == letter
        assert call("replay_dead_letter", letter["position"])["status"] == "replayed"
        with pytest.raises(ApiError, match="already replayed") as raised:
            call("discard_dead_letter", letter["position"], "over")
        assert raised.value.status == 409
        (suppression,) = call("suppressions", limit=1)
        assert call("remove_suppression", suppression["id"])["status"] == "removed"
        assert list(call("suppressions")) == []
        (device,) = call("devices", reason="takes_nothing")
        (counted,) = call("device_counts")["rows"]
        assert (counted["club_id"], counted["reason"], counted["devices"]) == (device["club_id"], device["reason"], 1)
        assert call("enable_device", device["device_id"])["status"] == "requested"
    assert chain.producer.produced == []


def test_events_and_subscriptions_work_against_the_api(call: Caller, chain: Chain) -> None:
    name, endpoint = "match.finished", endpoint_key().id
    event = {"event_id": "e1", "type": name, "club_id": 1, "data": {"goals": [2, 1]}}
    with rest_api.serving() as call.url:
        assert call("report_events", [event])["events"][0]["status"] == "accepted"
        described = call("set_event_type", name, description="A match", example={"goals": []})
        assert call("event_type", name) == described
        assert described in call("event_types")["rows"]
        assert call("event_type", "send.completed")["example"]["status"] == "ended"
        made = call("create_subscription", endpoint_id=endpoint, types=["match.*"])
        assert call("subscription", made["id"]) == made
        assert made in call("subscriptions", endpoint_id=endpoint)["rows"]
        assert call("delete_subscription", made["id"])["status"] == "deleted"
        assert call("delete_event_type", name) == {"name": name, "status": "deleted"}
    assert [topic for topic, *_ in chain.producer.produced] == [EVENT, SUBSCRIPTION, SUBSCRIPTION]


def test_categories_work_against_the_api(call: Caller, chain: Chain) -> None:
    del chain
    fields: dict[str, Any] = {"channels": ["push"], "titles": {"en": "Tickets"}}
    with rest_api.serving() as call.url:
        stored = call("set_category", "tickets", **fields)
        assert stored["versions"][0].items() >= fields.items()
        # A repetition makes no version.
        assert call("set_category", "tickets", **fields) == stored
        assert call("category", "tickets") == stored
        assert {"type": "tickets", **stored["versions"][0]} in call("categories")["rows"]


def test_saved_audiences_work_against_the_api(call: Caller, chain: Chain) -> None:
    del chain
    with rest_api.serving() as call.url:
        saved = call("save_audience", "fans", {"where": {"field": "locale", "is": "de"}}, club_id=1)
        assert call("audience", "fans", club_id=1) == saved
        assert {"name": "fans", "changed_at": saved["changed_at"]} in call("audiences", club_id=1)["rows"]
        assert call("delete_audience", "fans", club_id=1) == {"name": "fans", "status": "deleted"}
        with pytest.raises(ApiError, match="404"):
            call("audience", "fans", club_id=1)


def test_dead_letters_of_a_webhook_work_against_the_api(call: Caller, chain: Chain) -> None:
    del chain
    endpoint = operations_api.endpoint_id()
    with rest_api.serving() as call.url:
        letter, other = call("webhook_dead_letters", endpoint, type="match.finished", limit=1)
        assert call("webhook_dead_letters", endpoint, after=letter["id"]) == [other]
        assert call("replay_webhook_dead_letters", endpoint, ids=[letter["id"]])["replayed"] == 1
        assert call("acknowledge_webhook_dead_letters", endpoint, other["id"])["acknowledged"] == 1


def test_refused_request_raises_the_problem_at_once(call: Caller, chain: Chain) -> None:
    with rest_api.serving() as call.url, pytest.raises(ApiError) as raised:
        call("send", **SEND | {"to_users": ["x"]})
    assert raised.value.status == 400
    assert [error["field"] for error in raised.value.errors] == ["to_users[0]"]
    # A program that prints the error, such as the command line, shows field and reason.
    assert str(raised.value) == f"400: to_users[0]: {raised.value.errors[0]['message']}"
    assert (call.pauses, chain.producer.produced) == ([], [])


def losing(call: Caller, url: str) -> list[Any]:
    """Lose the response to the first request of a caller, which the API executes. The returned list gets its body."""
    lost = list[Any]()

    def forward(request: httpx.Request) -> httpx.Response:
        with httpx.Client(base_url=url, trust_env=False) as http:
            answer = http.request(request.method, request.url.path, content=request.content, headers=request.headers)
        if not lost:
            lost.append(answer.json())
            raise httpx.ReadTimeout("lost")
        return httpx.Response(answer.status_code, content=answer.content, headers=answer.headers)

    call.transport = httpx.MockTransport(forward)
    return lost


def test_lost_answer_is_repeated_as_one_send(call: Caller, chain: Chain) -> None:
    with rest_api.serving() as url:
        losing(call, url)
        call("send", **SEND)
    assert len(chain.producer.produced) == 1


def test_a_lost_answer_of_a_replay_is_repeated(call: Caller, chain: Chain) -> None:
    """The letter is replayed once, and the repetition gets the first response."""
    del chain
    with rest_api.serving() as url:
        call.url = url
        (letter,) = call("dead_letters", status="open", club_id=1)
        lost = losing(call, url)
        assert [call("replay_dead_letter", letter["position"])] == lost


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 422])
def test_final_status_is_not_repeated(call: Caller, status: int) -> None:
    script = Script(call, status)
    with pytest.raises(ApiError):
        call("cancel", "s")
    assert len(script.requests) == 1


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("rotate_webhook", ("e",)),
        ("test_webhook", ("e",)),
        ("test_webhook_type", ("e", "match.finished")),
        ("resend_webhook", ("e", "d")),
        ("replay_dead_letter", ("0@1",)),
        ("discard_dead_letter", ("0@1", "over")),
    ],
)
def test_a_repeated_action_has_the_same_key(call: Caller, method: str, arguments: tuple[str, ...]) -> None:
    """The first request is executed, and its response never arrives."""
    script = Script(call, httpx.ReadTimeout("lost"), httpx.Response(200, json={}))
    call(method, *arguments)
    assert (len(script.requests), len(script.keys), None in script.keys) == (2, 1, False)


def test_a_lost_rotation_keeps_the_configured_secret(call: Caller, chain: Chain) -> None:
    del chain
    with rest_api.serving() as url:
        call.url = url
        created = call("create_webhook", club_id=1, url="https://hooks.example.org/")
        lost = losing(call, url)
        assert [call("rotate_webhook", created["endpoint"]["id"])] == lost
        assert lost[0]["secret"] != created["secret"]


def test_types_and_synchronous_client_are_generated() -> None:
    assert (FOLDER / "types.py").read_text() == client_types(), (
        "python -m ops.openapi.client_types > sdk/python/masscomm_client/types.py"
    )
    command = "python -m ops.openapi.synchronous_client > sdk/python/masscomm_client/synchronous.py"
    assert (FOLDER / "synchronous.py").read_text() == synchronous_client(), command


def test_java_client_is_generated_with_the_same_methods() -> None:
    for name, text in java_client.java_client().items():
        assert (java_client.FOLDER / name).read_text() == text, "python -m ops.openapi.java_client"
    assert {*java_client.METHODS.values(), "follow"} == methods(Client)


def test_package_needs_httpx_only() -> None:
    project = tomllib.loads((FOLDER.parent / "pyproject.toml").read_text())["project"]
    assert [requirement.partition(">")[0] for requirement in project["dependencies"]] == ["httpx"]
    script = "import sys; sys.path.insert(0, sys.argv[1]); import masscomm_client; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script, str(ROOT / "sdk" / "python")], capture_output=True, text=True, check=True
    )
    imported = {name.partition(".")[0] for name in done.stdout.split()}
    assert not {"masscomm", "functions", "ops", "pydantic", "aiohttp", "boto3"} & imported
