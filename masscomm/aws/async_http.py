"""A client for HTTP POST requests over kept-alive asyncio connections, for the delivery function's provider calls.

The delivery function is limited by processor time, and the HTTP clients of libraries use more of it: 278 µs a
push with aiohttp, 94 with this one. This client supports only the features that AWS' query APIs need: one request at a
time on a connection. It adds no header but Host and Content-Length. Redirects, compression, proxies and cookies are
not supported. masscomm/aws/http_answer.py reads the answers.
"""

import asyncio
import socket
import ssl
import time
from collections.abc import Mapping
from typing import cast
from urllib.parse import urlsplit

from masscomm.aws.http_answer import AnswerLost, AnswerReader, Malformed, NotSent
from masscomm.aws.signature import host_header

# A connection that has been idle for longer than this is not reused: the server may have closed it, and the event loop,
# which does not run between invocations, may not have noticed. The idle time is measured with the wall clock, because
# the monotonic clock may stop while Lambda freezes the environment.
FRESH_S = 0.5


class Connection(asyncio.Protocol):
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

    async def exchange(self, request: bytes, deadline: float, reader: AnswerReader | None = None) -> AnswerReader:
        """Send a request and return its answer. Raises AnswerLost.

        Args:
            request: The request.
            deadline: The time on the event loop's clock at which the whole answer must have arrived.
            reader: Reads the answer. If AnswerLost is raised, it has what has arrived.
        """
        if self._transport is None:
            raise NotSent("there is no connection")
        reader = self._reader = reader or AnswerReader()
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
        self._idle: list[Connection] = []

    async def post(self, headers: Mapping[str, str], body: bytes, *, connect_until: float) -> tuple[int, bytes]:
        """Send a POST request and return the status and the body of its response. It has the arguments and errors of
        `answer`.
        """
        answer = await self.answer(headers, body, connect_until=connect_until)
        return answer.status, answer.body

    async def answer(self, headers: Mapping[str, str], body: bytes, *, connect_until: float) -> AnswerReader:
        """Send a POST request and return its response.

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
        return answer

    async def close(self) -> None:
        while self._idle:
            self._idle.pop().abort()
        await asyncio.sleep(0)  # One turn of the event loop closes the sockets.

    async def _connection(self, loop: asyncio.AbstractEventLoop, until: float) -> Connection:
        while self._idle:
            if not 0 <= time.time() - self._idle[-1].idle_since < FRESH_S:
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
                    lambda: Connection(loop), self._host, self._port, ssl=self._context()
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
