"""Generates the OpenAPI document."""

import json
import re
from collections.abc import Mapping
from copy import deepcopy
from http import HTTPStatus
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, TypeAdapter, with_config

from functions.audiences import handler as audiences_handler
from functions.events_api import handler as events_api_handler
from functions.metrics_handler import handler as metrics_handler
from functions.operations_handler import handler as operations_handler
from functions.preferences_handler import handler as preferences_handler
from functions.send_handler import handler as send_handler
from functions.send_handler import previews
from functions.sends_api import handler as sends_api_handler
from masscomm.domain.pace import MAX_PER_MINUTE
from masscomm.http.problem import CONTENT_TYPE, ProblemBody
from masscomm.http.rate_limits import POLICY, REMAINING
from masscomm.http.rest import JSON, Api, Route
from masscomm.http.scopes import PUBLIC_ROUTES, ROLE_SCOPES, ROUTE_SCOPES, Role, Scope
from masscomm.texts import Text
from ops.openapi import audiences, events, metrics, operations, preferences, schedules, sends, sends_api
from ops.openapi.examples import completed
from ops.openapi.operation import Operation
from ops.openapi.parameters import IN_PATH

# The APIs of the functions with routes, and the descriptions of their routes.
APIS: tuple[Api, ...] = (
    send_handler.api,
    previews.api,
    audiences_handler.api,
    metrics_handler.api,
    sends_api_handler.api,
    preferences_handler.api,
    operations_handler.api,
    events_api_handler.api,
)
OPERATIONS: Mapping[tuple[str, str], Operation] = (
    sends.OPERATIONS
    | schedules.OPERATIONS
    | audiences.OPERATIONS
    | metrics.OPERATIONS
    | sends_api.OPERATIONS
    | preferences.OPERATIONS
    | operations.OPERATIONS
    | events.OPERATIONS
)
# The tag of each route, by the segment after /v1; other routes are operations.
_TAGS = {
    "audiences": "Sends",
    "audit": "Audit",
    "dry-runs": "Sends",
    "event-types": "Events",
    "events": "Events",
    "metrics": "Metrics",
    "notifications": "Sends",
    "previews": "Templates",
    "schedules": "Sends",
    "sends": "Sends",
    "sources": "Events",
    "subscriptions": "Events",
    "templates": "Templates",
    "tenants": "Users",
    "unsubscribe": "Users",
    "users": "Users",
    "webhooks": "Webhooks",
}

_SEND_REQUESTED = Path(__file__).parents[2] / "schemas" / "SendRequested.avsc"
_KEY, _PERSON = "api_key", "person"
_PAGE, _FORM = "text/html", "application/x-www-form-urlencoded"
# The problems of every route, those of API Gateway included.
_PROBLEMS = {
    400: "A parameter or a field is invalid; `errors` names each of them",
    401: "The request has no key or access token, or one that is not valid",
    403: "The key or the role does not have the scope, or may not see the tenant",
    429: "The key has made too many requests; RateLimit and Retry-After have the seconds until the next one",
    431: "The request line and the headers are larger than 10,240 bytes",
    500: "The service failed",
    502: "The service failed",
    503: "A dependency is down; Retry-After has the seconds until a retry",
    504: "The service did not answer in time",
}
_OF_GET = {406: "The resource is not available in an accepted media type"}
_OF_OTHERS = {413: "The body is too large"}
# The problems of a route whose own errors are pages.
_OF_GATEWAY = (403, 431, 500, 502, 503, 504)
_WITH_RETRY_AFTER = {409, 429, 503}
_LIMITS = {
    POLICY: 'The limits of the key, if it has any: `"requests";q=600;w=60`',
    REMAINING: 'What remains of them, and the seconds until the window ends: `"requests";r=599;t=12`',
}


def document() -> dict[str, Any]:
    """Return the document. Raises KeyError for a route without an Operation."""
    routes = {key: route for api in APIS for key, route in api.routes.items()}
    schemas, components = _schemas([OPERATIONS[key] for key in routes])
    paths: dict[str, dict[str, Any]] = {}
    for (method, path), route in sorted(routes.items(), key=lambda item: (item[0][1], item[0][0])):
        paths.setdefault(path, {})[method.lower()] = _described(method, path, route, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "masscomm",
            "version": "1",
            "description": "Requests, follows and controls sends, and operates an installation.",
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": components,
            "responses": {
                _name(status): _problem(status, meaning)
                for status, meaning in (_PROBLEMS | _OF_GET | _OF_OTHERS).items()
            },
            "securitySchemes": {
                _KEY: {
                    "type": "apiKey",
                    "in": "header",
                    "name": "x-api-key",
                    "description": f"A key has some of these scopes: {', '.join(Scope)}.",
                },
                _PERSON: {
                    "type": "http",
                    "scheme": "bearer",
                    "bearerFormat": "JWT",
                    "description": f"The access token of a person, who has some of these roles: {', '.join(Role)}.",
                },
            },
        },
    }


def _described(method: str, path: str, route: Route, schemas: Mapping[Any, Any]) -> dict[str, Any]:
    operation, scope = OPERATIONS[method, path], ROUTE_SCOPES.get((method, path), Scope.ADMIN)
    in_path = [IN_PATH[name] for name in re.findall(r"\{(\w+)\}", path)]
    found: dict[str, Any] = {
        "operationId": route.__name__,
        "summary": route.__doc__,
        "description": operation.description,
        "tags": [_TAGS.get(path.split("/")[2], "Operations")],
        "security": []
        if (method, path) in PUBLIC_ROUTES
        else [{_KEY: [scope]}, {_PERSON: [role for role in Role if scope in ROLE_SCOPES[role]]}],
        "parameters": [parameter.described() for parameter in (*in_path, *operation.parameters)],
        "responses": _pages(operation) if operation.response is None else _responses(method, operation, schemas),
    }
    if operation.request is not None:
        examples = {name: {"value": value} for name, value in operation.requests.items()}
        content = {"schema": schemas[operation.request, "validation"], "examples": examples}
        others = {media_type: {"schema": form} for media_type, form in operation.other_requests.items()}
        found["requestBody"] = {"required": True, "content": {JSON: content} | others}
    if operation.form:
        fields = {name: {"type": "string", "const": value} for name, value in operation.form.items()}
        form = {"type": "object", "properties": fields, "required": list(fields)}
        found["requestBody"] = {"required": True, "content": {_FORM: {"schema": form, "example": dict(operation.form)}}}
    return found


def _responses(method: str, operation: Operation, schemas: Mapping[Any, Any]) -> dict[str, Any]:
    schema = schemas[operation.response, "serialization"]
    success: dict[str, Any] = {
        "description": operation.success,
        "content": {JSON: {"schema": schema, "example": completed(operation.response, operation.example)}}
        | {media_type: {"schema": form} for media_type, form in operation.other_forms.items()},
    }
    success["headers"] = {
        name: {"description": meaning, "schema": {"type": "string"}}
        for name, meaning in {**operation.headers, **_LIMITS}.items()
    }
    found: dict[int, Any] = {operation.status: success}
    if operation.revalidated:
        found[304] = {"description": "The caller's version, in If-None-Match, is the current one"}
    common = _PROBLEMS | (_OF_GET if method == "GET" else _OF_OTHERS)
    found |= {status: {"$ref": f"#/components/responses/{_name(status)}"} for status in common}
    found |= {status: _problem(status, meaning) for status, meaning in operation.problems.items()}
    return {str(status): found[status] for status in sorted(found)}


def _pages(operation: Operation) -> dict[str, Any]:
    """Return the responses of a route whose responses are pages, apart from errors of the gateway."""
    content = {_PAGE: {"schema": {"type": "string"}}}
    pages = {operation.status: operation.success, **operation.problems}
    found: dict[int, Any] = {status: {"description": meaning, "content": content} for status, meaning in pages.items()}
    for status in _OF_GATEWAY:
        found.setdefault(status, {"$ref": f"#/components/responses/{_name(status)}"})
    return {str(status): found[status] for status in sorted(found)}


def _name(status: int) -> str:
    return HTTPStatus(status).phrase.replace(" ", "")


def _problem(status: int, meaning: str) -> dict[str, Any]:
    found: dict[str, Any] = {
        "description": meaning,
        "content": {CONTENT_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemBody"}}},
    }
    if status in _WITH_RETRY_AFTER:
        found["headers"] = {"Retry-After": {"description": "Seconds", "schema": {"type": "integer"}}}
    return found


def _schemas(operations: list[Operation]) -> tuple[Mapping[Any, Any], dict[str, Any]]:
    """Return {(type, mode): its schema, a reference}, and the components."""
    inputs: list[tuple[type, Literal["validation", "serialization"], TypeAdapter[Any]]] = [
        (ProblemBody, "serialization", _adapter(ProblemBody))
    ]
    for operation in operations:
        if operation.response is not None:
            inputs.append((operation.response, "serialization", _adapter(operation.response)))
        if operation.request is not None:
            inputs.append((operation.request, "validation", _adapter(operation.request)))
    found, definitions = TypeAdapter.json_schemas(inputs, ref_template="#/components/schemas/{model}")
    components = definitions["$defs"]
    for name, schema in components.items():
        components[name] = _without_titles(schema)
    for name in ("SendRequest", "RecurringSend"):
        _add_field_descriptions(components[name]["properties"])
    # The function that serves the route does without pydantic.
    move = components["RescheduleRequest"]
    move |= {"minProperties": 1, "maxProperties": 1}
    move["properties"]["per_minute"] |= {"minimum": 1, "maximum": MAX_PER_MINUTE}
    # Pydantic describes no inherited fields.
    for name in ("FieldErrorBody", "ProblemBody"):
        components[name]["properties"] |= deepcopy(components["CodedBody"]["properties"])
    # No enum: a later version may return further codes.
    components["ProblemBody"]["properties"]["code"]["x-texts"] = {text.code: text.value for text in Text}
    return found, components


def _adapter(body: type) -> TypeAdapter[Any]:
    """Return the adapter of a type of bodies. The docstrings of its fields become descriptions."""
    if issubclass(body, BaseModel):
        return TypeAdapter(body)
    return TypeAdapter(with_config(ConfigDict(use_attribute_docstrings=True))(body))


def _without_titles(schema: Any) -> Any:
    """Return a schema without the titles that pydantic derives from names."""
    if isinstance(schema, dict):
        return {
            name: _without_titles(value)
            for name, value in schema.items()
            if not (name == "title" and isinstance(value, str))
        }
    return [_without_titles(each) for each in schema] if isinstance(schema, list) else schema


def _add_field_descriptions(properties: dict[str, Any]) -> None:
    """Add the descriptions of the send's fields, which are those of its Avro schema."""
    for field in json.loads(_SEND_REQUESTED.read_text())["fields"]:
        if "doc" in field and field["name"] in properties:
            properties[field["name"]].setdefault("description", field["doc"])
