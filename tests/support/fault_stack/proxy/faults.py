"""The actions of a proxy during a fault, and the requests to which they apply."""

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request as a proxy reads it.

    Attributes:
        operation: The request line such as "PUT /index/_doc/1" in HTTP, or the API key in Kafka's protocol.
        target: The header X-Amz-Target, if present.
    """

    operation: str
    target: str
    body: bytes


@dataclass(frozen=True)
class Delay:
    seconds: float


@dataclass(frozen=True)
class Hold:
    """The request waits until the fault ends or is released; if the fault is discarded, it never arrives."""


@dataclass(frozen=True)
class Cut:
    """The connection is cut before the request arrives."""


@dataclass(frozen=True)
class DropAnswer:
    """The request arrives, and the connection is cut instead of the response."""


@dataclass(frozen=True)
class HoldAnswer:
    """The request arrives; its response waits until the fault ends or is released, and is cut if it is discarded."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The request never arrives; the proxy returns this response. HTTP only."""

    status: int
    body: bytes
    kind: str = "application/json"


@dataclass(frozen=True)
class Edit:
    """The request arrives, and its response is changed. HTTP only."""

    change: Callable[[bytes], bytes]


type Action = Delay | Hold | Cut | DropAnswer | HoldAnswer | Answer | Edit


class Discarded(Exception):
    """A held request is discarded: its connection is cut."""


@dataclass
class Fault:
    """An action and the requests to which it applies, shared by the proxies' event loop and the test's thread.

    Attributes:
        after: The number of requests that pass unchanged first.
        times: The number of requests to which the fault applies; None: all.
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
        """Return whether the fault applies to this request, and count the request."""
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
        """Wait until the fault has affected this many requests. Raises TimeoutError."""
        until = time.monotonic() + timeout_s
        with self._changed:
            if not self._changed.wait_for(lambda: self.hits >= count, until - time.monotonic()):
                raise TimeoutError(f"{type(self.action).__name__}: done to {self.hits} requests instead of {count}")

    def release(self) -> None:
        """End the fault; held requests continue."""
        self._over.set()

    def discard(self) -> None:
        """End the fault; held requests are cut."""
        self._discarded = True
        self._over.set()

    async def held(self) -> None:
        """Wait in the event loop until the fault ends. Raises Discarded."""
        while not self._over.is_set():
            await asyncio.sleep(0.005)  # polled, because another thread changes the state
        if self._discarded:
            raise Discarded
