"""A loopback server that runs a function of the test for each connection, and answers any bytes."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

type Serve = Callable[[socket.socket, list[bytes]], None]


def read_request(connection: socket.socket) -> bytes:
    """Read one request, or its beginning if the client ends the connection."""
    data = b""
    while b"\r\n\r\n" not in data or len(data.partition(b"\r\n\r\n")[2]) < _length(data):
        if not (more := connection.recv(65_536)):
            break
        data += more
    return data


def _length(request: bytes) -> int:
    head = request.partition(b"\r\n\r\n")[0].lower()
    return int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0)


def answering(*answers: bytes, close: bool = False) -> Serve:
    """Return a server's function that sends one answer for each request, then waits or closes the connection."""

    def serve(connection: socket.socket, requests: list[bytes]) -> None:
        for answer in answers:
            requests.append(read_request(connection))
            connection.sendall(answer)
        if not close:
            connection.recv(1)

    return serve


class Server:
    """A server that runs the next function for each new connection, and the last function for all later ones."""

    def __init__(self, *serves: Serve) -> None:
        self.serves = list(serves)
        self.requests: list[bytes] = []
        self.connections = 0
        self._open: list[socket.socket] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}/"
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                self._open.append(connection)
                serve = self.serves[min(self.connections, len(self.serves) - 1)]
                self.connections += 1
                thread = threading.Thread(target=self._serve, args=(serve, connection))
                self._threads.append(thread)
                thread.start()

    def _serve(self, serve: Serve, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            serve(connection, self.requests)

    def close(self) -> None:
        for each in (self._listening, *self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in self._threads:
            thread.join()


@contextmanager
def serving(*serves: Serve) -> Iterator[Server]:
    server = Server(*serves)
    try:
        yield server
    finally:
        server.close()


def slow_resolver(*_: object, **_more: object) -> list[Any]:
    """Resolve no name, and take half a second for it."""
    time.sleep(0.5)
    return []
