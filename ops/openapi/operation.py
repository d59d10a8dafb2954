"""The description of one route."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from masscomm.http.idempotency import KEY, LONGEST_KEY

type Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
DATE_TIME: Schema = {"type": "string", "format": "date-time"}
# A 64-bit number.
ID: Schema = {"type": "integer", "format": "int64", "minimum": -(2**63), "maximum": 2**63 - 1}


def several(items: Schema, highest: int = 100) -> Schema:
    """Return the schema of a parameter that may be repeated."""
    return {"type": "array", "items": items, "maxItems": highest}


def number(lowest: int, highest: int, default: int | None = None) -> Schema:
    bounds = {"type": "integer", "minimum": lowest, "maximum": highest}
    return bounds if default is None else bounds | {"default": default}


@dataclass(frozen=True)
class Parameter:
    """A parameter in the path, in the query or in a header."""

    name: str
    description: str
    schema: Schema = field(default_factory=lambda: TEXT)
    # A value with which the examples of the operation succeed; None: they omit the parameter.
    example: Any = None
    # path, query or header.
    location: str = "query"
    required: bool = False

    def described(self) -> dict[str, Any]:
        found = {
            "name": self.name,
            "in": self.location,
            "required": self.required or self.location == "path",
            "description": self.description,
            "schema": self.schema,
        }
        return found if self.example is None else found | {"example": self.example}


IDEMPOTENCY_KEY = Parameter(
    name=KEY,
    location="header",
    description="Chosen by the caller. The service executes one request for each key of a tenant within 24 hours; a "
    "repeated request gets the first response.",
    schema={
        "type": "string",
        "minLength": 1,
        "maxLength": LONGEST_KEY,
        "pattern": r"^[\x20-\x7e]*[\x21-\x7e][\x20-\x7e]*$",
    },
    example="order-4711",
)


# The conditions of a change.
IF_MATCH = Parameter(
    name="If-Match",
    location="header",
    description="The `etag` of the resource as the caller has read it. If it has changed since, the change is refused.",
)
IF_NONE_MATCH = Parameter(
    name="If-None-Match",
    location="header",
    description="`*`: if the resource exists, the change is refused.",
)


@dataclass(frozen=True, kw_only=True)
class Operation:
    """The description of a route. Its summary is the docstring of the function that serves it; its path has its tag and
    the parameters in the path (ops/openapi/document.py).
    """

    # None: the response is a page.
    response: type | None = None
    # The members of an example of the response body that ops/openapi/examples.py cannot derive.
    example: Mapping[str, Any] = field(default_factory=dict)
    # What the summary does not say: bounds, effects on other requests, and when to use the route.
    description: str
    parameters: tuple[Parameter, ...] = ()
    # The type of the request body; None: the request has none.
    request: type | None = None
    # Name → a request body that succeeds.
    requests: Mapping[str, Any] = field(default_factory=dict)
    # Media type → the schema of further forms of the request.
    other_requests: Mapping[str, Schema] = field(default_factory=dict)
    # Field of a form → its only value, for a request with a form in place of JSON.
    form: Mapping[str, str] = field(default_factory=dict)
    # The status of a successful response, and its meaning.
    status: int = 200
    success: str = "OK"
    # Header of the successful response → its meaning.
    headers: Mapping[str, str] = field(default_factory=dict)
    # Media type → the schema of further forms of the response.
    other_forms: Mapping[str, Schema] = field(default_factory=dict)
    # Status → its meaning, in addition to the problems of every route.
    problems: Mapping[int, str] = field(default_factory=dict)
    # Whether the response has an entity tag, so that If-None-Match gets 304.
    revalidated: bool = False
