"""Posts to servers that tenants named, over kept-alive connections from one event loop.

It has the guards of masscomm.channels.guarded_http: checked addresses, to which the connection is made; TLS verified
against the host's name; no redirects and no proxies; a time limit for the whole request, and a size limit for the
answer. A connection is used for EVENT_CONNECTION_S, so that the addresses of a host are resolved and checked again.
"""

import asyncio
import re
import ssl
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from random import randrange
from typing import NamedTuple

from masscomm.aws.async_http import FRESH_S, Connection
from masscomm.aws.http_answer import AnswerLost, AnswerReader
from masscomm.channels.guarded_http import (
    MAX_BODY_BYTES,
    MAX_RESPONSE_BYTES,
    Answer,
    ClientCertificate,
    NoAnswer,
    failed_connection,
    request_of,
    tls_context,
)
from masscomm.channels.public_urls import Resolve, Target, checked, public_addresses
from masscomm.domain.time_limits import EVENT_CONNECTION_S
from masscomm.errors import Retry

# The idle connections that are kept. With those in use, they are far below Lambda's limit of 1,024 file descriptors.
MAX_IDLE = 640
# The settings of TLS that are kept, one for each client certificate. Each has all authorities: a megabyte.
MAX_CONTEXTS = 33
_RETRY_AFTER = re.compile(rb"\r\nretry-after[ \t]*:[ \t]*([^\r\n]*)", re.IGNORECASE)


class _Server(NamedTuple):
    """A server to which requests of one client share connections."""

    scheme: str
    host: str
    port: int
    # The id of the client's certificate; "": it has none.
    client: str


@dataclass(frozen=True)
class _Kept:
    """An idle connection."""

    connection: Connection
    made_at: float


@dataclass(frozen=True, kw_only=True)
class _Exchange:
    """A request, and the limits of its answer."""

    request: bytes
    # On the clock of the event loop.
    deadline: float
    timeout_s: float
    most_bytes: int


@dataclass(kw_only=True)
class KeptAliveHttp:
    """Posts to checked servers. An instance belongs to one event loop."""

    # Whether servers on this machine are permitted, even without TLS.
    loopback: bool = False
    resolve: Resolve | None = None
    # A file with further certificate authorities, for tests.
    authorities: str | None = None
    # Idle connections by their server.
    _idle: dict[_Server, list[_Kept]] = field(default_factory=dict)
    _idle_count: int = 0
    # The settings of TLS by the id of the client's certificate, the one that was used last at the end.
    _contexts: OrderedDict[str, ssl.SSLContext] = field(default_factory=OrderedDict)

    async def post(
        self,
        url: str,
        *,
        body: bytes,
        headers: Mapping[str, str],
        timeout_s: float,
        client: ClientCertificate | None = None,
        most_bytes: int = MAX_BODY_BYTES,
    ) -> Answer:
        """Post a body and return the answer, whatever its status is.

        Args:
            url: The address.
            body: The body.
            headers: The headers.
            timeout_s: The time limit of the request, name resolution included.
            client: The certificate that the server may ask for.
            most_bytes: The bytes of the answer's body that are returned.

        Raises:
            UrlRefused: The URL must not be called.
            NoAnswer: There was no answer in time, or none that is HTTP.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        target = checked(url, loopback=self.loopback)
        # guard: kept_alive_http.connections_of_a_client
        server = _Server(target.scheme, target.host, target.port, "" if client is None else client.id)
        exchange = _Exchange(
            request=request_of(target, body, headers),
            deadline=deadline,
            timeout_s=timeout_s,
            most_bytes=most_bytes,
        )
        kept = await self._taken(server)
        if kept is not None:
            reader = AnswerReader(MAX_RESPONSE_BYTES)
            try:
                return await self._exchanged(server, kept, exchange, reader)
            except NoAnswer:
                # The server ended the idle connection meanwhile. The receiver recognises a repetition by its id.
                if reader.status or loop.time() >= deadline:
                    raise
        made = await self._connected(loop, target, deadline, timeout_s, client)
        return await self._exchanged(server, made, exchange, AnswerReader(MAX_RESPONSE_BYTES))

    async def close(self) -> None:
        """Close the idle connections."""
        for several in self._idle.values():
            for kept in several:
                kept.connection.abort()
        self._idle.clear()
        self._idle_count = 0
        await asyncio.sleep(0)  # One turn of the event loop closes the sockets.

    async def _exchanged(self, server: _Server, kept: _Kept, exchange: _Exchange, reader: AnswerReader) -> Answer:
        try:
            await kept.connection.exchange(exchange.request, exchange.deadline, reader)
        except AnswerLost as error:
            if not reader.head:
                late = asyncio.get_running_loop().time() >= exchange.deadline
                raise NoAnswer(_late(exchange.timeout_s) if late else "the connection failed") from error
            # The status is known, and decides; the rest of the body is too large, late or malformed.
        if kept.connection.is_usable:
            self._keep(server, kept)
        found = _RETRY_AFTER.search(reader.head)
        return Answer(
            status=reader.status,
            retry_after=None if found is None else found[1].decode("latin-1").strip(),
            body=reader.body[: exchange.most_bytes].decode(errors="replace"),
        )

    async def _taken(self, key: _Server) -> _Kept | None:
        """Return an idle connection to a server; None if there is none."""
        if key not in self._idle:
            return None
        if time.time() - self._idle[key][-1].connection.idle_since >= FRESH_S:
            # Let the event loop read what servers have sent meanwhile, such as the end of a connection.
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        while several := self._idle.get(key):
            kept = several.pop()
            self._idle_count -= 1
            if not several:
                del self._idle[key]
            if kept.connection.is_usable and 0 <= time.time() - kept.made_at < EVENT_CONNECTION_S:
                return kept
            kept.connection.abort()
        return None

    def _keep(self, key: _Server, kept: _Kept) -> None:
        self._idle.setdefault(key, []).append(kept)
        self._idle_count += 1
        while self._idle_count > MAX_IDLE:  # guard: kept_alive_http.idle_connections
            # Any of them: the oldest one is the next to be used if endpoints get messages in turn.
            chosen = next(islice(self._idle, randrange(len(self._idle)), None))  # noqa: S311 - not for security
            several = self._idle[chosen]
            several.pop(0).connection.abort()
            self._idle_count -= 1
            if not several:
                del self._idle[chosen]

    async def _connected(
        self,
        loop: asyncio.AbstractEventLoop,
        target: Target,
        deadline: float,
        timeout_s: float,
        client: ClientCertificate | None,
    ) -> _Kept:
        """Return a connection to the first address that accepts one, with TLS for the host's name. Raises UrlRefused or
        NoAnswer.
        """
        try:
            async with asyncio.timeout_at(deadline):
                addresses = await self._addresses(loop, target)
                return _Kept(await self._first(loop, target, addresses, client), time.time())
        except TimeoutError as error:
            raise NoAnswer(_late(timeout_s)) from error
        except OSError as error:
            raise failed_connection(error) from error

    async def _addresses(self, loop: asyncio.AbstractEventLoop, target: Target) -> Sequence[str]:
        """Return the checked addresses. The resolver of the operating system has no time limit: it runs in a thread."""
        try:
            return await loop.run_in_executor(
                None, lambda: public_addresses(target, resolve=self.resolve, loopback=self.loopback)
            )
        except Retry as error:
            raise NoAnswer(str(error)) from error

    async def _first(
        self,
        loop: asyncio.AbstractEventLoop,
        target: Target,
        addresses: Sequence[str],
        client: ClientCertificate | None,
    ) -> Connection:
        error: OSError = ConnectionError("no address")
        tls = self._tls(client) if target.scheme == "https" else None
        for address in addresses:
            try:
                # The address is numeric: nothing is resolved again.
                _, made = await loop.create_connection(
                    lambda: Connection(loop),
                    address,
                    target.port,
                    ssl=tls,
                    server_hostname=target.host if tls is not None else None,
                )
            except ssl.SSLError:
                raise
            except OSError as failed:
                error = failed
                continue
            return made
        raise error

    def _tls(self, client: ClientCertificate | None) -> ssl.SSLContext:
        """Return the settings of TLS. Raises NoAnswer for a certificate that cannot be used."""
        id_ = "" if client is None else client.id
        if id_ not in self._contexts:
            self._contexts[id_] = tls_context(self.authorities, client)
        self._contexts.move_to_end(id_)
        if len(self._contexts) > MAX_CONTEXTS:  # guard: kept_alive_http.contexts
            self._contexts.popitem(last=False)
        return self._contexts[id_]


def _late(timeout_s: float) -> str:
    return f"no answer within {timeout_s:g} s"
