"""A client for HTTP POST requests over kept-alive asyncio connections.

It is masscomm's only HTTP client that does not use a library. The delivery function is limited by processor time, and
the HTTP clients of libraries use more of it (benchmarks/provider_http.py). This client supports only the features that
AWS' query APIs need: one request at a time on a connection, HTTP/1.1 answers with a length, in chunks, or until the
connection ends. It adds no header but Host and Content-Length. Redirects, compression, proxies and cookies are not
supported.

Source: RFC 9112, "HTTP/1.1", sections 6 and 7 (message body length, chunked transfer coding) and 9 (connections).
"""

import asyncio
import re
import socket
import ssl
import time
from collections.abc import Mapping
from typing import cast
from urllib.parse import urlsplit

from masscomm.aws.signature import host_header

_MAX_HEAD_BYTES = 65_536
_MAX_BODY_BYTES = 4_000_000
_FRAMING = re.compile(rb"\r\n(content-length|transfer-encoding|connection)[ \t]*:[ \t]*([^\r\n]*)", re.IGNORECASE)
_STATUS = re.compile(rb"HTTP/1\.([01]) (\d{3})(?: [^\r\n]*)?(?:\r\n|$)")
_LENGTH = re.compile(rb"\d{1,15}")
_CHUNK_SIZE = re.compile(rb"([0-9a-fA-F]{1,8})[ \t]*(?:;.*)?")
# A connection that has been idle for longer than this is not reused: the server may have closed it, and the event loop,
# which does not run between invocations, may not have noticed. The idle time is measured with the wall clock, because
# the monotonic clock may stop while Lambda freezes the environment.
_FRESH_S = 0.5


class NotSent(Exception):
    """The request was not sent: there is no connection, or no time remained."""


class AnswerLost(Exception):
    """The request was sent, at least in part, and no whole answer arrived: the server may have acted on it."""


class Malformed(Exception):
    """The answer is not HTTP/1.1, or is too large."""


class AnswerReader:
    """Parses one HTTP response from the pieces of data as they arrive."""

    def __init__(self) -> None:
        self.status = 0
        self.body = b""
        # Whether the connection may be used for another request.
        self.reusable = False
        self._buffer = bytearray()
        self._in_body = False
        self._chunked = False
        # The body's length in bytes. None: the body is chunked, or ends with the connection.
        self._length: int | None = None

    def feed(self, data: bytes) -> bool:
        """Add a piece of the response; return whether the response is complete. Raises Malformed."""
        self._buffer += data
        if not self._in_body and not self._read_head():
            return False
        if self._chunked:
            return self._read_chunks()
        if len(self._buffer) > _MAX_BODY_BYTES:
            raise Malformed("the answer is too large")
        if self._length is None or len(self._buffer) < self._length:
            return False
        self._finish(bytes(self._buffer[: self._length]), len(self._buffer) - self._length)
        return True

    def end(self) -> bool:
        """Handle the end of the connection; return whether the response is complete."""
        if not self._in_body or self._chunked or self._length is not None:
            return False
        self._finish(bytes(self._buffer), 1)
        return True

    def _finish(self, body: bytes, surplus: int) -> None:
        self.body = body
        # Surplus bytes belong to no request: if the connection were reused, the next request could read them as its
        # response.
        self.reusable = self.reusable and surplus == 0

    def _read_head(self) -> bool:
        while True:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                if len(self._buffer) > _MAX_HEAD_BYTES:
                    raise Malformed("the head of the answer is too large")
                return False
            head = bytes(self._buffer[:end])
            del self._buffer[: end + 4]
            line = _STATUS.match(head)
            if line is None:
                raise Malformed("the answer is not HTTP/1.1")
            self.status = int(line[2])
            if self.status >= 200:
                break
            if self.status == 101:
                raise Malformed("the server switches protocols")
        self._in_body = True
        self._read_framing(head, is_persistent=line[1] == b"1")
        return True

    def _read_framing(self, head: bytes, *, is_persistent: bool) -> None:
        lengths: set[bytes] = set()
        for name, value in _FRAMING.findall(head):
            match name.lower():
                case b"content-length":
                    lengths.update(part.strip() for part in value.split(b","))
                case b"transfer-encoding":
                    if value.strip().lower() != b"chunked":
                        raise Malformed("an unknown transfer coding")
                    self._chunked = True
                case _:
                    options = {option.strip().lower() for option in value.split(b",")}
                    is_persistent = (is_persistent or b"keep-alive" in options) and b"close" not in options
        if self.status in (204, 304):
            self._chunked, self._length = False, 0
        elif lengths and not self._chunked:
            if len(lengths) > 1 or not _LENGTH.fullmatch(text := lengths.pop()):
                raise Malformed("an invalid length")
            self._length = int(text)
        # If a response has both a Content-Length and chunks, the connection is closed after it (RFC 9112, 6.1).
        self.reusable = is_persistent and (self._length is not None or (self._chunked and not lengths))

    def _read_chunks(self) -> bool:
        while True:
            end = self._buffer.find(b"\r\n")
            if end < 0:
                if len(self._buffer) > _MAX_HEAD_BYTES:
                    raise Malformed("an invalid chunk")
                return False
            size_line = _CHUNK_SIZE.fullmatch(bytes(self._buffer[:end]))
            if size_line is None:
                raise Malformed("an invalid chunk")
            size = int(size_line[1], 16)
            if size == 0:
                return self._read_trailers(end + 2)
            if len(self.body) + size > _MAX_BODY_BYTES:
                raise Malformed("the answer is too large")
            if len(self._buffer) < end + 2 + size + 2:
                return False
            if self._buffer[end + 2 + size : end + 4 + size] != b"\r\n":
                raise Malformed("an invalid chunk")
            self.body += bytes(self._buffer[end + 2 : end + 2 + size])
            del self._buffer[: end + 4 + size]

    def _read_trailers(self, start: int) -> bool:
        """Skip the trailer fields after the last chunk; an empty line ends them."""
        if self._buffer[start : start + 2] == b"\r\n":
            end = start + 2
        else:
            end = self._buffer.find(b"\r\n\r\n", start) + 4
            if end < 4:
                if len(self._buffer) > _MAX_HEAD_BYTES:
                    raise Malformed("the trailers are too large")
                return False
        self._finish(self.body, len(self._buffer) - end)
        return True


class _Connection(asyncio.Protocol):
    """One connection to the server, with at most one request at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._reader = AnswerReader()
        self._answer: asyncio.Future[None] | None = None
        self.is_usable = False
        self.idle_since = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.is_usable = True
        connected: socket.socket | None = transport.get_extra_info("socket")
        if connected is not None:
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def data_received(self, data: bytes) -> None:
        if self._answer is None or self._answer.done():
            self.abort()  # The server sent data, but no request is open.
            return
        try:
            if self._reader.feed(data):
                self._answer.set_result(None)
        except Malformed as error:
            self._fail(AnswerLost(str(error)))

    def eof_received(self) -> bool:
        self.is_usable = False
        if self._answer is not None and not self._answer.done():
            if self._reader.end():
                self._answer.set_result(None)
            else:
                self._answer.set_exception(AnswerLost("the connection ended before the answer was complete"))
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(AnswerLost(f"the connection broke: {exc or 'closed'}"))

    async def exchange(self, request: bytes, deadline: float) -> AnswerReader:
        """Send a request and return its answer. Raises AnswerLost."""
        if self._transport is None:
            raise NotSent("there is no connection")
        reader = self._reader = AnswerReader()
        self._answer = self._loop.create_future()
        timer = self._loop.call_at(deadline, self._expire)
        try:
            self._transport.write(request)
            await self._answer
        except BaseException:
            self.abort()
            raise
        finally:
            timer.cancel()
            self._answer = None
        # The server answered before it had read the whole request. On a reused connection it would read the rest as
        # another request.
        if not reader.reusable or self._transport.get_write_buffer_size():
            self.abort()
        self.idle_since = time.time()
        return reader

    def abort(self) -> None:
        """Close the connection at once and drop unsent data."""
        self.is_usable = False
        if self._transport is not None:
            self._transport.abort()

    def _expire(self) -> None:
        self._fail(AnswerLost("no whole answer arrived in time"))  # guard: provider.call_deadline

    def _fail(self, error: AnswerLost) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)
        self.abort()


class HttpClient:
    """Sends POST requests to one URL. An instance belongs to one event loop.

    Args:
        url: The address, with the scheme http or https.
        answer_s: The time limit of a response in seconds, from sending the request to its complete response.
    """

    def __init__(self, url: str, *, answer_s: float) -> None:
        parts = urlsplit(url)
        self._host = parts.hostname or ""
        self._is_tls = parts.scheme == "https"
        self._port = parts.port or (443 if self._is_tls else 80)
        self._answer_s = answer_s
        self._head = f"POST {parts.path or '/'} HTTP/1.1\r\nhost: {host_header(url)}\r\n"
        self._tls: ssl.SSLContext | None = None
        self._idle: list[_Connection] = []

    async def post(self, headers: Mapping[str, str], body: bytes, *, connect_until: float) -> tuple[int, bytes]:
        """Send a POST request and return the status and the body of its response.

        Args:
            headers: The request's headers, without Host and Content-Length, which the client adds.
            body: The request's body.
            connect_until: The time on the event loop's clock at which name resolution, connecting and the TLS handshake
                must have ended.

        Raises:
            NotSent: The server cannot be reached.
            AnswerLost: The request was sent, and no complete response arrived.
        """
        loop = asyncio.get_running_loop()
        connection = await self._connection(loop, connect_until)
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        request = f"{self._head}{lines}content-length: {len(body)}\r\n\r\n".encode("latin-1") + body
        answer = await connection.exchange(request, loop.time() + self._answer_s)
        if connection.is_usable:
            self._idle.append(connection)
        return answer.status, answer.body

    async def close(self) -> None:
        while self._idle:
            self._idle.pop().abort()
        await asyncio.sleep(0)  # One turn of the event loop closes the sockets.

    async def _connection(self, loop: asyncio.AbstractEventLoop, until: float) -> _Connection:
        while self._idle:
            if not 0 <= time.time() - self._idle[-1].idle_since < _FRESH_S:
                # Let the event loop read what servers have sent meanwhile, such as the end of a connection. It takes
                # two turns: the first one polls the sockets, the second one calls the connections.
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                if not self._idle:
                    break
            connection = self._idle.pop()
            if connection.is_usable:
                return connection
        try:
            async with asyncio.timeout_at(until):
                _, made = await loop.create_connection(
                    lambda: _Connection(loop), self._host, self._port, ssl=self._context()
                )
        except TimeoutError as error:
            raise NotSent(f"no connection to {self._host} in time") from error
        except OSError as error:
            raise NotSent(f"no connection to {self._host}: {error}") from error
        return made

    def _context(self) -> ssl.SSLContext | None:
        if self._is_tls and self._tls is None:
            self._tls = ssl.create_default_context()  # A default context verifies the server's certificate and name.
        return self._tls
