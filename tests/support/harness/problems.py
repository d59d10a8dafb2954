"""Causes the problems that the OpenAPI document describes, on a running stack."""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any
from uuid import uuid4

import httpx

from functions.operations_handler.routes.categories import MAX_TITLE
from local.devstack.config import StackConfig
from masscomm.domain.category_versions import MAX_VERSION_BYTES, MAX_VERSIONS_BYTES
from masscomm.domain.limits import LARGE_BODY
from masscomm.domain.saved_audiences import MAX_SAVED_AUDIENCES
from masscomm.domain.subscriptions import MAX_SUBSCRIPTIONS
from masscomm.domain.webhook_sources import MAX_SOURCES
from masscomm.http.idempotency import REPLAYED
from masscomm.http.problem import CONTENT_TYPE
from masscomm_client import Client
from tests.support.harness.webhook_receiver import receiving
from tests.support.schemathesis_run import DOCUMENT

# The problems that a caller cannot cause on the stack, and the reason and the tests of each.
NOT_CAUSED = {
    ("404", "The log of recipients is disabled"): (
        "the stack has the log; tests/unit/sends_api/test_user_notifications_route.py"
    ),
    ("409", "The rules are rows of a table of the monolith"): (
        "the stack maps no such table; tests/unit/preferences_handler/test_tenant_preferences.py"
    ),
    ("429", "The key has as many requests waiting as it may; Retry-After has the seconds until a retry"): (
        "the stack has fewer environments than a key may have polls; tests/unit/metrics_handler/test_stream_route.py"
    ),
    ("429", "The link was requested too often; Retry-After has the seconds until the next request"): (
        "it needs a link from an e-mail; tests/unit/preferences_handler/test_unsubscribe.py"
    ),
    ("500", "InternalServerError"): "a fault of the service; tests/unit/send_handler/test_send_handler.py",
    ("502", "BadGateway"): "a function that crashes; tests/unit/gateway/test_gateway.py",
    ("503", "ServiceUnavailable"): "a dependency that is down; tests/faults",
    (
        "503",
        "A dependency is down",
    ): "the same, of an unsubscribe link; tests/unit/preferences_handler/test_unsubscribe.py",
    ("504", "GatewayTimeout"): "a function that hangs; tests/unit/gateway/test_gateway.py",
}

# The texts of problems in the document, by their codes.
TEXTS: Mapping[str, str] = json.loads(DOCUMENT.read_text())["components"]["schemas"]["ProblemBody"]["properties"][
    "code"
]["x-texts"]
_UNKNOWN = "00000000-0000-4000-8000-000000000000"
_TEXT = {"title": "t", "body": "b"}
_SEND: dict[str, Any] = {"type": "announcement", "club_id": 1, "to_users": [42], "data": _TEXT}

# The status of a problem and its description in the document, or the name of the shared one.
type Kind = tuple[str, str]


class Cause:
    """Sends requests, and collects the documented problems that they caused.

    Args:
        config: The stack.
    """

    def __init__(self, config: StackConfig) -> None:
        self.caused: set[Kind] = set()
        self._paths = json.loads(DOCUMENT.read_text())["paths"]
        self._key = config.api_key
        self._http = httpx.Client(base_url=config.gateway_url, timeout=40, trust_env=False)

    def close(self) -> None:
        self._http.close()

    def ok(self, method: str, path: str, **arguments: Any) -> Any:
        """Send a request that succeeds. Returns its body."""
        return self.request(method, path, **arguments).raise_for_status().json()

    def replayed(self, method: str, path: str, **arguments: Any) -> Any:
        """Send a request with an Idempotency-Key twice. Returns the body, which both responses have."""
        first, again = (self.request(method, path, **arguments).raise_for_status() for _ in range(2))
        assert REPLAYED not in first.headers
        assert again.headers[REPLAYED] == "true"
        assert (again.status_code, again.json()) == (first.status_code, first.json())
        return first.json()

    def problem(self, status: int, method: str, route: str, /, key: str | None = "", **arguments: Any) -> None:
        """Send a request that is refused, and check its problem.

        Args:
            status: The status of the problem.
            method: The method of the request.
            route: The route as in the document; `path` has the values of its parameters.
            key: The API key; by default that of the stack, None for none.
            arguments: Those of httpx, and `path`.
        """
        path = route.format(**arguments.pop("path", {}))
        response = self.request(method, path, key=key, **arguments)
        assert response.status_code == status, (method, path, response.status_code, response.text[:500])
        if not route.startswith("/v1/unsubscribe/"):  # Its responses are pages for people.
            self._check(response)
        if status in {429, 503}:
            assert int(response.headers["Retry-After"]) > 0
        self.caused.add((str(status), kind_of(self._paths[route][method.lower()]["responses"][str(status)])))

    def request(self, method: str, path: str, *, key: str | None = "", **arguments: Any) -> httpx.Response:
        headers = dict(arguments.pop("headers", {}))
        if key is not None:
            headers["x-api-key"] = key or self._key
        return self._http.request(method, path, headers=headers, **arguments)

    @staticmethod
    def _check(response: httpx.Response) -> None:
        assert response.headers["content-type"].partition(";")[0] == CONTENT_TYPE
        body = response.json()
        assert body["status"] == response.status_code
        assert body["type"] == "about:blank"
        assert body["title"]
        assert body["detail"]
        assert "Traceback" not in response.text
        assert body["code"] in TEXTS, body
        assert all(f"{{{name}}}" in TEXTS[body["code"]] for name in body["parameters"]), body


def kind_of(response: Mapping[str, str]) -> str:
    """Return what names a response of the document: the shared one that it refers to, or its description."""
    return response["$ref"].rpartition("/")[2] if "$ref" in response else response["description"]


def documented() -> set[Kind]:
    """Return the problems of all routes."""
    return set(_documented(json.loads(DOCUMENT.read_text())["paths"]))


def _documented(paths: Mapping[str, Mapping[str, Any]]) -> Iterator[Kind]:
    for operations in paths.values():
        for operation in operations.values():
            if "responses" not in operation:
                continue  # Parameters of the path.
            for status, response in operation["responses"].items():
                if status[0] in "45":
                    yield status, kind_of(response)


def cause_problems(cause: Cause, api: Client, letter: str, device: int) -> None:
    """Cause each documented problem that a caller can cause.

    Args:
        cause: Sends the requests.
        api: A client of the same stack.
        letter: The position of an open dead letter, which is discarded.
        device: A device that only the monolith's row enables.
    """
    _requests(cause)
    _unknown_subjects(cause)
    _audiences(cause)
    _sends(cause, api)
    _keys(cause)
    _webhooks(cause)
    _events(cause)
    discard = "/v1/dead-letters/{position}/discard"
    cause.ok("POST", discard.format(position=letter), json={"reason": "it is no record"})
    cause.problem(409, "POST", discard, path={"position": letter}, json={"reason": "again"})
    cause.problem(409, "POST", "/v1/devices/{device_id}/enable", path={"device_id": device})


def _requests(cause: Cause) -> None:
    sends = "/v1/sends"
    cause.problem(400, "POST", sends, json={})
    cause.problem(401, "POST", sends, key=None, json=_SEND)
    cause.problem(401, "POST", sends, key="mc_unknown", json=_SEND)
    cause.problem(406, "GET", "/v1/metrics/stream", headers={"Accept": "image/png"})
    cause.problem(413, "POST", sends, content=b" " * 10_500_000, headers={"Content-Type": "application/json"})
    cause.problem(413, "POST", "/v1/webhooks", json={"description": "x" * LARGE_BODY})
    cause.problem(415, "POST", sends, content=b"{}", headers={"Content-Type": "text/plain"})
    cause.problem(431, "GET", sends, headers={"x-long": "x" * 11_000})
    key = {"Idempotency-Key": str(uuid4())}
    first = cause.replayed("POST", sends, json=_SEND, headers=key)
    assert first["requested"] > 0
    cause.problem(422, "POST", sends, json=_SEND | {"to_users": [43]}, headers=key)
    link = "/v1/unsubscribe/{token}"
    cause.problem(400, "POST", link, path={"token": "x"}, data={"other": "field"})
    cause.problem(404, "GET", link, path={"token": "x"}, key=None)


def _unknown_subjects(cause: Cause) -> None:
    cause.problem(404, "GET", "/v1/sends/{send_id}", path={"send_id": _UNKNOWN})
    cause.problem(404, "GET", "/v1/sends/{send_id}/message", path={"send_id": _UNKNOWN})
    cause.problem(404, "GET", "/v1/sends/{send_id}/recipients", path={"send_id": _UNKNOWN})
    cause.problem(404, "GET", "/v1/notifications/{notification}", path={"notification": f"{_UNKNOWN}.42.push"})
    cause.problem(404, "GET", "/v1/users/{user_id}", path={"user_id": 999_999_999})
    cause.problem(404, "GET", "/v1/users/{user_id}/preferences", path={"user_id": 999_999_999})
    cause.problem(404, "GET", "/v1/dead-letters/{position}", path={"position": "0@999999"})
    cause.problem(404, "POST", "/v1/devices/{device_id}/enable", path={"device_id": 999_999_999})
    cause.problem(404, "DELETE", "/v1/suppressions/{suppression}", path={"suppression": f"1.{'0' * 64}"})
    cause.problem(404, "POST", "/v1/keys/{key_id}/revoke", path={"key_id": "unknown"})
    cause.problem(404, "GET", "/v1/webhooks/{endpoint_id}", path={"endpoint_id": "ep_1_unknown"})


def _audiences(cause: Cause) -> None:
    route, club, everybody = "/v1/audiences/{name}", {"club_id": 1}, {"audience": {"all_users": True}}
    for method in ("GET", "DELETE"):
        cause.problem(404, method, route, path={"name": "problem.unknown"}, params=club)
    cause.problem(404, "PUT", route, path={"name": "%10"}, params=club, json=everybody)
    held = len(cause.ok("GET", "/v1/audiences", params=club)["rows"])
    names = [f"problem.{number}" for number in range(MAX_SAVED_AUDIENCES - held)]
    for name in names:
        cause.ok("PUT", route.format(name=name), params=club, json=everybody)
    cause.problem(409, "PUT", route, path={"name": "problem.further"}, params=club, json=everybody)
    for name in names:
        cause.ok("DELETE", route.format(name=name), params=club)


def _sends(cause: Cause, api: Client) -> None:
    other = {**_SEND, "send_id": str(uuid4())}
    cause.ok("POST", "/v1/sends", json=other)
    cause.problem(409, "POST", "/v1/sends", json=other | {"data": {"title": "t", "body": "other"}})

    route = "/v1/sends/{send_id}"
    path = {"send_id": cause.ok("POST", "/v1/sends", json=_SEND)["send_id"]}
    *_, ended = api.follow(path["send_id"])
    assert ended["complete"]
    cause.problem(409, "POST", f"{route}/cancel", path=path)
    cause.problem(409, "POST", f"{route}/pause", path=path)
    cause.problem(409, "POST", f"{route}/resume", path=path)
    cause.problem(409, "PATCH", route, path=path, json={"send_at": "2099-01-01T00:00:00Z"})


def _keys(cause: Cause) -> None:
    reader, text = _new_key(cause, requests_a_minute=1)
    cause.problem(403, "POST", "/v1/sends", key=text, json=_SEND)
    with suppress(httpx.HTTPStatusError):
        cause.ok("GET", "/v1/sends", key=text)
    cause.problem(429, "GET", "/v1/sends", key=text)
    cause.ok("POST", f"/v1/keys/{reader}/revoke")
    cause.problem(409, "POST", "/v1/keys/{key_id}/rotate", path={"key_id": reader}, json={})


def _webhooks(cause: Cause) -> None:
    route = "/v1/webhooks/{endpoint_id}"
    key = {"Idempotency-Key": str(uuid4())}
    with receiving() as receiver:
        fields = {"club_id": 1, "url": receiver.url}
        path = {"endpoint_id": cause.replayed("POST", "/v1/webhooks", json=fields, headers=key)["endpoint"]["id"]}
        resend = f"{route}/deliveries/{{delivery_id}}/resend"
        cause.problem(404, "POST", resend, path=path | {"delivery_id": "1-unknown"})
        once = {"Idempotency-Key": str(uuid4())}
        cause.ok("POST", f"{route}/rotate".format(**path), headers=once)
        _, other = _new_key(cause, scopes=["webhooks"])
        cause.problem(422, "POST", f"{route}/rotate", path=path, key=other, headers=once)
        cause.ok("PATCH", route.format(**path), json={"enabled": False})
        cause.problem(409, "POST", f"{route}/test", path=path)
        cause.ok("DELETE", route.format(**path))
        cause.problem(409, "POST", "/v1/webhooks", json=fields, headers=key)


def _events(cause: Cause) -> None:
    category = "/v1/categories/{category}"
    cause.problem(404, "GET", category, path={"category": "problem.unknown"})
    cause.problem(404, "PUT", category, path={"category": "%10"}, json={"channels": ["push"]})
    path = {"category": "problem.caused"}
    changed = {"If-Match": '"read"'}
    cause.problem(412, "PUT", category, path=path, json={"channels": ["push"]}, headers=changed)
    rules = "/v1/tenants/{tenant}/preferences"
    cause.problem(404, "GET", rules, path={"tenant": "%10"})
    cause.problem(412, "PUT", rules, path={"tenant": 1}, json={"channels": {"email": False}}, headers=changed)
    languages = [f"{first}{second}" for first in "abcdefgh" for second in "abcdefgh"][:53]
    for number in range(MAX_VERSIONS_BYTES // MAX_VERSION_BYTES):
        titles = dict.fromkeys(languages, f"{number:0{MAX_TITLE}d}")
        cause.ok("PUT", category.format(**path), json={"channels": ["push"], "titles": titles})
    cause.problem(409, "PUT", category, path=path, json={"channels": ["email"], "titles": titles})
    types, subscriptions = "/v1/event-types/{event_type}", "/v1/subscriptions/{subscription_id}"
    cause.problem(404, "GET", types, path={"event_type": "problem.unknown"})
    cause.problem(404, "DELETE", subscriptions, path={"subscription_id": "sub_1_unknown"})
    cause.problem(404, "PUT", types, path={"event_type": "%10"}, json={"description": "A problem", "example": {}})
    path = {"event_type": "problem.caused"}
    cause.ok("PUT", types.format(**path), json={"description": "A problem", "example": {}})
    event = {"event_id": str(uuid4()), "type": path["event_type"], "club_id": 1, "data": {}}
    cause.ok("POST", "/v1/events", json={"events": [event]})
    cause.problem(422, "POST", "/v1/events", json={"events": [event | {"data": {"other": 1}}]})
    cause.ok("DELETE", types.format(**path))
    fields = {"club_id": 1, "url": "https://events.example.org/"}
    endpoint = cause.ok("POST", "/v1/webhooks", json=fields)["endpoint"]["id"]
    for number in range(MAX_SUBSCRIPTIONS):
        cause.ok("POST", "/v1/subscriptions", json={"endpoint_id": endpoint, "types": [f"problem.t{number}"]})
    cause.problem(409, "POST", "/v1/subscriptions", json={"endpoint_id": endpoint, "types": ["*"]})
    cause.ok("DELETE", f"/v1/webhooks/{endpoint}")

    sources = "/v1/sources/{source_id}"
    mapping = {"type": {"value": "problem.caused"}, "club_id": {"path": "club"}}
    source = {"club_id": 1, "scheme": "github", "secret": "a secret of a sender", "mapping": mapping}
    for method in ("GET", "PUT", "DELETE"):
        body = source if method == "PUT" else None
        cause.problem(404, method, sources, path={"source_id": "src_1_unknown"}, json=body)
    made = []
    while len(cause.ok("GET", "/v1/sources?club_id=1")["rows"]) < MAX_SOURCES:
        made.append(cause.ok("POST", "/v1/sources", json=source)["id"])
    cause.problem(409, "POST", "/v1/sources", json=source)
    for each in made:
        cause.ok("DELETE", f"/v1/sources/{each}")


def _new_key(cause: Cause, **fields: Any) -> tuple[str, str]:
    """Create a key of club 1 with the scope read. Returns its id and its text."""
    answer = cause.ok("POST", "/v1/keys", json={"name": "problems", "clubs": [1], **fields})
    return answer["properties"]["id"], answer["key"]
