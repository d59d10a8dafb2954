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
from functools import cached_property

from masscomm.aws.async_http import FRESH_S, Connection
from masscomm.aws.http_answer import AnswerLost, AnswerReader
from masscomm.channels.guarded_http import (
    MAX_BODY_BYTES,
    MAX_RESPONSE_BYTES,
    Answer,
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
_RETRY_AFTER = re.compile(rb"\r\nretry-after[ \t]*:[ \t]*([^\r\n]*)", re.IGNORECASE)


@dataclass(frozen=True)
class _Kept:
    """An idle connection."""

    connection: Connection
    made_at: float


@dataclass(kw_only=True)
class KeptAliveHttp:
    """Posts to checked servers. An instance belongs to one event loop."""

    # Whether servers on this machine are permitted, even without TLS.
    loopback: bool = False
    resolve: Resolve | None = None
    # A file with further certificate authorities, for tests.
    authorities: str | None = None
    # Idle connections by their server, the one that was used last at the end.
    _idle: OrderedDict[tuple[str, str, int], list[_Kept]] = field(default_factory=OrderedDict)
    _idle_count: int = 0

    async def post(self, url: str, *, body: bytes, headers: Mapping[str, str], timeout_s: float) -> Answer:
        """Post a body and return the answer, whatever its status is.

        Args:
            url: The address.
            body: The body.
            headers: The headers.
            timeout_s: The time limit of the request, name resolution included.

        Raises:
            UrlRefused: The URL must not be called.
            NoAnswer: There was no answer in time, or none that is HTTP.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        target = checked(url, loopback=self.loopback)
        request = request_of(target, body, headers, connection="keep-alive")
        kept = await self._taken(target)
        if kept is not None:
            reader = AnswerReader(MAX_RESPONSE_BYTES)
            try:
                return await self._exchanged(target, kept, request, deadline, reader, timeout_s)
            except NoAnswer:
                # The server ended the idle connection meanwhile. The receiver recognises a repetition by its id.
                if reader.status or loop.time() >= deadline:
                    raise
        made = await self._connected(loop, target, deadline, timeout_s)
        return await self._exchanged(target, made, request, deadline, AnswerReader(MAX_RESPONSE_BYTES), timeout_s)

    async def close(self) -> None:
        """Close the idle connections."""
        for several in self._idle.values():
            for kept in several:
                kept.connection.abort()
        self._idle.clear()
        self._idle_count = 0
        await asyncio.sleep(0)  # One turn of the event loop closes the sockets.

    async def _exchanged(
        self, target: Target, kept: _Kept, request: bytes, deadline: float, reader: AnswerReader, timeout_s: float
    ) -> Answer:
        try:
            await kept.connection.exchange(request, deadline, reader)
        except AnswerLost as error:
            if not reader.head:
                late = asyncio.get_running_loop().time() >= deadline
                raise NoAnswer(_late(timeout_s) if late else "the connection failed") from error
            # The status is known, and decides; the rest of the body is too large, late or malformed.
        if kept.connection.is_usable:
            self._keep(target, kept)
        found = _RETRY_AFTER.search(reader.head)
        return Answer(
            status=reader.status,
            retry_after=None if found is None else found[1].decode("latin-1").strip(),
            body=reader.body[:MAX_BODY_BYTES].decode(errors="replace"),
        )

    async def _taken(self, target: Target) -> _Kept | None:
        """Return an idle connection to a server; None if there is none."""
        key = (target.scheme, target.host, target.port)
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

    def _keep(self, target: Target, kept: _Kept) -> None:
        key = (target.scheme, target.host, target.port)
        self._idle.setdefault(key, []).append(kept)
        self._idle.move_to_end(key)
        self._idle_count += 1
        while self._idle_count > MAX_IDLE:  # guard: kept_alive_http.idle_connections
            oldest = next(iter(self._idle))
            several = self._idle[oldest]
            several.pop(0).connection.abort()
            self._idle_count -= 1
            if not several:
                del self._idle[oldest]

    async def _connected(
        self, loop: asyncio.AbstractEventLoop, target: Target, deadline: float, timeout_s: float
    ) -> _Kept:
        """Return a connection to the first address that accepts one, with TLS for the host's name. Raises UrlRefused or
        NoAnswer.
        """
        try:
            async with asyncio.timeout_at(deadline):
                addresses = await self._addresses(loop, target)
                return _Kept(await self._first(loop, target, addresses), time.time())
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

    async def _first(self, loop: asyncio.AbstractEventLoop, target: Target, addresses: Sequence[str]) -> Connection:
        error: OSError = ConnectionError("no address")
        tls = self._tls if target.scheme == "https" else None
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

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return tls_context(self.authorities)


def _late(timeout_s: float) -> str:
    return f"no answer within {timeout_s:g} s"
