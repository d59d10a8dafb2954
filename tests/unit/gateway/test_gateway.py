"""API Gateway's treatment of requests and of functions' responses, over HTTP."""

import asyncio
import base64
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from infra.cdk.resources.rest_api import _ACCESS_LOG
from local.emulators.gateway import DOCUMENT, REFERENCE, Gateway, Route
from local.emulators.lambda_host import RequestTooLargeError
from masscomm.http.problem import CONTENT_TYPE, Problem, request_too_large
from masscomm.http.tenant import ALL_CLUBS, clubs_of
from masscomm.texts import Text
from tests.support.inputs.api_gateway_events import EVERY_CLUB

ROUTES = ["POST /v1/sends", "GET /v1/sends/{send_id}", "GET /v1/sends/latest", "GET /files/{path+}", "ANY /any"]
NOT_FOUND = Problem(404, Text.ROUTE_UNKNOWN.filled()).body()


@dataclass(frozen=True)
class FixedResponse:
    payload: bytes
    function_error: str | None = None


class Function:
    """Records its events and returns a prepared response."""

    def __init__(self, answer: object = None, *, error: bool = False) -> None:
        self.answer: object = {"statusCode": 200} if answer is None else answer
        self.error = error
        self.events: list[dict[str, Any]] = []
        self.names: list[str] = []
        self.gate: asyncio.Event | None = None
        self.raises: Exception | None = None
        self.ended = 0

    async def __call__(self, name: str, payload: bytes) -> FixedResponse:
        self.names.append(name)
        self.events.append(json.loads(payload))
        if self.gate is not None:
            await self.gate.wait()
        if self.raises is not None:
            raise self.raises
        self.ended += 1
        body = self.answer if isinstance(self.answer, bytes) else json.dumps(self.answer).encode()
        return FixedResponse(body, "Unhandled" if self.error else None)


@contextlib.asynccontextmanager
async def serving(function: Function, **changes: Any) -> AsyncIterator[httpx.AsyncClient]:
    config: dict[str, Any] = {
        "ready": lambda: {"ready": True},
        "status": lambda: {"functions": {}},
        "authorize": lambda _headers: EVERY_CLUB,
    }
    gateway = Gateway([Route.parse(text, text) for text in ROUTES], invoke=function, **(config | changes))
    await gateway.start(0)
    try:
        url, key = f"http://127.0.0.1:{gateway.port}", {"x-api-key": "k"}
        async with httpx.AsyncClient(base_url=url, trust_env=False, headers=key) as client:
            yield client
    finally:
        await gateway.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.001)


async def test_gateway_serves_the_console_without_a_key(tmp_path: Path) -> None:
    (tmp_path / "assets").mkdir()
    for name in ("index.html", "icon.svg", "assets/index-1.js"):
        (tmp_path / name).write_text(name)
    function = Function({"statusCode": 200, "body": "of the function"})
    async with serving(function, console=tmp_path) as client:
        page = await client.get("/", headers={"x-api-key": ""})
        script = await client.get("/assets/index-1.js")
        assert (page.text, script.text) == ("index.html", "assets/index-1.js")
        for response in (page, script):
            policy = response.headers["content-security-policy"]
            assert "script-src 'self';" in policy
            assert "unsafe" not in policy
            assert response.headers["x-content-type-options"] == "nosniff"
        assert (page.headers["content-type"], page.headers["cache-control"]) == ("text/html", "no-cache")
        for outside in ("/assets/../../secret", "/assets/%2e%2e/%2e%2e/secret", "/assets/"):
            assert (await client.get(outside)).status_code in (403, 404)
        api = await client.get("/v1/sends/7")
        assert api.text == "of the function"
        assert "content-security-policy" not in api.headers


async def test_without_a_console_the_root_path_is_not_found() -> None:
    async with serving(Function()) as client:
        assert (await client.get("/")).json() == NOT_FOUND


async def test_the_event_is_a_rest_proxy_event() -> None:
    function = Function()
    async with serving(function) as client:
        await client.post(
            "/v1/sends?a=1&a=2&b=%C3%BC&empty=",
            content='{"x": "ü"}',
            headers=[("X-Twice", "1"), ("X-Twice", "2"), ("Content-Type", "application/json"), ("x-api-key", "k")],
        )
    (event,) = function.events
    assert event["resource"] == "/v1/sends"
    assert event["path"] == "/v1/sends"
    assert event["httpMethod"] == "POST"
    assert event["queryStringParameters"] == {"a": "2", "b": "ü", "empty": ""}
    assert event["multiValueQueryStringParameters"] == {"a": ["1", "2"], "b": ["ü"], "empty": [""]}
    assert event["pathParameters"] is None
    assert event["stageVariables"] is None
    assert event["headers"]["X-Twice"] == "2"
    assert event["multiValueHeaders"]["X-Twice"] == ["1", "2"]
    assert event["body"] == '{"x": "ü"}'
    assert event["isBase64Encoded"] is False
    context = event["requestContext"]
    assert context["requestId"]
    assert context["stage"] == "local"
    assert context["path"] == "/local/v1/sends"
    assert context["resourcePath"] == "/v1/sends"
    assert context["httpMethod"] == "POST"
    assert context["identity"]["sourceIp"] == "127.0.0.1"
    assert context["identity"]["apiKey"] == "k"
    # apiKeyId counts a key's open long polls: it is unique for each key, but not the key itself.
    assert context["identity"]["apiKeyId"] not in (None, "", "k")
    assert clubs_of(context["authorizer"]) == ALL_CLUBS
    assert isinstance(context["requestTimeEpoch"], int)


@pytest.mark.guarantee("api_keys.without_key_is_refused_locally")
async def test_a_request_is_authorized_by_its_key() -> None:
    """A request that the authorizer denies is refused before the function is called."""
    function, asked = Function(), list[str]()

    def authorize(headers: Mapping[str, str]) -> dict[str, str] | None:
        key = headers.get("X-API-Key", "")
        asked.append(key)
        if key == "mc_broken":
            raise OSError("DynamoDB does not answer")
        return {"club_ids": "7", "scopes": "read"} if key == "mc_own" else None

    async with serving(function, authorize=authorize) as client:
        answers = [
            (await client.get("/v1/sends/1", headers={"x-api-key": key})).status_code
            for key in ("mc_own", "mc_other", "mc_broken", "")
        ]
        del client.headers["x-api-key"]
        answers.append((await client.get("/v1/sends/1")).status_code)
        answers.append((await client.get("/-/ready")).status_code)
    assert answers == [200, 401, 500, 401, 401, 200]
    assert asked == ["mc_own", "mc_other", "mc_broken", "", ""]
    assert [event["requestContext"]["authorizer"] for event in function.events] == [{"club_ids": "7", "scopes": "read"}]


async def test_absent_parts_of_a_request_are_null() -> None:
    function = Function()
    async with serving(function) as client:
        await client.get("/v1/sends/1")
    (event,) = function.events
    assert event["body"] is None
    assert event["queryStringParameters"] is None
    assert event["multiValueQueryStringParameters"] is None


@pytest.mark.parametrize(
    ("path", "route", "parameters"),
    [
        ("/v1/sends/ab-1", "GET /v1/sends/{send_id}", {"send_id": "ab-1"}),
        ("/v1/sends/a%2Fb", "GET /v1/sends/{send_id}", {"send_id": "a/b"}),
        ("/v1/sends/a%0Ab", "GET /v1/sends/{send_id}", {"send_id": "a\nb"}),
        ("/v1/sends/latest", "GET /v1/sends/latest", None),
        ("/files/a/b", "GET /files/{path+}", {"path": "a/b"}),
        ("/any", "ANY /any", None),
    ],
)
async def test_a_path_reaches_its_function_with_its_parameters(
    path: str, route: str, parameters: dict[str, str] | None
) -> None:
    function = Function()
    async with serving(function) as client:
        assert (await client.get(path)).status_code == 200
    assert function.names == [route]
    assert function.events[0]["pathParameters"] == parameters


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/nowhere"),
        ("DELETE", "/v1/sends"),
        ("GET", "/v1/sends"),
        ("GET", "/v1/sends/"),
        ("GET", "/files"),
        ("GET", "/"),
    ],
)
async def test_an_unknown_route_is_404(method: str, path: str) -> None:
    function = Function()
    async with serving(function) as client:
        response = await client.request(method, path)
    assert (response.status_code, response.json()) == (404, NOT_FOUND)
    assert response.headers["content-type"].startswith("application/problem+json")
    assert response.headers["x-amzn-ErrorType"] == "MissingAuthenticationTokenException"
    assert function.events == []


async def test_answer_of_a_function_is_returned_unchanged() -> None:
    answer = {
        "statusCode": 202,
        "headers": {"Content-Type": "application/problem+json", "X-One": "1", "X-Number": 7, "X-True": True},
        "multiValueHeaders": {"X-Many": ["a", "b"], "X-ONE": ["2"]},
        "body": '{"ü": 1}',
    }
    async with serving(Function(answer)) as client:
        response = await client.get("/any")
    assert response.status_code == 202
    assert response.headers["content-type"] == "application/problem+json"
    assert response.headers.get_list("x-many") == ["a", "b"]
    assert response.headers.get_list("x-one") == ["2"]
    assert (response.headers["x-number"], response.headers["x-true"]) == ("7", "true")
    assert response.json() == {"ü": 1}


async def test_a_base64_body_is_decoded() -> None:
    answer = {"statusCode": 200, "isBase64Encoded": True, "body": base64.b64encode(b"\x00\xff").decode()}
    async with serving(Function(answer)) as client:
        assert (await client.get("/any")).content == b"\x00\xff"


async def test_answer_without_content_type_is_json() -> None:
    async with serving(Function({"statusCode": 200, "body": "{}"})) as client:
        assert (await client.get("/any")).headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    "answer",
    [
        b"not json",
        [],
        "text",
        {},
        {"body": "no status"},
        {"statusCode": "abc"},
        {"statusCode": 99},
        {"statusCode": True},
        {"statusCode": 200, "body": {"not": "a string"}},
        {"statusCode": 200, "headers": []},
        {"statusCode": 200, "headers": {"X": {}}},
        {"statusCode": 200, "multiValueHeaders": {"X": "not a list"}},
        {"statusCode": 200, "isBase64Encoded": True, "body": "!"},
        {"statusCode": 200, "unknown": 1},
    ],
)
async def test_a_malformed_answer_is_502(answer: object) -> None:
    async with serving(Function(answer)) as client:
        response = await client.get("/any")
    assert (response.status_code, response.json()) == (502, Problem(502, Text.SERVICE_FAILED.filled()).body())


async def test_function_error_is_502_without_its_message() -> None:
    async with serving(Function({"errorMessage": "secret"}, error=True)) as client:
        response = await client.get("/any")
    assert (response.status_code, response.json()) == (502, Problem(502, Text.SERVICE_FAILED.filled()).body())


async def test_function_over_the_gateways_timeout_is_504() -> None:
    """The function's invocation continues."""
    function = Function()
    function.gate = asyncio.Event()
    async with serving(function, timeout_s=0.05) as client:
        response = await client.get("/any")
        assert (response.status_code, response.json()) == (
            504,
            Problem(504, Text.ANSWER_TOO_LATE.filled(seconds=29)).body(),
        )
        assert function.ended == 0
        function.gate.set()
        await until(lambda: function.ended == 1)


async def test_a_body_over_10_mb_is_413_and_never_invoked_with() -> None:
    function = Function()
    async with serving(function) as client:
        response = await client.post("/v1/sends", content=b"x" * (10 * 1024 * 1024 + 1))
    assert (response.status_code, response.json()) == (413, Problem(413, request_too_large()).body())
    assert function.events == []


async def test_event_beyond_lambdas_limit_is_413() -> None:
    function = Function()
    function.raises = RequestTooLargeError("too large")
    async with serving(function) as client:
        response = await client.post("/v1/sends", content=b"{}")
    assert (response.status_code, response.json()) == (413, Problem(413, request_too_large()).body())


async def test_too_many_requests_at_a_time_are_429() -> None:
    function = Function()
    function.gate = asyncio.Event()
    async with serving(function, max_in_flight=1) as client:
        first = asyncio.create_task(client.get("/any"))
        await until(lambda: len(function.events) == 1)
        response = await client.get("/any")
        assert (response.status_code, response.json()) == (
            429,
            Problem(429, Text.REQUESTS_AT_ONCE.filled(maximum=1)).body(),
        )
        function.gate.set()
        assert (await first).status_code == 200
        assert (await client.get("/any")).status_code == 200


async def test_ready_is_200_only_once_all_parts_are() -> None:
    report = {"ready": False, "starting": ["f"]}
    async with serving(Function(), ready=lambda: report) as client:
        response = await client.get("/-/ready")
        assert (response.status_code, response.json()) == (503, report)
        report["ready"] = True
        assert (await client.get("/-/ready")).status_code == 200


async def test_status_is_json() -> None:
    async with serving(Function()) as client:
        assert (await client.get("/-/status")).json() == {"functions": {}}


async def test_a_taken_port_is_an_error() -> None:
    gateway = Gateway([], invoke=Function(), ready=dict, status=dict, authorize=lambda _headers: None)
    await gateway.start(0)
    try:
        with pytest.raises(OSError, match="in use"):
            await Gateway([], invoke=Function(), ready=dict, status=dict, authorize=lambda _headers: None).start(
                gateway.port
            )
    finally:
        await gateway.close()


@pytest.mark.parametrize(("size", "status"), [(9_000, 200), (10_241, 431), (60_000, 431)])
async def test_request_line_and_headers_are_limited(size: int, status: int) -> None:
    """Longer ones than the server reads by default are refused with problem details, too."""
    function = Function()
    async with serving(function) as client:
        answers = [
            await client.get("/any", params={"a": "x" * size}),
            await client.get("/any", headers={"x-a": "x" * size}),
        ]
    assert [answer.status_code for answer in answers] == [status] * 2
    assert len(function.events) == (2 if status == 200 else 0)
    if status == 431:
        assert {answer.headers["Content-Type"].partition(";")[0] for answer in answers} == {CONTENT_TYPE}


async def test_openapi_document_and_documentation_are_served(tmp_path: Path) -> None:
    names = ("index.html", "sending.html", "api-reference/index.html", "decisions/index.html", "assets/app.js")
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    async with serving(Function(), docs=tmp_path) as client:
        document = await client.get("/openapi.json")
        assert document.headers["Content-Type"] == "application/json"
        assert document.json() == json.loads(DOCUMENT.read_text())
        for path, target in (("/docs", "/docs/"), ("/-/api", REFERENCE)):
            response = await client.get(path)
            assert (response.status_code, response.headers["Location"]) == (302, target)
        served = {
            "/docs/": "index.html",
            "/docs/decisions/": "decisions/index.html",
            "/docs/sending.html": "sending.html",
            REFERENCE: "api-reference/index.html",
            "/docs/assets/app.js": "assets/app.js",
        }
        for path, name in served.items():
            response = await client.get(path, headers={"x-api-key": ""})
            assert response.text == name
            policy = dict(each.strip().split(" ", 1) for each in response.headers["Content-Security-Policy"].split(";"))
            assert policy["default-src"] == "'none'"
            assert policy["script-src"] == policy["connect-src"] == "'self'"
            # Redoc makes its own styles.
            assert ("unsafe" in policy["style-src"]) == (path == REFERENCE)
            assert response.headers["X-Content-Type-Options"] == "nosniff"
            assert (response.headers.get("Cache-Control") == "no-cache") == name.endswith(".html")
        for outside in ("/docs/../secret", "/docs/%2e%2e/secret", "/docs/assets/", "/docs/absent.html"):
            assert (await client.get(outside)).status_code in (403, 404)


@pytest.mark.kills(guard="gateway.principal_of_a_request")
async def test_the_access_log_names_the_principal(caplog: pytest.LogCaptureFixture) -> None:
    """Entries have the fields of the deployed API's access log, and neither the path nor the key."""
    caplog.set_level(logging.INFO, logger="local.emulators.gateway.access")
    function = Function({"statusCode": 202, "body": "12345"})
    identities = iter([EVERY_CLUB | {"principalId": "k7"}, None])
    async with serving(function, authorize=lambda _headers: next(identities)) as client:
        for _ in range(2):
            await client.get("/v1/sends/of-a-person?user=ada", headers={"x-api-key": "secret-key"})
    found = [json.loads(record.getMessage()) for record in caplog.records]
    assert [entry.keys() for entry in found] == [_ACCESS_LOG.keys()] * 2
    seen = [(entry["principal"], entry["status"], entry["resourcePath"], entry["httpMethod"]) for entry in found]
    assert seen == [(who, status, "/v1/sends/{send_id}", "GET") for who, status in (("k7", 202), ("-", 401))]
    assert found[0]["responseLength"] == 5
    assert found[0]["requestId"] == function.events[0]["requestContext"]["requestId"]
    assert not any(word in caplog.text for word in ("of-a-person", "ada", "secret-key"))
