"""Generates the description of the metrics API in OpenAPI 3.1.

    python -m functions.metrics_handler.openapi > docs/openapi/metrics_handler.json

Routes and path parameters are read from the API's routes, query parameters from the use cases. The descriptions of most
parameters are the docstrings of their parsers.
"""

import json
import re
import sys
from collections.abc import Callable
from typing import Any

from functions.metrics_handler import handler
from functions.metrics_handler.http import parameters as parse
from functions.metrics_handler.routes import metrics, sends, stream, trending, user_notifications
from functions.metrics_handler.store import buckets
from masscomm.domain.grains import EVERY_GRAIN
from masscomm.domain.time_limits import STREAM_WAIT_S
from masscomm.http.problem import CONTENT_TYPE
from masscomm.http.rest import Route
from masscomm.http.tenant import parse_club_id

_WHAT_IT_MAY_BE: dict[str, str | None] = {
    "start": parse.time.__doc__,
    "end": parse.time.__doc__,
    "time_zone": buckets.time_zone.__doc__,
    "club_id": parse_club_id.__doc__,
    "type": parse.words.__doc__,
    "channel": parse.words.__doc__,
    "measure": parse.measure.__doc__,
    "measures": parse.measures.__doc__,
    "status": sends.send_status.__doc__,
    "cursor": "next_cursor of the page before",
    "granularity": f"one of {EVERY_GRAIN}",
    "dimensions": "any of club_id, type, channel, measure, several times or with commas between them",
    "order": "one of bucket, -bucket, -count_total",
    "fill": "zero, and nothing else",
    "limit": "rows at most",
    "by": "one of type, club_id",
    "window": f"minutes, from 1 to {trending.MAX_WINDOW_MIN}",
    "top": f"rows at most, from 1 to {trending.MAX_TOP}",
    "since": "the cursor of the answer before",
    "wait": f"seconds to wait at most, from 0 to {STREAM_WAIT_S}",
}
_REPEATED = {"club_id", "type", "channel", "measure", "measures", "dimensions", "status"}
# For each route: the permitted parameters, the required parameters and the media types.
_QUERIES: dict[str, tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]] = {
    "/v1/metrics": (metrics.PARAMETERS, ("granularity", "start", "end"), ("application/json", "text/csv")),
    "/v1/metrics/trending": (trending.PARAMETERS, (), ("application/json", "text/csv")),
    "/v1/metrics/stream": (stream.PARAMETERS, (), ("application/json",)),
    "/v1/sends": (sends.PARAMETERS, (), ("application/json",)),
    "/v1/sends/{send_id}": ((), (), ("application/json",)),
    "/v1/sends/{send_id}/cancel": ((), (), ("application/json",)),
    "/v1/users/{user_id}/notifications": (user_notifications.PARAMETERS, (), ("application/json",)),
}
_PROBLEMS = {
    "400": "A parameter cannot be used, or the query is over a bound",
    "403": "A club that may not be seen was asked for",
    "404": "There is no such resource",
    "406": "None of the media types wanted can be served",
    "503": "The database is away; Retry-After says when to retry",
}
# Problem responses that only some routes have.
_OF_ONE = {
    "/v1/metrics/stream": {"429": "The key has as many requests waiting as it may; Retry-After says when to retry"},
    "/v1/sends/{send_id}/cancel": {"409": "The send has ended: there is nothing to cancel"},
}


def document() -> dict[str, Any]:
    """Return the whole description. Raises KeyError for a route that is not described here."""
    return {
        "openapi": "3.1.0",
        "info": {"title": "masscomm metrics", "version": "1"},
        "servers": [{"url": "/"}],
        "paths": {
            path: {method.lower(): _operation(method, path, route)}
            for (method, path), route in handler.api.routes.items()
        },
        "components": {"schemas": {"Problem": _PROBLEM_SCHEMA}},
    }


def _operation(method: str, path: str, route: Route) -> dict[str, Any]:
    allowed, required, media_types = _QUERIES[path]
    answer: dict[str, Any] = {"application/json": {"schema": {"type": "object"}}, "text/csv": {}}
    in_path = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"{(\w+)}", path)
    ]
    return {
        "summary": route.__doc__,
        "operationId": route.__name__,
        "parameters": in_path + [_parameter(name, name in required, path) for name in allowed],
        "responses": _successes(method, {each: answer[each] for each in media_types})
        | {
            status: {"description": meaning, "content": {CONTENT_TYPE: {"schema": {"$ref": _PROBLEM}}}}
            for status, meaning in sorted((_PROBLEMS | _OF_ONE.get(path, {})).items())
        },
    }


def _successes(method: str, content: dict[str, Any]) -> dict[str, Any]:
    if method == "POST":
        return {"202": {"description": "Recorded; it takes effect with the next batches", "content": content}}
    return {
        "200": {"description": "OK", "content": content},
        "304": {"description": "Still what If-None-Match has"},
    }


def _parameter(name: str, required: bool, path: str) -> dict[str, Any]:
    measure_of_trends = path.endswith("/trending") and name == "measure"
    repeated = name in _REPEATED and not measure_of_trends
    schema: dict[str, Any] = {"type": "array", "items": {"type": "string"}} if repeated else {"type": "string"}
    return {
        "name": name,
        "in": "query",
        "required": required,
        "description": _WHAT_IT_MAY_BE[name],
        "schema": schema,
    }


_PROBLEM = "#/components/schemas/Problem"
_TEXT = {"type": "string"}
_PROBLEM_SCHEMA = {
    "type": "object",
    "description": "RFC 9457",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": _TEXT,
        "title": _TEXT,
        "status": {"type": "integer"},
        "detail": _TEXT,
        "errors": {"type": "array", "items": {"type": "object", "properties": {"field": _TEXT, "message": _TEXT}}},
    },
}


def main(write: Callable[[str], object] = sys.stdout.write) -> None:
    write(json.dumps(document(), indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
