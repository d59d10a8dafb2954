"""An HTTP gateway in front of functions that behaves like API Gateway's REST APIs (v1) with Lambda proxy integration.

Source: AWS documentation, "Lambda proxy integrations in API Gateway", "Gateway response types for API Gateway" and
"Quotas for configuring and running a REST API in API Gateway".
"""

import asyncio
import base64
import binascii
import hashlib
import json
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import InitVar, dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qsl, unquote

from aiohttp import web
from multidict import CIMultiDict, CIMultiDictProxy

from local.emulators.queues import Door, MessageTooLarge, QueueDown
from local.emulators.server_sent_events import as_poll, asks_for_events, relay
from masscomm.domain.incoming_messages import CONTENT_TYPES, DOOR, MAX_BODY_KB
from masscomm.domain.time_limits import DOOR_RETRY_AFTER_S, GATEWAY_TIMEOUT_S
from masscomm.http.console_headers import (
    CONTENT_TYPE_OPTIONS,
    DOCS_SECURITY_POLICY,
    REFERENCE_SECURITY_POLICY,
    REFERRER_POLICY,
    content_security_policy,
)
from masscomm.http.problem import CONTENT_TYPE, Problem, request_too_large
from masscomm.http.scopes import PUBLIC_ROUTES
from masscomm.texts import CodedText, Text

log = logging.getLogger(__name__)
# One line a request, in JSON, with the fields of the deployed API's access log (infra/cdk/resources/rest_api.py).
access_log = logging.getLogger(f"{__name__}.access")

DOCUMENT = Path(__file__).parents[2] / "docs" / "openapi" / "masscomm.json"
MAX_BODY_BYTES = 10 * 1024 * 1024
# The maximum size of the request line and the values of all headers. Source: "Quotas for configuring and running a REST
# API in API Gateway".
MAX_HEAD_BYTES = 10_240
# The server reads longer heads, so that they are refused with problem details.
_READ_HEAD_BYTES = 1024 * 1024
MAX_IN_FLIGHT = 200
ACCOUNT = "000000000000"
API_ID = "local"
STAGE = "local"
# The pages of the documentation, and the one among them that shows the OpenAPI document.
DOCS = "/docs"
REFERENCE = f"{DOCS}/api-reference/index.html"
FILE_HEADERS = {
    "X-Content-Type-Options": CONTENT_TYPE_OPTIONS,
    "Referrer-Policy": REFERRER_POLICY,
}
# Headers of the connection, which only the HTTP server of this process may set.
HOP_BY_HOP = frozenset({"connection", "content-length", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"})


class InvocationResponse(Protocol):
    """The response of Lambda's Invoke."""

    @property
    def payload(self) -> bytes: ...
    @property
    def function_error(self) -> str | None: ...


Invoke = Callable[[str, bytes], Awaitable[InvocationResponse]]
Report = Callable[[], dict[str, Any]]
# A function that returns the authorizer context of a request with these headers, or None if the request is denied. If
# it raises an error, the authorizer has failed.
Authorize = Callable[[Mapping[str, str]], Mapping[str, str] | None]
# Records a request: method, path of the route, status, and seconds.
Observe = Callable[[str, str, int, float], None]
# The method and the path of requests that match no route: the number of their values would be unlimited.
NO_ROUTE = "other"
# The status of a request whose caller closed the connection before the response.
CLIENT_CLOSED = 499


@dataclass(frozen=True, kw_only=True)
class Route:
    """A method and a path of the API, and the function that serves them.

    Args:
        path: The path, such as `/v1/sends/{send_id}`; `{name+}` at the end matches the rest of the path.
    """

    method: str
    path: str
    function: str

    @classmethod
    def parse(cls, text: str, function: str) -> "Route":
        """Return the route in a text in the form of functions.yaml, such as `GET /v1/metrics`."""
        method, _, path = text.partition(" ")
        if not path.startswith("/"):
            raise ValueError(f"not a route: {text!r}")
        return cls(method=method, path=path, function=function)

    def match(self, method: str, path: str) -> dict[str, str] | None:
        """Return the decoded path parameters; None if the path does not match."""
        if self.method not in (method, "ANY"):
            return None
        template, parts = self.path.strip("/").split("/"), path.strip("/").split("/")
        parameters: dict[str, str] = {}
        for position, segment in enumerate(template):
            if segment.endswith("+}"):
                if position >= len(parts):
                    return None
                parameters[segment[1:-2]] = unquote("/".join(parts[position:]))
                return parameters
            if position >= len(parts):
                return None
            if segment.startswith("{"):
                if not parts[position]:
                    return None
                parameters[segment[1:-1]] = unquote(parts[position])
            elif segment != parts[position]:
                return None
        return parameters if len(parts) == len(template) else None

    @property
    def is_public(self) -> bool:
        """Return whether the route needs no API key."""
        return (self.method, self.path) in PUBLIC_ROUTES

    @property
    def weight(self) -> tuple[int, ...]:
        """Return a sort key: literal segments come before parameters, and parameters before the rest of a path."""
        return tuple(
            2 if segment.endswith("+}") else 1 if segment.startswith("{") else 0 for segment in self.path.split("/")
        )


class MalformedResponseError(Exception):
    """The function returned no valid proxy response."""


_ROUTE = web.RequestKey("route", Route)
_PRINCIPAL = web.RequestKey("principal", str)
_REQUEST_ID = web.RequestKey("request_id", str)


@dataclass(kw_only=True, eq=False)
class Gateway:
    """Serves the routes, some of them as server-sent events as well, /-/ready, /-/status and /metrics for monitoring,
    the OpenAPI document at /openapi.json, and the documentation below /docs, to whose API reference /-/api leads.
    """

    routes: InitVar[Iterable[Route]] = field(kw_only=False)
    # Invokes a Lambda function with an event. If Lambda refuses, it raises an exception whose attribute status_code is
    # the HTTP status.
    invoke: Invoke
    # Returns the content of /-/ready; the status is 200 if its `ready` is true, else 503.
    ready: Report
    # Returns the content of /-/status.
    status: Report
    # Returns the context of a request's credentials; it is called in a separate thread.
    authorize: Authorize
    # Returns the page /metrics and its content type; it is called in a separate thread.
    metrics: Callable[[], tuple[bytes, str]] | None = None
    # Is called after each request to the API.
    observe: Observe = lambda *_: None
    # The seconds that the gateway waits for a function. The invocation itself continues after that, as in Lambda.
    timeout_s: float = GATEWAY_TIMEOUT_S
    # The maximum number of concurrent requests; further requests are throttled.
    max_in_flight: int = MAX_IN_FLIGHT
    # The folder of the built console, which is served at `/`; None: there is no console.
    console: Path | None = None
    # The folder of the built documentation, which is served below `/docs`; None: it is not served.
    docs: Path | None = None
    # Writes incoming webhooks to their queue; None: there is no door.
    door: Door | None = None
    # Further routes of the server, such as those of a development issuer (local/emulators/sign_in.py).
    further: Iterable[web.RouteDef] = ()

    def __post_init__(self, routes: Iterable[Route]) -> None:
        self._routes = sorted(routes, key=lambda route: route.weight)
        self._in_flight = 0
        # The handlers of event streams, which otherwise would delay the end of the process.
        self._streams: set[asyncio.Task[Any]] = set()
        self._running: set[asyncio.Task[InvocationResponse]] = set()
        self._runner: web.AppRunner | None = None
        self.port = 0

    async def start(self, port: int) -> None:
        """Listen on 127.0.0.1. Port 0 means any free port; the attribute `port` then has its number. Raises OSError
        if the port is in use.
        """
        application = web.Application(client_max_size=MAX_BODY_BYTES)
        application.router.add_get("/-/ready", self._serve_ready)
        application.router.add_get("/-/status", self._serve_status)
        if DOCUMENT.exists():
            application.router.add_get("/openapi.json", self._serve_document)
        if self.docs is not None:
            application.router.add_get("/-/api", partial(_redirect, REFERENCE))
            application.router.add_get(DOCS, partial(_redirect, f"{DOCS}/"))
            # A folder is served by its index, as the deployed site's is (infra/cdk/resources/console.py).
            application.router.add_get(rf"{DOCS}/{{folder:(?:[\w-]+/)*}}", partial(_serve_index, self.docs))
            application.router.add_static(f"{DOCS}/", self.docs)
        application.router.add_routes(self.further)
        if self.door is not None:
            application.router.add_post(DOOR, partial(self._serve_door, self.door))
        if self.metrics is not None:
            application.router.add_get("/metrics", partial(self._serve_metrics, self.metrics))
        if self.console is not None:
            application.router.add_get("/", partial(_serve_file, self.console / "index.html"))
            application.router.add_get("/icon.svg", partial(_serve_file, self.console / "icon.svg"))
            application.router.add_static("/assets", self.console / "assets")
        application.on_response_prepare.append(_add_file_headers)
        # A dot would not match a line end, which a path may contain.
        application.router.add_route("*", r"/{path:[\s\S]*}", self._serve_observed)
        application.on_shutdown.append(self._end_streams)
        self._runner = web.AppRunner(
            application, access_log=None, max_line_size=_READ_HEAD_BYTES, max_field_size=_READ_HEAD_BYTES
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", port).start()
        self.port = self._runner.addresses[0][1]

    async def close(self) -> None:
        """Stop listening; each request in flight gets a response or a closed connection."""
        if self._runner is not None:
            await self._runner.cleanup()
        for task in list(self._running):
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def _serve_ready(self, _request: web.Request) -> web.Response:
        report = self.ready()
        return web.json_response(report, status=200 if report["ready"] else 503)

    async def _serve_status(self, _request: web.Request) -> web.Response:
        return web.json_response(self.status())

    @staticmethod
    async def _serve_document(_request: web.Request) -> web.FileResponse:
        return web.FileResponse(DOCUMENT, headers={"Content-Type": "application/json"})

    @staticmethod
    async def _serve_metrics(metrics: Callable[[], tuple[bytes, str]], _request: web.Request) -> web.Response:
        page, content_type = await asyncio.to_thread(metrics)
        return web.Response(body=page, headers={"Content-Type": content_type})

    async def _serve_observed(self, request: web.Request) -> web.StreamResponse:
        began, status, length = time.perf_counter(), CLIENT_CLOSED, 0
        try:
            response = await self._serve(request)
            status, length = response.status, response.content_length or 0
            return response
        finally:
            route = request.get(_ROUTE)
            method, path = (NO_ROUTE, NO_ROUTE) if route is None else (route.method, route.path)
            self.observe(method, path, status, time.perf_counter() - began)
            access_log.info("%s", json.dumps(_access_entry(request, path, status, length)))

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        if len(request.raw_path) + sum(len(value) for value in request.headers.values()) > MAX_HEAD_BYTES:
            refused = Text.HEAD_TOO_LARGE.filled(maximum=MAX_HEAD_BYTES)
            return _refusal(431, refused, "RequestTooLongException")
        path = request.raw_path.partition("?")[0]
        for route in self._routes:
            parameters = route.match(request.method, path)
            if parameters is not None:
                request[_ROUTE] = route
                break
        else:
            return _refusal(404, Text.ROUTE_UNKNOWN.filled(), "MissingAuthenticationTokenException")
        try:
            body = await request.read()
        except web.HTTPRequestEntityTooLarge:
            return _refusal(413, request_too_large(), "RequestTooLongException")
        if self._in_flight >= self.max_in_flight:
            refused = Text.REQUESTS_AT_ONCE.filled(maximum=self.max_in_flight)
            return _refusal(429, refused, "TooManyRequestsException", retry_after_s=1)
        self._in_flight += 1
        try:
            if route.is_public:
                return await self._integrate(route, proxy_event(request, route, parameters, body, {}))
            if asks_for_events(route.method, route.path, request):
                return await self._serve_events(request, route, parameters)
            return await self._serve_authorized(request, lambda who: proxy_event(request, route, parameters, body, who))
        finally:
            self._in_flight -= 1

    async def _serve_authorized(
        self, request: web.Request, event: Callable[[Mapping[str, str]], dict[str, Any]]
    ) -> web.Response:
        """Return the response to the event of an authorised caller, or a refusal."""
        try:
            identity = await asyncio.to_thread(self.authorize, request.headers)
        except Exception:
            log.exception("the authorizer failed")
            return _refusal(500, Text.SERVICE_FAILED.filled(), "AuthorizerFailureException")
        if identity is None:
            return _refusal(401, Text.CREDENTIALS_INVALID.filled(), "AccessDeniedException")
        request[_PRINCIPAL] = identity.get("principalId", "")
        return await self._integrate(request[_ROUTE], event(identity))

    async def _serve_door(self, door: Door, request: web.Request) -> web.Response:
        """Write a webhook to its queue, without a function: 202, whatever its signature."""
        received_at_ms = round(time.time() * 1000)
        # API Gateway reads a body without a type as JSON.
        given = request.headers.get("Content-Type", CONTENT_TYPES[0]).partition(";")[0].strip().lower()
        if given not in CONTENT_TYPES:
            refused = Text.WEBHOOK_TYPE.filled(types=", ".join(CONTENT_TYPES))
            return _refusal(415, refused, "UnsupportedMediaTypeException")
        try:
            body = await request.read()
            await asyncio.to_thread(door.put, request.match_info["source"], request.headers, body, received_at_ms)
        except (web.HTTPRequestEntityTooLarge, MessageTooLarge):
            refused = Text.WEBHOOK_TOO_LARGE.filled(kilobytes=MAX_BODY_KB)
            return _refusal(413, refused, "RequestTooLongException")
        except QueueDown as error:
            log.warning("the door: %s", error)
            refused = Text.WEBHOOK_NOT_QUEUED.filled()
            return _refusal(503, refused, "InternalServerErrorException", retry_after_s=DOOR_RETRY_AFTER_S)
        return web.Response(status=202)

    async def _serve_events(
        self, request: web.Request, route: Route, parameters: Mapping[str, str]
    ) -> web.StreamResponse:
        async def poll(query: Mapping[str, str]) -> web.Response:
            # Each poll is authorised: a key may be revoked, and a token end, while the connection is open.
            return await self._serve_authorized(
                request, lambda identity: as_poll(proxy_event(request, route, parameters, b"", identity), query)
            )

        self._streams.add(request.task)
        try:
            return await relay(request, poll)
        finally:
            self._streams.discard(request.task)

    async def _end_streams(self, _application: web.Application) -> None:
        for task in self._streams:
            task.cancel()

    async def _integrate(self, route: Route, event: dict[str, Any]) -> web.Response:
        # The invocation is a separate task, with a reference to it, because it continues after the gateway's time-out.
        task = asyncio.ensure_future(self.invoke(route.function, json.dumps(event).encode()))
        self._running.add(task)
        task.add_done_callback(self._ended)
        try:
            async with asyncio.timeout(self.timeout_s):
                response = await asyncio.shield(task)
        except TimeoutError:
            late = Text.ANSWER_TOO_LATE.filled(seconds=GATEWAY_TIMEOUT_S)
            return _refusal(504, late, "InternalServerErrorException")
        except Exception as error:
            if getattr(error, "status_code", 500) == 413:
                return _refusal(413, request_too_large(), "RequestTooLongException")
            log.exception("%s could not be invoked", route.function)
            return _refusal(500, Text.SERVICE_FAILED.filled(), "InternalServerErrorException")
        if response.function_error is None:
            try:
                return proxy_response(response.payload)
            except MalformedResponseError as error:
                log.error("%s: malformed Lambda proxy response: %s", route.function, error)  # noqa: TRY400 - not ours
        return _refusal(502, Text.SERVICE_FAILED.filled(), "InternalServerErrorException")

    def _ended(self, task: "asyncio.Future[InvocationResponse]") -> None:
        self._running.discard(task)
        if not task.cancelled():
            # Reading the exception prevents asyncio from logging it as unhandled.
            task.exception()


def _access_entry(request: web.Request, resource_path: str, status: int, length: int) -> dict[str, Any]:
    """Return the entry of a request in the access log. It has no path or query, which may contain personal data."""
    return {
        "requestId": request.get(_REQUEST_ID, "-"),
        "ip": request.remote or "127.0.0.1",
        # guard: gateway.principal_of_a_request
        "principal": request.get(_PRINCIPAL, "-"),
        "requestTime": f"{datetime.now(UTC):%d/%b/%Y:%H:%M:%S +0000}",
        "httpMethod": request.method,
        "resourcePath": resource_path,
        "status": status,
        "protocol": "HTTP/1.1",
        "responseLength": length,
    }


async def _serve_file(file: Path, _request: web.Request) -> web.FileResponse:
    return web.FileResponse(file)


async def _serve_index(root: Path, request: web.Request) -> web.FileResponse:
    page = root / request.match_info["folder"] / "index.html"
    if not page.is_file():
        raise web.HTTPNotFound
    return await _serve_file(page, request)


async def _redirect(target: str, _request: web.Request) -> web.Response:
    return web.Response(status=302, headers={"Location": target})


async def _add_file_headers(request: web.Request, response: web.StreamResponse) -> None:
    if isinstance(response, web.FileResponse):
        policy = DOCS_SECURITY_POLICY if request.path.startswith(f"{DOCS}/") else content_security_policy()
        if request.path == REFERENCE:
            policy = REFERENCE_SECURITY_POLICY
        response.headers.update(FILE_HEADERS | {"Content-Security-Policy": policy})
        if request.path.endswith((".html", "/")):
            # A page names the files of its build, so a browser must ask for it each time.
            response.headers["Cache-Control"] = "no-cache"


def proxy_event(
    request: web.Request,
    route: Route,
    parameters: Mapping[str, str],
    body: bytes,
    identity: Mapping[str, str],
) -> dict[str, Any]:
    """Return the event with which a proxy integration invokes a function, version 1.0.

    Source: AWS documentation, "Input format of a Lambda function for proxy integration".
    """
    now = datetime.now(UTC)
    query = parse_qsl(request.raw_path.partition("?")[2], keep_blank_values=True)
    path = unquote(request.raw_path.partition("?")[0])
    headers = request.headers
    request_id = request[_REQUEST_ID] = str(uuid.uuid4())
    return {
        "resource": route.path,
        "path": path,
        "httpMethod": request.method,
        "headers": {name: headers.getall(name)[-1] for name in _names(headers)} or None,
        "multiValueHeaders": {name: headers.getall(name) for name in _names(headers)} or None,
        "queryStringParameters": dict(query) or None,
        "multiValueQueryStringParameters": _grouped(query) or None,
        "pathParameters": dict(parameters) or None,
        "stageVariables": None,
        "requestContext": {
            "accountId": ACCOUNT,
            "apiId": API_ID,
            "authorizer": dict(identity),
            "domainName": request.host.partition(":")[0],
            "domainPrefix": API_ID,
            "extendedRequestId": uuid.uuid4().hex[:16],
            "httpMethod": request.method,
            "identity": {
                "accessKey": None,
                "accountId": None,
                "apiKey": headers.get("x-api-key"),
                "apiKeyId": _key_id(headers.get("x-api-key")),
                "caller": None,
                "cognitoAuthenticationProvider": None,
                "cognitoAuthenticationType": None,
                "cognitoIdentityId": None,
                "cognitoIdentityPoolId": None,
                "principalOrgId": None,
                "sourceIp": request.remote or "127.0.0.1",
                "user": None,
                "userAgent": headers.get("user-agent"),
                "userArn": None,
            },
            "path": f"/{STAGE}{path}",
            "protocol": "HTTP/1.1",
            "requestId": request_id,
            "requestTime": f"{now:%d/%b/%Y:%H:%M:%S +0000}",
            "requestTimeEpoch": int(time.time() * 1000),
            "resourceId": "local",
            "resourcePath": route.path,
            "stage": STAGE,
        },
        "body": body.decode("utf-8", errors="replace") if body else None,
        "isBase64Encoded": False,
    }


def _key_id(key: str | None) -> str | None:
    """Return the id under which requests with an API key are counted. The id does not reveal the key."""
    return None if key is None else hashlib.sha256(key.encode()).hexdigest()[:10]


def proxy_response(payload: bytes) -> web.Response:
    """Return the HTTP response of a function's proxy response.

    Source: AWS documentation, "Output format of a Lambda function for proxy integration".

    Raises:
        MalformedResponseError: The function's response is invalid; API Gateway would respond with status 502.
    """
    try:
        response = json.loads(payload)
    except ValueError as error:
        raise MalformedResponseError("not JSON") from error
    if not isinstance(response, dict):
        raise MalformedResponseError("not an object")
    unknown = response.keys() - {"statusCode", "headers", "multiValueHeaders", "body", "isBase64Encoded"}
    if unknown:
        raise MalformedResponseError(f"unknown members {sorted(unknown)}")
    status = _status(response.get("statusCode"))
    headers: CIMultiDict[str] = CIMultiDict()
    single, multiple = (
        {} if response.get(each) is None else response[each] for each in ("headers", "multiValueHeaders")
    )
    if not isinstance(single, dict) or not isinstance(multiple, dict):
        raise MalformedResponseError("headers are not an object")
    # API Gateway prefers multiValueHeaders to `headers` for a name that occurs in both.
    several = {name.lower() for name in multiple}
    pairs = [(name, value) for name, value in single.items() if name.lower() not in several]
    for name, values in multiple.items():
        if not isinstance(values, list):
            raise MalformedResponseError(f"multiValueHeaders.{name} is not a list")
        pairs.extend((name, value) for value in values)
    for name, value in pairs:
        if isinstance(value, dict | list) or value is None:
            raise MalformedResponseError(f"header {name} is not a string")
        if name.lower() not in HOP_BY_HOP:
            headers.add(name, json.dumps(value) if isinstance(value, bool) else str(value))
    headers.setdefault("Content-Type", "application/json")
    return web.Response(status=status, headers=headers, body=_body(response))


def _status(value: object) -> int:
    if isinstance(value, str) and value.isdecimal():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 100 <= value <= 599:
        raise MalformedResponseError(f"statusCode is {value!r}")
    return value


def _body(response: Mapping[str, object]) -> bytes:
    body = response.get("body")
    if body is None:
        return b""
    if not isinstance(body, str):
        raise MalformedResponseError("body is not a string")
    if not response.get("isBase64Encoded"):
        return body.encode()
    try:
        return base64.b64decode(body, validate=True)
    except binascii.Error as error:
        raise MalformedResponseError("body is not base64") from error


def _names(headers: CIMultiDictProxy[str]) -> list[str]:
    return list({name.lower(): name for name in headers}.values())


def _grouped(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    grouped: dict[str, list[str]] = {}
    for name, value in pairs:
        grouped.setdefault(name, []).append(value)
    return grouped


def _refusal(status: int, detail: CodedText, error_type: str, *, retry_after_s: int | None = None) -> web.Response:
    """Return an error of the gateway itself, as problem details, in the form of the deployed API's gateway
    responses.
    """
    retry = {} if retry_after_s is None else {"Retry-After": str(retry_after_s)}
    return web.Response(
        body=json.dumps(Problem(status, detail).body()).encode(),
        content_type=CONTENT_TYPE,
        status=status,
        headers={"x-amzn-RequestId": str(uuid.uuid4()), "x-amzn-ErrorType": error_type, **retry},
    )
