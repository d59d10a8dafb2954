"""The cases that every client passes (sdk/cases.json), against a server on this machine."""

import asyncio
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from urllib.parse import parse_qsl

import httpx
import pytest

from local.devstack.config import ROOT
from masscomm_client import ApiError, AsyncClient, Client, WebhookError, verify_webhook

CASES = json.loads((ROOT / "sdk" / "cases.json").read_text())
FIRST_WEBHOOK = CASES["webhooks"][0]
# The arguments of a method besides those of its call.
OPTIONS = ("poll_s", "timeout_s", "unknown_s", "if_match", "club_id")


@dataclass
class Script:
    """Answers requests in turn. A server that refuses at first listens from the first pause on."""

    answers: list[Any]
    received: list[dict[str, Any]] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)

    @contextmanager
    def serving(self) -> Iterator[str]:
        self.server = HTTPServer(("127.0.0.1", 0), self._handler(), bind_and_activate=False)
        self.server.server_bind()
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        if self.answers[0] == "refused":
            self.answers.pop(0)
        else:
            self._listen()
        try:
            yield f"http://127.0.0.1:{self.server.server_address[1]}"
        finally:
            # The shutdown of a server that does not serve would never end.
            if self.thread.is_alive():
                self.server.shutdown()
                self.thread.join(10)
            self.server.server_close()

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        if not self.thread.is_alive():
            self._listen()

    async def asleep(self, seconds: float) -> None:
        self.sleep(seconds)

    def _listen(self) -> None:
        self.server.server_activate()
        self.thread.start()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        script = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                path, _, query = self.path.partition("?")
                script.received.append(
                    {
                        "method": self.command,
                        "path": path,
                        "query": [list(pair) for pair in parse_qsl(query)],
                        "key": self.headers.get("Idempotency-Key"),
                        "if_match": self.headers.get("If-Match"),
                        "api_key": self.headers.get("x-api-key"),
                        "body": json.loads(body) if body else None,
                    }
                )
                answer = script.answers.pop(0)
                if answer == "lost":
                    self.close_connection = True
                    return
                self.send_response(answer["status"])
                for name, value in answer.get("headers", {}).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(answer.get("text", json.dumps(answer.get("body", {}))).encode())

            do_GET = do_POST = do_PUT = do_DELETE = answer

            def log_message(self, format: str, *arguments: object) -> None:
                """Print nothing for a request."""

        return Handler


def execute(script: Script, url: str, call: dict[str, Any], *, is_async: bool) -> Any:
    """Call the method of an operation; iterators become lists."""
    args = [call["id"]] if "id" in call else []
    options = call.get("body", {}) | call.get("query", {}) | {name: call[name] for name in OPTIONS if name in call}
    if "key" in call:
        options["idempotency_key"] = call["key"]

    async def with_async() -> Any:
        async with AsyncClient(url, key="mc_test", sleep=script.asleep) as api:
            found = getattr(api, call["operation"])(*args, **options)
            return [each async for each in found] if hasattr(found, "__aiter__") else await found

    if is_async:
        return asyncio.run(with_async())
    with Client(url, key="mc_test", sleep=script.sleep) as api:
        found = getattr(api, call["operation"])(*args, **options)
        return list(found) if hasattr(found, "__next__") else found


@pytest.mark.kills(guard="client.removed_before")
@pytest.mark.kills(guard="client.unknown_send")
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("case", CASES["requests"], ids=lambda case: case["name"])
def test_case_has_its_requests_pauses_and_result(case: dict[str, Any], *, is_async: bool) -> None:
    script = Script(list(case["answers"]))
    with script.serving() as url:
        if "result" in case:
            assert execute(script, url, case["call"], is_async=is_async) == case["result"]
        else:
            check_error(script, url, case, is_async=is_async)
    expected = case["requests"]
    assert len(script.received) == expected["count"]
    assert len({each["key"] for each in script.received}) == 1
    for each in script.received:
        assert each["api_key"] == "mc_test"
        assert each["if_match"] == expected.get("if_match")
        assert [each[name] for name in ("method", "path", "body") if name in expected] == [
            expected[name] for name in ("method", "path", "body") if name in expected
        ]
        if expected.get("key") == "made":
            assert re.fullmatch("[0-9a-f-]{36}", each["key"])
        elif "key" in expected:
            assert each["key"] == expected["key"]
    if "queries" in expected:
        assert [each["query"] for each in script.received] == expected["queries"]
    pauses = case.get("pauses", [])
    assert len(script.pauses) == len(pauses)
    for waited, pause in zip(script.pauses, pauses, strict=True):
        assert waited <= pause["at_most"] if isinstance(pause, dict) else waited == pause


def check_error(script: Script, url: str, case: dict[str, Any], *, is_async: bool) -> None:
    expected = case["error"]
    with pytest.raises((ApiError, TimeoutError, httpx.TransportError)) as raised:
        execute(script, url, case["call"], is_async=is_async)
    error = raised.value
    if isinstance(expected, dict):
        assert isinstance(error, ApiError)
        names = ("status", "detail", "errors", "retry_after_s")
        assert {name: getattr(error, name) for name in names} | {"message": str(error)} == expected
    elif expected == "no response":
        assert isinstance(error, httpx.TransportError)
    else:
        assert isinstance(error, TimeoutError)
        assert str(error) == expected


@pytest.mark.kills(guard="client.webhook_time")
@pytest.mark.parametrize("case", CASES["webhooks"], ids=lambda case: case["name"])
def test_webhook_is_verified_or_refused(case: dict[str, Any]) -> None:
    """A case has what differs from the first one."""
    given = FIRST_WEBHOOK | case
    headers = case.get("headers", {})
    if "Webhook-Id" not in headers:
        headers = FIRST_WEBHOOK["headers"] | headers
    options = {name: given[name] for name in ("now_s", "tolerance_s") if name in given}
    body = given["body"].encode()
    if "error" not in case:
        assert verify_webhook(given["secrets"], headers, body, **options) == given["result"]
        return
    with pytest.raises((WebhookError, ValueError), match=f"^{case['error']}$"):
        verify_webhook(given["secrets"], headers, body, **options)
