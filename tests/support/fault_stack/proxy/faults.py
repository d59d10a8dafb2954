"""What can be done to a request on its way, and to which."""

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request as a proxy sees it.

    what: "PUT /index/_doc/1" over HTTP, the API key of Kafka's protocol; target: X-Amz-Target, where there is one.
    """

    what: str
    target: str
    body: bytes


@dataclass(frozen=True)
class Delay:
    """It goes on after so many seconds."""

    seconds: float


@dataclass(frozen=True)
class Hold:
    """It stands still until the fault ends or is released; it never arrives where the fault is discarded."""


@dataclass(frozen=True)
class Cut:
    """The connection is cut before it arrives."""


@dataclass(frozen=True)
class DropAnswer:
    """It arrives, and the connection is cut instead of the answer."""


@dataclass(frozen=True)
class HoldAnswer:
    """It arrives, and the answer stands still until the fault ends, is released, or discarded: then it is cut."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """It never arrives; this is answered. HTTP only."""

    status: int
    body: bytes
    kind: str = "application/json"


@dataclass(frozen=True)
class Edit:
    """It arrives, and what is answered is changed. HTTP only."""

    change: Callable[[bytes], bytes]


type Action = Delay | Hold | Cut | DropAnswer | HoldAnswer | Answer | Edit


class Discarded(Exception):
    """What was held is not to go on: the connection is cut."""


@dataclass
class Fault:
    """An action and the requests it is done to; read in the proxies' loop, commanded by a test's thread.

    after: how many requests pass first; times: to how many it is done, to all where it is None.
    """

    action: Action
    when: Callable[[Request], bool]
    after: int = 0
    times: int | None = None
    seen: int = 0
    hits: int = 0
    _over: threading.Event = field(default_factory=threading.Event)
    _discarded: bool = False
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def takes(self, request: Request) -> bool:
        """Whether it is done to this request."""
        if self._over.is_set() or not self.when(request):
            return False
        self.seen += 1
        if self.seen <= self.after or (self.times is not None and self.hits >= self.times):
            return False
        with self._changed:
            self.hits += 1
            self._changed.notify_all()
        return True

    def await_hits(self, count: int = 1, timeout_s: float = 60.0) -> None:
        """Wait until it was done to so many requests. Errors: TimeoutError."""
        until = time.monotonic() + timeout_s
        with self._changed:
            if not self._changed.wait_for(lambda: self.hits >= count, until - time.monotonic()):
                raise TimeoutError(f"{type(self.action).__name__}: done to {self.hits} requests instead of {count}")

    def release(self) -> None:
        """It is over: what it held goes on."""
        self._over.set()

    def discard(self) -> None:
        """It is over: what it held never goes on."""
        self._discarded = True
        self._over.set()

    async def held(self) -> None:
        """Wait in the loop until it is over. Errors: Discarded."""
        while not self._over.is_set():
            await asyncio.sleep(0.005)  # commanded by a thread
        if self._discarded:
            raise Discarded
