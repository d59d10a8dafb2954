"""The OpenAPI document has every deployed route, and its examples execute."""

import json
import re
from datetime import UTC, datetime
from typing import Any

import jsonschema_rs
import pytest

from functions.catalogue import read_catalogue
from functions.metrics_handler.routes import latency, metrics, stream, trending
from functions.operations_handler.routes import audit, dead_letters, keys, suppressions
from functions.preferences_handler import list_users, read_users
from functions.send_handler.send_request import SendRequest
from functions.sends_api.routes import recipients, send_events, sends, user_notifications
from local.devstack.config import ROOT
from masscomm.http.scopes import ALL_SCOPES, PUBLIC_ROUTES
from ops.openapi.document import OPERATIONS
from tests.support.harness import rest_api
from tests.support.inputs.document_calls import CALLS, DOCUMENT, Call

PUBLISHED = ROOT / "docs" / "openapi" / "masscomm.json"
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
# Routes whose response is the same for every tenant, and lists that no parameter limits to a tenant.
OF_NO_TENANT, OWN_ROWS = {"/v1/alarms", "/v1/categories", "/v1/health"}, {"/v1/keys"}
OF_NO_TENANT |= {"/v1/categories/{category}", "/v1/event-types", "/v1/event-types/{event_type}"}
_REFERENCES = "#/components/responses/"


@pytest.fixture(autouse=True)
def _functions(monkeypatch: pytest.MonkeyPatch) -> None:
    rest_api.build(monkeypatch)


def _operation(path: str, method: str = "get") -> dict[str, Any]:
    operation: dict[str, Any] = DOCUMENT["paths"][path][method]
    return operation


def _answered(event: dict[str, Any]) -> tuple[int, dict[str, str], Any]:
    found = rest_api.answer(event)
    headers = {name: values[0] for name, values in found["multiValueHeaders"].items()}
    return found["statusCode"], headers, json.loads(found["body"] or "null")


def _check(schema: dict[str, Any], value: Any) -> None:
    """Check a value against a schema of the document. Members that the schema does not name are errors."""
    whole = _closed(schema | {"components": DOCUMENT["components"]})
    jsonschema_rs.validator_for(whole, validate_formats=True).validate(value)


def _closed(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {name: _closed(value) for name, value in schema.items()}
    if "properties" in closed and closed.get("type") == "object":
        closed.setdefault("additionalProperties", False)
    return closed


def _response(operation: dict[str, Any], status: int) -> dict[str, Any]:
    response: dict[str, Any] = operation["responses"][str(status)]
    if (reference := response.get("$ref", "")).startswith(_REFERENCES):
        response = DOCUMENT["components"]["responses"][reference.removeprefix(_REFERENCES)]
    return response


def test_published_document_is_the_generated_one() -> None:
    generated = json.dumps(DOCUMENT, indent=2, ensure_ascii=False) + "\n"
    assert PUBLISHED.read_text() == generated, "python -m ops.openapi > docs/openapi/masscomm.json"


def test_each_operation_has_a_description_and_an_example() -> None:
    """The description says more than the summary; a page has no example, because it has no members to explain."""
    for found in DOCUMENT["paths"].values():
        for operation in found.values():
            assert operation["description"].endswith("."), operation["operationId"]
            assert operation["description"] != operation["summary"]
            examples = [
                "example" in content or "examples" in content
                for body in (operation.get("requestBody", {}), *operation["responses"].values())
                for media_type, content in body.get("content", {}).items()
                if media_type in ("application/json", "application/x-www-form-urlencoded")
            ]
            assert all(examples), operation["operationId"]


def test_routes_without_a_key_are_the_public_ones() -> None:
    public = {
        (method.upper(), path)
        for path, found in DOCUMENT["paths"].items()
        for method, operation in found.items()
        if not operation["security"]
    }
    assert public == PUBLIC_ROUTES


def test_described_routes_are_the_deployed_routes() -> None:
    deployed = {route for entry in read_catalogue(generation="any") for route in entry.routes}
    described = {f"{method.upper()} {path}" for path, found in DOCUMENT["paths"].items() for method in found}
    assert described == deployed
    assert {f"{method} {path}" for method, path in OPERATIONS} == deployed


@pytest.mark.parametrize(
    ("path", "parameters"),
    [
        ("/v1/metrics", metrics.PARAMETERS),
        ("/v1/metrics/trending", trending.PARAMETERS),
        ("/v1/metrics/latency", latency.PARAMETERS),
        ("/v1/metrics/stream", stream.PARAMETERS),
        ("/v1/sends", sends.PARAMETERS),
        ("/v1/sends/{send_id}/events", send_events.PARAMETERS),
        ("/v1/sends/{send_id}/recipients", recipients.PARAMETERS),
        ("/v1/users", list_users.PARAMETERS),
        ("/v1/users/{user_id}/stream", read_users.STREAM_PARAMETERS),
        ("/v1/users/{user_id}/notifications", user_notifications.PARAMETERS),
        ("/v1/audit", audit.PARAMETERS),
        ("/v1/suppressions", suppressions.PARAMETERS),
        ("/v1/keys", keys.PARAMETERS),
        ("/v1/dead-letters", dead_letters.PARAMETERS),
    ],
)
def test_every_query_parameter_is_described(path: str, parameters: tuple[str, ...]) -> None:
    described = [each["name"] for each in _operation(path)["parameters"] if each["in"] == "query"]
    assert sorted(described) == sorted(parameters)


def test_path_parameters_and_texts_are_described() -> None:
    for path, operations in DOCUMENT["paths"].items():
        for operation in operations.values():
            in_path = [each["name"] for each in operation["parameters"] if each["in"] == "path"]
            assert in_path == re.findall(r"{(\w+)}", path)
            assert operation["summary"]
            assert all(each["description"] for each in operation["parameters"])


def test_every_field_of_a_send_is_described() -> None:
    properties = DOCUMENT["components"]["schemas"]["SendRequest"]["properties"]
    assert properties.keys() == SendRequest.model_fields.keys()
    assert [name for name, schema in properties.items() if not schema["description"]] == []


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_example_succeeds_as_described(call: Call) -> None:
    status, headers, body = _answered(call.event())
    success = _response(call.operation, status)
    assert 200 <= status < 300, body
    content = success["content"]["application/json"]
    _check(content["schema"], body)
    _check(content["schema"], content["example"])
    assert headers.keys() & {"Location"} == success.get("headers", {}).keys() & {"Location"}
    for each in call.operation["parameters"]:
        if "example" in each:
            _check(each["schema"], each["example"])
    if call.name:
        request = call.operation["requestBody"]["content"]["application/json"]
        _check(request["schema"], request["examples"][call.name]["value"])


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_each_route_needs_its_described_scope(call: Call) -> None:
    (scope,) = call.operation["security"][0]["api_key"]
    status, _, body = _answered(call.event(scopes=ALL_SCOPES - {scope}))
    assert (status, scope in body["detail"]) == (403, True)
    _check(_response(call.operation, status)["content"]["application/problem+json"]["schema"], body)


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_no_route_crosses_tenants(call: Call) -> None:
    status, _, body = _answered(call.event(clubs="2"))
    if call.path == "/v1/sends/batch":
        assert {result["status"] for result in body["results"]} == {403}
        return
    if call.path in OF_NO_TENANT and call.method == "GET":
        assert (status, body) == (200, _answered(call.event())[2])
        return
    if call.path in OWN_ROWS and call.method == "GET":
        assert (status, body["rows"]) == (200, [])
        return
    assert status in (403, 404)
    _check(_response(call.operation, status)["content"]["application/problem+json"]["schema"], body)
