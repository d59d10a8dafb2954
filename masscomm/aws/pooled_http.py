"""A client for HTTP requests over kept-alive blocking connections, for DynamoDB and OpenSearch.

Every look-up and every write of a function is such a request, and urllib3 takes three times the processor time
(docs/internals/benchmarks.md). This client supports only the features that these services need: it adds no header but
Host and Content-Length, and it does not repeat a request. Redirects, compression, proxies and cookies are not
supported. masscomm/aws/http_answer.py reads the answers.

A function makes its requests from several threads. Each takes an idle connection, or makes one.
"""

import select
import socket
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from weakref import finalize

from masscomm.aws.http_answer import (
    AnswerLost,
    AnswerReader,
    AnswerTimeout,
    ConnectTimeout,
    Malformed,
    NotSent,
    TlsRefused,
)
from masscomm.aws.name_resolution import addresses
from masscomm.aws.signature import host_header

if TYPE_CHECKING:
    # ssl is imported with the first encrypted connection, so that it is not part of a cold start.
    from ssl import SSLContext

_RECEIVED_BYTES = 65_536
_WITHOUT_BODY = ("GET", "DELETE")
# The size limit of a response: a page of search results may have a few megabytes.
_ANSWER_BYTES = 100_000_000


class _Connection:
    """A connection with at most one request at a time."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._readable = select.poll()
        self._readable.register(connected, select.POLLIN)
        # Clients that are not closed leave no open sockets, as those of libraries.
        finalize(self, connected.close).atexit = False

    def is_idle(self) -> bool:
        """Return whether the server has sent nothing since the last response. If it has, it has probably ended the
        connection.
        """
        return not self._readable.poll(0)  # guard: pooled_http.ended_connection

    def exchange(self, request: bytes, deadline: float) -> AnswerReader:
        """Send a request and return its response. Raises AnswerLost."""
        reader = AnswerReader(_ANSWER_BYTES)
        try:
            self._send(request, deadline)
            while True:
                self._wait_until(deadline)
                data = self._socket.recv(_RECEIVED_BYTES)
                if not data:
                    if reader.end():
                        return reader
                    raise AnswerLost("the connection ended before the answer was complete")
                if reader.feed(data):
                    return reader
        except TimeoutError as error:
            raise AnswerTimeout("no whole answer arrived in time") from error
        except (OSError, Malformed) as error:
            raise AnswerLost(f"{type(error).__name__}: {error}") from error

    def _send(self, request: bytes, deadline: float) -> None:
        rest = memoryview(request)
        try:
            while rest:
                self._wait_until(deadline)
                rest = rest[self._socket.send(rest) :]
        except BrokenPipeError:
            # The server has ended the connection, and may have answered before that.
            return

    def _wait_until(self, deadline: float) -> None:
        self._socket.settimeout(_remaining_s(deadline))  # guard: pooled_http.call_deadline

    def close(self) -> None:
        self._socket.close()


class PooledHttp:
    """A client of one server. Thread-safe.

    Args:
        url: The server's address, with the scheme http or https.
        connect_s: The time limit of name resolution, connecting and the TLS handshake together, in seconds.
        read_s: The longest wait for a response, in seconds.
        total_s: The time limit of a call in seconds.
        connections: The number of connections that stay open.
    """

    def __init__(self, url: str, *, connect_s: float, read_s: float, total_s: float, connections: int) -> None:
        parts = urlsplit(url)
        self._host = parts.hostname or ""
        self._is_tls = parts.scheme == "https"
        self._port = parts.port or (443 if self._is_tls else 80)
        self._host_line = f"host: {host_header(url)}\r\n"
        self._connect_s, self._read_s, self._total_s = connect_s, read_s, total_s
        self._connections = connections
        self._tls: SSLContext | None = None
        self._idle: list[_Connection] = []

    def request(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes = b"", *, until: float | None = None
    ) -> tuple[int, bytes]:
        """Send a request once; return the status and the body of its response.

        Args:
            target: The quoted path with the query, as it is sent.
            headers: The request's headers, without Host and Content-Length, which the client adds.
            until: The time of the monotonic clock by which the call must have ended; None: within its time limit from
                now.

        Raises:
            NotSent: The server cannot be reached: ConnectTimeout, TlsRefused or another reason.
            AnswerLost: The request was sent, and no complete response arrived: AnswerTimeout or another reason.
        """
        until = time.monotonic() + self._total_s if until is None else until
        lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
        length = f"content-length: {len(body)}\r\n" if body or method not in _WITHOUT_BODY else ""
        head = f"{method} {target} HTTP/1.1\r\n{self._host_line}{lines}{length}\r\n".encode("latin-1")
        connection = self._connection(until)
        now = time.monotonic()
        if now >= until:
            connection.close()
            raise ConnectTimeout("the call's time was over before the request was sent")
        try:
            answer = connection.exchange(head + body, min(until, now + self._read_s))
        except BaseException:
            connection.close()
            raise
        if answer.reusable and len(self._idle) < self._connections:
            self._idle.append(connection)
        else:
            connection.close()
        return answer.status, answer.body

    def close(self) -> None:
        """Close the idle connections."""
        while self._idle:
            self._idle.pop().close()

    def _connection(self, until: float) -> _Connection:
        while True:
            try:
                # Another thread may take the last idle connection at the same time.
                idle = self._idle.pop()
            except IndexError:
                return _Connection(self._connected(until))
            if idle.is_idle():
                return idle
            idle.close()

    def _connected(self, until: float) -> socket.socket:
        """Return a new connection. Raises NotSent."""
        until = min(until, time.monotonic() + self._connect_s)
        error: OSError | None = None
        try:
            for family, kind, protocol, _name, address in addresses(self._host, self._port, _remaining_s(until)):
                made = socket.socket(family, kind, protocol)
                try:
                    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                    made.settimeout(_remaining_s(until))
                    made.connect(address)
                    return self._with_tls(made, until)
                except TlsRefused:
                    made.close()
                    raise
                except OSError as refused:
                    made.close()
                    error = refused
        except OSError as unresolved:
            error = unresolved
        if isinstance(error, TimeoutError):
            raise ConnectTimeout(f"no connection to {self._host} in time: {error}") from error
        raise NotSent(f"no connection to {self._host}: {error}") from error

    def _with_tls(self, connected: socket.socket, until: float) -> socket.socket:
        if not self._is_tls:
            return connected
        import ssl

        if self._tls is None:
            self._tls = ssl.create_default_context()  # A default context verifies the server's certificate and name.
        connected.settimeout(_remaining_s(until))
        try:
            return self._tls.wrap_socket(connected, server_hostname=self._host)
        except ssl.SSLError as error:
            raise TlsRefused(f"{type(error).__name__}: {error}") from error


def _remaining_s(until: float) -> float:
    """Return the seconds that remain. Raises TimeoutError if none do."""
    remaining_s = until - time.monotonic()
    if remaining_s <= 0:
        raise TimeoutError("no time remains")
    return remaining_s
