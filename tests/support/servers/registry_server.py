"""A schema registry over HTTP that returns prepared answers."""

import json
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.support.servers.http_server import Asked, http_server

# (method, path, body) of a request → (status, headers, body) of the response.
type Answer = Callable[[str, str, Any], tuple[int, dict[str, str], bytes]]


class RegistryServer:
    """The server; with `sign_in` (user and password), it refuses other requests by 401."""

    def __init__(self, answer: Answer) -> None:
        self.url = ""
        self.sign_in: tuple[str, str] | None = None
        self.answer = answer
        self.requests: list[str] = []

    def respond(self, asked: Asked) -> tuple[int, dict[str, str], bytes]:
        self.requests.append(f"{asked.command} {asked.path}")
        if self.sign_in is not None:
            expected = b64encode(":".join(self.sign_in).encode()).decode()
            if asked.headers.get("Authorization") != f"Basic {expected}":
                return 401, {"Connection": "close"}, b'{"error_code": 401, "message": "Unauthorized"}'
        status, headers, text = self.answer(asked.command, asked.path, json.loads(asked.body) if asked.body else None)
        return status, {**headers, "Connection": "close"}, text


@contextmanager
def serving(answer: Answer) -> Iterator[RegistryServer]:
    """A server on a free loopback port, until the block ends."""
    registry = RegistryServer(answer)
    with http_server(registry.respond) as registry.url:
        yield registry


class ConfluentRegistry:
    """The responses of a Confluent-compatible registry."""

    def __init__(self) -> None:
        self.schemas: dict[int, str] = {}
        self.subjects: dict[str, int] = {}

    def register(self, subject: str, schema: Any) -> int:
        schema_id = len(self.schemas) + 1
        self.schemas[schema_id] = json.dumps(schema)
        self.subjects[subject] = schema_id
        return schema_id

    def __call__(self, method: str, path: str, body: Any) -> tuple[int, dict[str, str], bytes]:
        *_, kind, name = path.partition("?")[0].split("/")
        if method == "GET" and path.endswith("/versions/latest"):
            latest = self.subjects.get(path.split("/")[-3])
            if latest is None:
                return 404, {}, b'{"error_code": 40401, "message": "Subject not found"}'
            return 200, {}, json.dumps({"id": latest, "schema": self.schemas[latest]}).encode()
        if method == "GET" and kind == "ids":
            # Apicurio returns this response for an id that exceeds Java's int.
            if not -(2**31) <= int(name) < 2**31:
                return 404, {}, b'{"error_code": 0, "message": "Unable to extract parameter"}'
            known = self.schemas.get(int(name))
            if known is None:
                return 404, {}, b'{"error_code": 40403, "message": "Schema not found"}'
            return 200, {}, json.dumps({"schema": known}).encode()
        schema_id = self.subjects.get(name)
        if schema_id is None:
            return 404, {}, b'{"error_code": 40401, "message": "Subject not found"}'
        if json.loads(self.schemas[schema_id]) != json.loads(body["schema"]):
            return 404, {}, b'{"error_code": 40403, "message": "Schema not found"}'
        answer = {"subject": name, "id": schema_id, "version": 1, "schema": self.schemas[schema_id]}
        return 200, {}, json.dumps(answer).encode()
