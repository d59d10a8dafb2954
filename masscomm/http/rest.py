"""A REST API (API Gateway v1, Lambda proxy integration): it routes requests and converts errors to responses.

    api = Api(logger, retry_after_s=2, limiter=limiter, slot=slot_of)

    @api.get("/v1/sends/{send_id}")
    def get_send(request: Request, send_id: str) -> Response: …

    api.answer(event, context)

Errors are returned as problem details (masscomm.http.problem): a Problem with its status, Retry with 503 and
Retry-After, an unknown route with 404. Stop and unexpected errors are returned with 500, and their details are only
logged. A caller without a club (masscomm.http.tenant) gets 403 before the route is looked up, one without the route's
scope (masscomm.http.scopes) before it is called.

Powertools' resolver doubles the processor time of a cold start's imports (docs/internals/cold-starts.md).

Source: AWS documentation, "Lambda proxy integrations in API Gateway".
"""

import base64
import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypedDict

from aws_lambda_powertools import Logger

from masscomm.domain.key_limits import COUNTED_UNDER, REQUESTS, Limit
from masscomm.domain.limits import LARGE_BODY
from masscomm.errors import Retry, Stop
from masscomm.http.accept import negotiated
from masscomm.http.problem import CONTENT_TYPE, FieldError, Problem, not_utf8
from masscomm.http.rate_limits import RateLimiter, joined, maximum_of
from masscomm.http.scopes import PUBLIC_ROUTES, ROUTE_SCOPES, Scope, scopes_of
from masscomm.http.tenant import Clubs, clubs_of
from masscomm.lambda_context import LambdaContext
from masscomm.texts import Text
from masscomm.untrusted import mask

JSON = "application/json"
# The routes with other methods than GET that a test key may call: sends and dry runs, which check its recipients, and
# previews.
_OF_TEST_KEYS = {("POST", f"/v1/{path}") for path in ("sends", "sends/batch", "dry-runs", "previews")}

# The routes that accept a large body. Their requests with one hold slots.
WITH_LARGE_BODIES = {
    ("POST", f"/v1/{path}") for path in ("sends", "sends/batch", "dry-runs", "previews", "audiences/count", "events")
}


class Links(TypedDict):
    """The paths of a resource."""

    self: str


@dataclass(frozen=True)
class Response:
    status: int
    # The content type; None: there is no body.
    content_type: str | None = None
    body: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)

    def proxied(self) -> dict[str, Any]:
        of_body = {} if self.content_type is None else {"Content-Type": self.content_type}
        return {
            "statusCode": self.status,
            "multiValueHeaders": {name: [value] for name, value in {**of_body, **self.headers}.items()},
            "body": self.body,
            "isBase64Encoded": False,
        }


@dataclass(frozen=True)
class Request:
    """A REST request: a proxy event of API Gateway."""

    event: Mapping[str, Any]
    # Returns the seconds until Lambda stops the function.
    remaining_s: Callable[[], float]

    @property
    def parameters(self) -> dict[str, list[str]]:
        """Return the query parameters, each with all of its values."""
        once = self.event.get("queryStringParameters") or {}
        several = self.event.get("multiValueQueryStringParameters") or {}
        return {name: [value] for name, value in once.items()} | several

    @property
    def clubs(self) -> Clubs:
        """Return the clubs (tenants) whose data the caller may see."""
        return clubs_of(self.authorizer)

    @property
    def scopes(self) -> frozenset[Scope]:
        """Return the scopes (permissions) of the caller's API key."""
        return scopes_of(self.authorizer)

    def require(self, scope: Scope) -> None:
        """Check that the caller's API key has a scope (permission). Raises Problem with status 403."""
        if scope not in self.scopes:  # guard: tenancy.scope_of_a_route
            raise Problem(403, Text.SCOPE_MISSING.filled(scope=scope))

    @property
    def principal(self) -> str:
        """Return the principal that the authorizer set, for log lines; "" if there is none."""
        return str((self.authorizer or {}).get("principalId") or "")

    @property
    def counted_under(self) -> str:
        """Return the principal with whose use the caller's limits are counted; "" if there is none."""
        return str((self.authorizer or {}).get(COUNTED_UNDER) or self.principal)  # guard: limits.first_maker

    @property
    def is_test(self) -> bool:
        """Return whether the caller's API key sends to simulator recipients only. A mode other than `live` does."""
        return isinstance(self.authorizer, Mapping) and self.authorizer.get("mode", "live") != "live"

    @property
    def authorizer(self) -> Any:
        """Return the authorizer's context; None if there is none."""
        return (self.event.get("requestContext") or {}).get("authorizer")

    @property
    def caller(self) -> str:
        """Return the authorizer's principal, else the id of the API key that was used; "" if neither is known. People
        have one API key together, in whose usage plan API Gateway counts their requests.

        Source: AWS documentation, "API Gateway mapping template and access logging variable reference": apiKeyId.
        """
        context = self.event.get("requestContext") or {}
        key = (context.get("identity") or {}).get("apiKeyId")
        return self.principal or str(key or "")

    def header(self, name: str) -> str | None:
        """Return all values of a header, separated by commas. `name` is in lower case."""
        values = self.header_values(name)
        return ", ".join(values) if values else None

    def header_values(self, name: str) -> list[str]:
        """Return the values of a header, one for each time that it was sent. `name` is in lower case."""
        for key, values in (self.event.get("multiValueHeaders") or {}).items():
            if key.lower() == name:
                return list(values)
        for key, value in (self.event.get("headers") or {}).items():
            if key.lower() == name:
                return [str(value)]
        return []

    @property
    def has_large_body(self) -> bool:
        """Return whether the body has more characters than those of requests that need no slot."""
        return len(self.event.get("body") or "") > LARGE_BODY

    def text(self) -> str | None:
        """Return the body as text. Raises Problem with status 400 if it is not UTF-8."""
        body: str | None = self.event.get("body")
        if not body or not self.event.get("isBase64Encoded"):
            return body
        try:
            return base64.b64decode(body).decode()
        except ValueError as error:  # The body is invalid base64, or its bytes are not UTF-8.
            raise not_utf8() from error


type Route = Callable[..., Response]
# The method, and the path with its `{names}`.
type RouteKey = tuple[str, str]


class Api:
    """The routes of a REST API. A path without parameters takes precedence over a path with parameters, in any order
    of registration.

    Args:
        retry_after_s: Seconds after which a caller may retry while a dependency is down.
        limiter: Returns the limiter of API keys. It is called for keys with limits only.
        slot: Returns the slot that a request of a route holds while it is answered.
        offered: The media type of the answers to GET; None: the routes negotiate it.
    """

    def __init__(
        self,
        logger: Logger,
        *,
        retry_after_s: int,
        limiter: Callable[[], RateLimiter],
        slot: Callable[[RouteKey, Request], AbstractContextManager[None]],
        offered: str | None = None,
    ) -> None:
        self._logger = logger
        self._retry_after_s = retry_after_s
        self._limiter = limiter
        self._slot = slot
        self._offered = offered
        self._routes: dict[RouteKey, Route] = {}

    def get[R: Route](self, path: str) -> Callable[[R], R]:
        """Register a GET route. It is called with the request, and with the path's `{names}` as keywords."""
        return self._route("GET", path)

    def post[R: Route](self, path: str) -> Callable[[R], R]:
        """Register a POST route. It is called with the request, and with the path's `{names}` as keywords."""
        return self._route("POST", path)

    def put[R: Route](self, path: str) -> Callable[[R], R]:
        """Register a PUT route. It is called with the request, and with the path's `{names}` as keywords."""
        return self._route("PUT", path)

    def patch[R: Route](self, path: str) -> Callable[[R], R]:
        """Register a PATCH route. It is called with the request, and with the path's `{names}` as keywords."""
        return self._route("PATCH", path)

    def delete[R: Route](self, path: str) -> Callable[[R], R]:
        """Register a DELETE route. It is called with the request, and with the path's `{names}` as keywords."""
        return self._route("DELETE", path)

    @property
    def routes(self) -> Mapping[RouteKey, Route]:
        return self._routes

    def answer(self, event: Mapping[str, Any], context: LambdaContext) -> dict[str, Any]:
        """Return the response to a proxy event in API Gateway's format. Errors become problem details."""
        return self._response(lambda: self._answer(event, context)).proxied()

    def _response(self, answer: Callable[[], Response]) -> Response:
        """Return a response; errors become problem details."""
        try:
            return answer()
        except Exception as error:
            return problem_response(self._problem(error))

    def _problem(self, error: Exception) -> Problem:
        match error:
            case Problem():
                return error
            case Retry():
                self._logger.warning("a dependency is down", error=str(error))
                return Problem(503, Text.DEPENDENCY_DOWN.filled(reason=str(error)), retry_after_s=self._retry_after_s)
            case Stop():
                self._logger.error("misconfigured", error=str(error))
                return Problem(500, Text.SERVICE_MISCONFIGURED.filled())
            case _:
                self._logger.error("a request failed in our own code", exc_info=error)
                return Problem(500, Text.SERVICE_FAILED.filled())

    def _answer(self, event: Mapping[str, Any], context: LambdaContext) -> Response:
        request = Request(event, lambda: context.get_remaining_time_in_millis() / 1000)
        key, route = self._found(event["httpMethod"], event["path"])
        if not request.clubs and key not in PUBLIC_ROUTES:  # guard: tenancy.caller_without_tenant
            raise Problem(403, Text.NO_CLUB.filled())
        if route is None:
            raise Problem(404, Text.ROUTE_UNKNOWN.filled())
        if key in PUBLIC_ROUTES:
            return route(request)
        request.require(ROUTE_SCOPES.get(key, Scope.ADMIN))
        # A test key could otherwise cancel a live send.
        if request.is_test and key[0] != "GET" and key not in _OF_TEST_KEYS:  # guard: simulator.changes
            raise Problem(403, Text.TEST_KEY.filled())
        if request.has_large_body and key not in WITH_LARGE_BODIES:  # guard: rest.large_body
            too_large = Text.BODY_TOO_LARGE.filled(maximum=LARGE_BODY)
            raise Problem(413, too_large, errors=[FieldError("", too_large)])
        limits = self.take(request, REQUESTS, 1)

        def in_slot() -> Response:
            if self._offered is not None and key[0] == "GET":
                negotiated(request.header("accept"), self._offered)
            with self._slot(key, request):  # guard: costly_requests.slot_of_a_route
                return route(request)

        # A counted request that is refused has the headers, too.
        answered = self._response(in_slot)
        return replace(answered, headers=joined(answered.headers, limits)) if limits else answered

    def _found(self, method: str, path: str) -> tuple[RouteKey, Route | None]:
        """Return the route of a path, called with the path's parameters; without one, None and the path."""
        for key, route in self._routes.items():
            if key[0] == method and (names := _parameters(key[1], path)) is not None:
                return key, partial(route, **names)
        return (method, path), None

    def take(self, request: Request, kind: Limit, amount: int, *, send_id: str | None = None) -> dict[str, str]:
        """Count what a request uses of a limit of its key. Returns the headers of the response, {} for a key without
        this limit.

        Raises:
            Problem: With status 429, if the amount is above what remains.
            Retry, Stop: The store does not answer, or the limit or the key's id is malformed.
        """
        maximum = maximum_of(request.authorizer, kind)
        if maximum is None:
            return {}
        if not request.counted_under:
            raise Stop("the authorizer's context has a limit and no principal")
        return self._limiter().take(kind, maximum, amount, key_id=request.counted_under, send_id=send_id)

    def _route[R: Route](self, method: str, path: str) -> Callable[[R], R]:
        def routed(route: R) -> R:
            self._routes[method, path] = route
            self._routes = dict(sorted(self._routes.items(), key=lambda each: "{" in each[0][1]))
            return route

        return routed


def uncached(body: Mapping[str, Any], status: int = 200) -> Response:
    """Return a JSON response that must not be cached."""
    return Response(status, JSON, json.dumps(body), {"Cache-Control": "no-store"})


def problem_response(problem: Problem) -> Response:
    """Return the response for problem details, with the header Retry-After if that time is known."""
    retry = {} if problem.retry_after_s is None else {"Retry-After": str(problem.retry_after_s)}
    body = problem.body()
    # The detail and its parameters are masked, because they may quote the error of a dependency.
    body["detail"] = mask(body["detail"])
    if "parameters" in body:
        body["parameters"] = {
            name: mask(value) if isinstance(value, str) else value for name, value in body["parameters"].items()
        }
    text = json.dumps(body, ensure_ascii=False)
    return Response(problem.status, CONTENT_TYPE, text, {"Cache-Control": "no-store", **retry, **problem.headers})


def _parameters(template: str, path: str) -> dict[str, str] | None:
    """Return the values of the template's parameters in the path; None if the path does not match the template."""
    wanted, given = template.split("/"), path.split("/")
    if len(wanted) != len(given):
        return None
    found: dict[str, str] = {}
    for name, value in zip(wanted, given, strict=True):
        if name.startswith("{"):
            # A path with an empty name or unprintable characters matches no resource.
            if not value or not value.isprintable():
                return None
            found[name[1:-1]] = value
        elif name != value:
            return None
    return found
