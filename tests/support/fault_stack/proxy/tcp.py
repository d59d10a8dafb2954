"""A proxy of bytes, and the base of every proxy: connections can be cut or refused."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from local.emulators.local import LOOPBACK
from tests.support.fault_stack.proxy.faults import Action, Discarded, Fault, Request
from tests.support.fault_stack.proxy.loop import Loop

CHUNK = 65_536


class TcpProxy:
    """Forwards bytes between the clients of `port` and a port of this machine. With port 0 it uses a free port."""

    def __init__(self, loop: Loop, upstream: int, *, port: int = 0) -> None:
        self._loop = loop
        self._upstream = upstream
        self._faults: list[Fault] = []
        self._down = False
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = loop.run(self._listen(port))

    # --- commands for tests ---

    def cut(self) -> None:
        self._loop.run(self._cut())

    @contextmanager
    def down(self) -> Iterator[None]:
        """Cut every connection and accept none until the block ends."""
        self._down = True
        self.cut()
        try:
            yield
        finally:
            self._down = False

    @contextmanager
    def fault(
        self,
        action: Action,
        *,
        when: Callable[[Request], bool] = lambda _: True,
        after: int = 0,
        times: int | None = None,
    ) -> Iterator[Fault]:
        """Apply an action to the requests that `when` selects; see Fault."""
        fault = Fault(action, when, after, times)
        self._faults = [*self._faults, fault]
        try:
            yield fault
        finally:
            fault.release()
            self._faults = [other for other in self._faults if other is not fault]

    # --- in the event loop ---

    async def _listen(self, port: int) -> int:
        server = await asyncio.start_server(self._accept, LOOPBACK, port, limit=2**26)
        self._loop.keep(server)
        return int(server.sockets[0].getsockname()[1])

    async def _cut(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()
        for task in list(self._tasks):
            task.cancel()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._down:
            writer.transport.abort()
            return
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)
        upstream: asyncio.StreamWriter | None = None
        self._writers.add(writer)
        try:
            there, upstream = await asyncio.open_connection(LOOPBACK, self._upstream, limit=2**26)
            self._writers.add(upstream)
            await self._converse(reader, writer, there, upstream)
        except (OSError, asyncio.IncompleteReadError, Discarded, asyncio.CancelledError):
            # One side closed the connection, or a fault closes it.
            pass
        finally:
            for each in (writer, upstream):
                if each is not None:
                    self._writers.discard(each)
                    each.transport.abort()
            if task is not None:
                self._tasks.discard(task)

    async def _converse(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        there: asyncio.StreamReader,
        upstream: asyncio.StreamWriter,
    ) -> None:
        await both(self._pass(reader, upstream), self._pass(there, writer))

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()

    def _fault_for(self, request: Request) -> Fault | None:
        return next((fault for fault in self._faults if fault.takes(request)), None)


async def both(*works: "asyncio._CoroutineLike[None]") -> None:
    """Copy bytes in both directions until either direction ends; raise the error of either."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks, return_exceptions=True)
