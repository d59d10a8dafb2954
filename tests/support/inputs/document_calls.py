"""The requests that the examples of the OpenAPI document are."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from masscomm.http.scopes import ALL_SCOPES, Scope
from ops.openapi.document import document

DOCUMENT = document()


@dataclass(frozen=True)
class Call:
    """A request that consists of an operation's examples."""

    method: str
    path: str
    # The name of the example of the request body; "" if the request has no body.
    name: str
    operation: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.method} {self.path} {self.name}".rstrip()

    @property
    def _clubs(self) -> dict[str, str]:
        """Return the clubs of a caller whose request succeeds."""
        return {"all_clubs": "true"} if concerns_every_club(self.method, self.path) else {"club_ids": "1"}

    def event(self, *, clubs: str | None = None, scopes: frozenset[Scope] = ALL_SCOPES) -> dict[str, Any]:
        given: dict[str, dict[str, Any]] = {"path": {}, "query": {}, "header": {}}
        for each in self.operation["parameters"]:
            if "example" in each:
                given[each["in"]][each["name"]] = each["example"]
        query = {name: [str(one) for one in _listed(value)] for name, value in given["query"].items()}
        seen = self._clubs if clubs is None else {"club_ids": clubs}
        body = self.operation["requestBody"]["content"]["application/json"] if self.name else None
        return {
            "httpMethod": self.method,
            "path": self.path.format(**given["path"]),
            "multiValueHeaders": {name: [value] for name, value in given["header"].items()},
            "multiValueQueryStringParameters": query,
            "requestContext": {"authorizer": {**seen, "scopes": " ".join(scopes)}},
            "body": None if body is None else json.dumps(body["examples"][self.name]["value"]),
        }


def concerns_every_club(method: str, path: str) -> bool:
    """Return whether only a caller that may see every club may make the request: it changes an event type or a
    category, or reads numbers of all clubs together.
    """
    return path == "/v1/metrics/latency" or (method != "GET" and path.startswith(("/v1/event-types", "/v1/categories")))


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _calls() -> Iterator[Call]:
    """Yield the calls of each route that needs an API key. The others are tested in tests/unit/preferences_handler."""
    for path, operations in DOCUMENT["paths"].items():
        for method, operation in operations.items():
            if not operation["security"]:
                continue
            body = operation.get("requestBody")
            for name in body["content"]["application/json"]["examples"] if body else ("",):
                yield Call(method.upper(), path, name, operation)


CALLS = list(_calls())
