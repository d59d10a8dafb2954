"""Server-sent events of the local gateway, over HTTP, from a function that answers long polls."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from local.emulators.gateway import Gateway, Route
from local.emulators.server_sent_events import EVENT_ROUTES, EVENT_STREAM, HEARTBEAT_S
from tests.support.inputs.api_gateway_events import EVERY_CLUB

PATH = "/v1/sends/7/events"
EVENTS = {"Accept": EVENT_STREAM}


@dataclass(frozen=True)
class Invoked:
    payload: bytes
    function_error: str | None = None


@dataclass
class Send:
    """A function that answers with planned versions; a version that is asked for again is unchanged."""

    versions: list[str]
    complete_at: str = ""
    # The status of each answer after the planned versions.
    refusal: int = 200
    asked: list[dict[str, str]] = field(default_factory=list)
    allowed: bool = True
    # The second request waits for `gate`; `waiting` is set then.
    gate: asyncio.Event | None = None
    waiting: asyncio.Event = field(default_factory=asyncio.Event)
    accepts: set[str] = field(default_factory=set)

    async def __call__(self, _function: str, payload: bytes) -> Invoked:
        event = json.loads(payload)
        self.accepts.update(event["multiValueHeaders"]["Accept"])
        self.asked.append(event["queryStringParameters"])
        if self.gate is not None and len(self.asked) > 1:
            self.waiting.set()
            await self.gate.wait()
        after = event["queryStringParameters"].get("after")
        if self.refusal != 200 and not self.versions:
            return _answered(self.refusal, {"title": "refused"}, {"Retry-After": "5"})
        version = self.versions.pop(0) if self.versions else after
        changed, complete = version != after, version == self.complete_at
        return _answered(200, {"version": version, "changed": changed, "complete": complete, "send": {"n": version}})

    def authorize(self, _headers: Mapping[str, str]) -> Mapping[str, str] | None:
        return EVERY_CLUB if self.allowed else None


def _answered(status: int, body: object, headers: Mapping[str, str] | None = None) -> Invoked:
    return Invoked(json.dumps({"statusCode": status, "headers": headers, "body": json.dumps(body)}).encode())


@asynccontextmanager
async def serving(send: Send) -> AsyncIterator[httpx.AsyncClient]:
    routes = [Route(method=method, path=path, function="stream") for method, path in EVENT_ROUTES]
    gateway = Gateway(routes, invoke=send, ready=lambda: {"ready": True}, status=dict, authorize=send.authorize)
    await gateway.start(0)
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{gateway.port}", trust_env=False) as client:
            yield client
    finally:
        async with asyncio.timeout(20):
            await gateway.close()


def read(text: str) -> list[tuple[str, Any]]:
    """Return (name, value) of each field; a comment has the name ""."""
    fields = [line.partition(":")[::2] for line in text.splitlines() if line]
    return [(name, json.loads(value) if name == "data" else value.strip()) for name, value in fields]


async def test_each_change_is_an_event_until_the_end() -> None:
    send = Send(["a", "b", "b", "c"], complete_at="c")
    async with serving(send) as client:
        response = await client.get(PATH, headers=EVENTS)
    assert response.headers["content-type"] == EVENT_STREAM
    assert response.headers["cache-control"] == "no-store"
    found = read(response.text)
    assert [value for name, value in found if name == "id"] == ["a", "b", "c"]
    assert [value["send"] for name, value in found if name == "data"] == [{"n": "a"}, {"n": "b"}, {"n": "c"}]
    assert found[4] == ("", "no change")
    assert send.accepts == {"application/json"}
    beat = str(HEARTBEAT_S)
    assert send.asked == [
        {"wait": "0"},
        {"after": "a", "wait": beat},
        {"after": "b", "wait": beat},
        {"after": "b", "wait": beat},
    ]


async def test_a_connection_resumes_after_its_last_event() -> None:
    send = Send(["b", "c"], complete_at="c")
    async with serving(send) as client:
        response = await client.get(PATH, headers=EVENTS | {"Last-Event-ID": "b"})
    assert [value for name, value in read(response.text) if name == "id"] == ["c"]
    assert send.asked[0] == {"after": "b", "wait": "0"}


async def test_nothing_after_the_end_is_204() -> None:
    """A browser's EventSource reconnects after the end of a stream, except after this status."""
    async with serving(Send(["c"], complete_at="c")) as client:
        response = await client.get(PATH, headers=EVENTS | {"Last-Event-ID": "c"})
    assert (response.status_code, response.content) == (204, b"")


@pytest.mark.parametrize("accept", ["application/json", "*/*", "application/json, text/event-stream;q=0.5"])
async def test_other_callers_get_one_answer(accept: str) -> None:
    async with serving(Send(["a"])) as client:
        response = await client.get(f"{PATH}?after=x", headers={"Accept": accept})
    assert response.json()["version"] == "a"


@pytest.mark.parametrize("status", [404, 429, 503])
async def test_a_refused_first_poll_is_the_response(status: int) -> None:
    async with serving(Send([], refusal=status)) as client:
        response = await client.get(PATH, headers=EVENTS)
    assert (response.status_code, response.json()) == (status, {"title": "refused"})


async def test_a_refused_later_poll_ends_the_stream() -> None:
    """The caller may connect again after the time that the function names."""
    async with serving(Send(["a"], refusal=429)) as client:
        found = read((await client.get(PATH, headers=EVENTS)).text)
    assert [name for name, _ in found] == ["id", "data", "retry"]
    assert found[-1] == ("retry", "5000")


async def test_a_caller_without_access_gets_no_stream() -> None:
    send = Send(["a"], allowed=False)
    async with serving(send) as client:
        assert (await client.get(PATH, headers=EVENTS)).status_code == 401
    assert send.asked == []


async def test_a_revoked_caller_gets_no_further_event() -> None:
    send = Send(["a", "b", "c"], gate=asyncio.Event())
    async with serving(send) as client, client.stream("GET", PATH, headers=EVENTS) as response:
        lines = response.aiter_lines()
        assert await anext(lines) == "id: a"
        await send.waiting.wait()
        send.allowed = False
        assert send.gate is not None
        send.gate.set()
        # Without the check of each poll the stream would not end.
        async with asyncio.timeout(20):
            rest = [line async for line in lines if line.startswith("id")]
    # The poll that was under way when the access ended is answered.
    assert rest == ["id: b"]


async def test_a_stopping_gateway_ends_open_streams() -> None:
    send = Send(["a"], gate=asyncio.Event())
    async with serving(send) as client, client.stream("GET", PATH, headers=EVENTS) as response:
        assert response.status_code == 200
        stopping = response
    assert stopping.is_closed
