"""The process that compares audiences with users, so that look-ups never wait for it."""

import multiprocessing
import os
import threading
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

from directory_state.audiences import Audiences
from directory_state.store import Store

_NICENESS = 5


class AudienceRequests(Protocol):
    def submit(self, method: str, *arguments: Any) -> Future[Any]:
        """Call a method of Audiences, after those that were submitted before."""
        ...

    def close(self) -> None: ...


class AudienceProcess:
    """Calls the methods of Audiences in a process of its own. One that has ended is replaced at the next call.

    Args:
        folder: The folder of the store.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        # The end of this pipe ends the process, even while it reads all users.
        ended, self._alive = context.Pipe(duplex=False)
        self._pool = ProcessPoolExecutor(1, context, initializer=_begin, initargs=(self._folder, ended))

    def submit(self, method: str, *arguments: Any) -> Future[Any]:
        try:
            return self._pool.submit(_call, method, *arguments)
        except BrokenProcessPool:
            self.close()
            self._start()
            return self._pool.submit(_call, method, *arguments)

    def close(self) -> None:
        self._alive.close()
        self._pool.shutdown(wait=False, cancel_futures=True)


# The audiences of the process.
_audiences: Audiences


def _begin(folder: Path, ended: Connection) -> None:
    # Look-ups and changes go before if there are fewer cores than processes.
    os.nice(_NICENESS)
    global _audiences
    _audiences = Audiences(Store(folder, writes=False))
    threading.Thread(target=_end_with, args=(ended,), daemon=True).start()


def _end_with(ended: Connection) -> None:
    """End the process when its parent closes the other end of a pipe, or is killed."""
    with suppress(EOFError):
        ended.recv()
    os._exit(0)


def _call(method: str, *arguments: Any) -> Any:
    return getattr(_audiences, method)(*arguments)
