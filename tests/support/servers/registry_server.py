"""A schema registry over HTTP that returns prepared answers."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

# (method, path, body) of a request → (status, headers, body) of the response.
type Answer = Callable[[str, str, Any], tuple[int, dict[str, str], bytes]]


class RegistryServer:
    def __init__(self, url: str, answer: Answer) -> None:
        self.url = url
        self.answer = answer
        self.requests: list[str] = []


@contextmanager
def serving(answer: Answer) -> Iterator[RegistryServer]:
    """A server on a free loopback port, until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._respond(None)

        def do_POST(self) -> None:
            self._respond(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        do_PUT = do_POST

        def _respond(self, body: Any) -> None:
            registry.requests.append(f"{self.command} {self.path}")
            status, headers, text = registry.answer(self.command, self.path, body)
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(text)), "Connection": "close"}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: Any) -> None:
            """Do not log requests to standard error."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    registry = RegistryServer(f"http://127.0.0.1:{server.server_port}", answer)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


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
