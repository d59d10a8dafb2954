"""HTTP calls over urllib3 with a deadline that also covers name resolution and slow responses.

urllib3's time-outs limit single socket operations: a response that arrives at one byte per second never exceeds them.
They also do not cover name resolution, which can wait for more than ten seconds for a DNS server that does not respond.
This module runs one thread per pool. It shuts down the socket of each call whose deadline has passed, and the thread
that makes the call then gets an error.
"""

import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from typing import Any

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NameResolutionError, NewConnectionError, ReadTimeoutError

from masscomm.aws.name_resolution import addresses


class _Call(threading.local):
    """Holds the current call of each thread; None if the thread makes no call."""

    now: "Call | None" = None


_THREAD = _Call()


class Call:
    """One HTTP call and its deadline, in seconds of the monotonic clock."""

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self.is_expired = False
        self._socket: socket.socket | None = None
        self._is_done = False
        self._lock = threading.Lock()

    def uses(self, connected: socket.socket) -> None:
        """Set the socket that is shut down at the deadline. It is kept here, because the connection drops its own
        reference before the response is complete.
        """
        self._socket = connected

    def done(self) -> None:
        """Mark the call as ended. Its socket may now belong to another call and must not be shut down."""
        with self._lock:
            self._is_done, self._socket = True, None

    def expire_at_deadline(self) -> None:
        """Shut down the call's socket at the deadline, unless the call has ended earlier."""
        while not self._is_done and (remaining := self.deadline - time.monotonic()) > 0:
            time.sleep(remaining)
        with self._lock:
            if self._is_done:
                return
            self.is_expired = True
            if self._socket is not None:
                # Shutting down the TLS layer from another thread is not safe; shutting down the plain socket is.
                with suppress(OSError):
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)  # guard: aws_requests.call_deadline


class _Bounded(HTTPConnection):
    """A connection that resolves the host name, connects and finishes the TLS handshake within its connect time-out."""

    def _new_conn(self) -> socket.socket:
        connect_s = self.timeout if isinstance(self.timeout, int | float) else 10.0
        until = time.monotonic() + connect_s
        try:
            found = addresses(self._dns_host, self.port or self.default_port, connect_s)
        except TimeoutError as error:
            raise ConnectTimeoutError(self, str(error)) from error
        except socket.gaierror as error:
            raise NameResolutionError(self.host, self, error) from error
        except OSError as error:
            raise NewConnectionError(self, str(error)) from error
        failed: OSError | None = None
        for family, kind, protocol, _name, address in found:
            made = socket.socket(family, kind, protocol)
            try:
                for option in self.socket_options or ():
                    made.setsockopt(*option)
                made.settimeout(max(0.001, until - time.monotonic()))
                made.connect(address)
                # Limit the TLS handshake to the remaining time.
                made.settimeout(max(0.001, until - time.monotonic()))
            except OSError as refused:
                made.close()
                failed = refused
            else:
                return made
        if isinstance(failed, TimeoutError):
            raise ConnectTimeoutError(self, f"no connection to {self.host} within {connect_s} s") from failed
        raise NewConnectionError(self, f"no connection to {self.host}: {failed}") from failed

    def connect(self) -> None:
        """Open the connection. Afterwards the call's deadline interrupts sending and receiving."""
        try:
            super().connect()
        except TimeoutError as error:
            raise ConnectTimeoutError(self, f"no TLS handshake with {self.host} in time") from error
        self._be_watched()

    def request(self, *args: Any, **kwargs: Any) -> None:
        """Send the request.

        Raises:
            ConnectTimeoutError: the call's deadline has passed; nothing was sent.
        """
        self._be_watched()
        super().request(*args, **kwargs)

    def _be_watched(self) -> None:
        call = _THREAD.now
        if call is None:
            return
        if self.sock is not None:
            call.uses(self.sock)
        if call.is_expired or call.deadline < time.monotonic():
            self.close()
            raise ConnectTimeoutError(self, "the call's time was over before the request was sent")


class _BoundedTls(_Bounded, HTTPSConnection):
    pass


class _Pool(urllib3.HTTPConnectionPool):
    ConnectionCls = _Bounded


class _TlsPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _BoundedTls


class BoundedCalls:
    """Makes HTTP calls that each end within `total_s` seconds, connecting included. Thread-safe.

    Args:
        total_s: The time limit of a call in seconds.
        options: The options of urllib3.PoolManager.
    """

    def __init__(self, total_s: float, **options: Any) -> None:
        self._total_s = total_s
        self._pools = urllib3.PoolManager(**options)
        self._pools.pool_classes_by_scheme = {"http": _Pool, "https": _TlsPool}
        # The calls in the order of their starts, which is nearly that of their deadlines, because all calls have the
        # same time limit.
        self._calls: SimpleQueue[Call] = SimpleQueue()
        self._watching = threading.Lock()
        self._watcher: threading.Thread | None = None

    @contextmanager
    def call(self, until: float | None = None) -> Iterator[None]:
        """Make one call inside this context; its time limit starts when the context is entered.

        Args:
            until: The call's deadline in seconds of the monotonic clock, in place of the time limit.

        Raises:
            ReadTimeoutError: The deadline passed before the response was complete.
        """
        call = Call(time.monotonic() + self._total_s if until is None else until)
        self._watch(call)
        _THREAD.now = call
        try:
            yield
        except HTTPError as error:
            if call.is_expired and not isinstance(error, ConnectTimeoutError | NewConnectionError):
                raise self._too_slow() from error
            raise
        finally:
            _THREAD.now = None
            call.done()
        # A response without a length ends with its connection: the shutdown at the deadline may have truncated it.
        if call.is_expired:
            raise self._too_slow()

    def urlopen(
        self, method: str, url: str, *, body: bytes | None, headers: Mapping[str, str]
    ) -> urllib3.BaseHTTPResponse:
        """Send a request, read the whole response and return it.

        Raises:
            HTTPError: urllib3's error for any failure without a response.
        """
        return self._pools.urlopen(method, url, body=body, headers=headers, redirect=False)

    def close(self) -> None:
        """Close the idle connections."""
        self._pools.clear()

    def _watch(self, call: Call) -> None:
        self._calls.put(call)
        if self._watcher is None:
            with self._watching:
                if self._watcher is None:
                    self._watcher = threading.Thread(target=_watch_all, args=(self._calls,), daemon=True)
                    self._watcher.start()

    def _too_slow(self) -> ReadTimeoutError:
        pool: Any = None
        return ReadTimeoutError(pool, "", f"no whole answer within {self._total_s} s")


def _watch_all(calls: "SimpleQueue[Call]") -> None:
    while True:
        calls.get().expire_at_deadline()
