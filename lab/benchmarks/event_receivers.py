"""Servers with TLS that receive events, in a process of their own, for lab.benchmarks.event_chain.

Each endpoint is a port of `localhost`, with connections of its own. The data of an event has its number and the time at
which it occurred, of the machine's monotonic clock.
"""

import asyncio
import multiprocessing
import re
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from time import monotonic
from typing import Any

from tests.support.servers.tls_server import create_authority

_EVENT = re.compile(rb'"number": ?(\d+), ?"at": ?([0-9.]+)')
_OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
_NO = b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"


@dataclass
class Received:
    """What endpoints that accept have received since the last question."""

    # Number of an event → the seconds until it arrived first.
    latencies: dict[int, float] = field(default_factory=dict)
    # Messages beyond one for each event.
    repeated: int = 0
    # Endpoint → its requests, and its messages.
    requests: Counter[int] = field(default_factory=Counter)
    messages: Counter[int] = field(default_factory=Counter)
    # The time of the last message.
    last_at: float = 0.0


class _Endpoint(asyncio.Protocol):
    def __init__(self, number: int, answer: bytes, received: Callable[[], Received]) -> None:
        self._number, self._answer, self._received = number, answer, received
        self._data = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport

    def data_received(self, data: bytes) -> None:
        self._data += data
        while (end := self._data.find(b"\r\n\r\n")) >= 0:
            head = bytes(self._data[:end]).lower()
            length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
            if len(self._data) < end + 4 + length:
                return
            body = bytes(self._data[end + 4 : end + 4 + length])
            del self._data[: end + 4 + length]
            if self._answer == _OK:
                self._count(body)
            if self._answer:
                self._transport.write(self._answer)

    def _count(self, body: bytes) -> None:
        received, now = self._received(), monotonic()
        received.requests[self._number] += 1
        for number, at in _EVENT.findall(body):
            received.messages[self._number] += 1
            if int(number) in received.latencies:
                received.repeated += 1
            else:
                received.latencies[int(number)] = now - float(at)
                received.last_at = now


@dataclass(frozen=True)
class Receivers:
    ports: list[int]
    # The file of the authority that has signed their certificate.
    authority: str
    _control: Connection

    def url(self, number: int) -> str:
        return f"https://localhost:{self.ports[number]}/hook"

    def count(self) -> int:
        """Return the number of events that have arrived since the last `take`."""
        self._control.send("count")
        return int(self._control.recv())

    def take(self) -> Received:
        """Return what has arrived, and begin anew."""
        self._control.send("take")
        received: Received = self._control.recv()
        return received


@contextmanager
def receivers(folder: Path, count: int, *, hanging: int = 0, failing: int = 0) -> Iterator[Receivers]:
    """Run endpoints during the block: the first ones never answer, the next ones answer 500, and the others 200."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(folder, count, hanging, failing, theirs))
    process.start()
    try:
        authority, ports = ours.recv()
        yield Receivers(ports, authority, ours)
    finally:
        ours.send("end")
        process.join()


def _serve(folder: Path, count: int, hanging: int, failing: int, control: Connection) -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        received = Received()

        def current() -> Received:
            return received

        folder.mkdir(parents=True, exist_ok=True)
        authority = create_authority(folder)
        tls = authority.context("localhost")
        ports = []
        for number in range(count):
            answer = b"" if number < hanging else _NO if number < hanging + failing else _OK
            listener = socket.create_server(("127.0.0.1", 0))
            made = partial(_Endpoint, number, answer, current)
            await loop.create_server(made, sock=listener, ssl=tls, backlog=64)
            ports.append(listener.getsockname()[1])
        control.send((str(authority.path), ports))
        while (asked := await loop.run_in_executor(None, control.recv)) != "end":
            if asked == "count":
                control.send(len(received.latencies))
            else:
                control.send(received)
                received = Received()

    asyncio.run(run())
