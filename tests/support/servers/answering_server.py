"""A loopback HTTP server that records its requests and returns prepared answers."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class AnsweringServer(ThreadingHTTPServer):
    """A server that returns prepared responses.

    Attributes:
        asked: The result of `read` for each request.
        authorizations: The Authorization header of each request, stored separately because it depends on the time.
        answers: One response for each request; the last one is repeated; None closes the connection.
    """

    def __init__(self, read: Callable[[BaseHTTPRequestHandler, bytes], Any]) -> None:
        self.read = read
        self.asked: list[Any] = []
        self.authorizations: list[str] = []
        self.answers: list[tuple[int, bytes] | None] = [(200, b"{}")]
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: AnsweringServer
    protocol_version = "HTTP/1.1"

    def _any(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.server.asked.append(self.server.read(self, body))
        self.server.authorizations.append(self.headers.get("authorization", ""))
        answers = self.server.answers
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if answer is None:
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        status, content = answer
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _any

    def log_message(self, *_: Any) -> None: ...


@contextmanager
def answering(read: Callable[[BaseHTTPRequestHandler, bytes], Any]) -> Iterator[AnsweringServer]:
    with AnsweringServer(read) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()
