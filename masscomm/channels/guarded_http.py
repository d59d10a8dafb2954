"""Posts to a server that a tenant named: one request within a time limit, to checked addresses only.

The addresses are resolved and checked once (masscomm.channels.public_urls), and the connection is made to one of them,
with TLS verified against the host's name. Redirects are not followed, proxies of the environment are not used, and
response headers and body are read up to a limit, without decompression.
"""

import http.client
import io
import os
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from threading import Thread
from typing import Any, cast

from masscomm.channels.public_urls import Resolve, Target, checked, public_addresses
from masscomm.errors import Retry

# The largest response that is read: its status line, headers and body.
MAX_RESPONSE_BYTES = 65_536
# The part of the body that is returned.
MAX_BODY_BYTES = 1_024


class NoAnswer(Exception):
    """The server did not answer. The message is a short reason for the tenant."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    status: int
    # The header Retry-After as sent; None without it.
    retry_after: str | None
    # The beginning of the body; bytes that are not UTF-8 are replaced.
    body: str


@dataclass(frozen=True, kw_only=True)
class GuardedHttp:
    """Posts to checked servers. Thread-safe."""

    # The time limit of one request, name resolution included.
    timeout_s: float
    # Whether servers on this machine are permitted, even without TLS.
    loopback: bool = False
    resolve: Resolve | None = None
    # A file with further certificate authorities, for tests.
    authorities: str | None = None
    monotonic: Callable[[], float] = field(default=time.monotonic)

    def post(self, url: str, *, body: bytes, headers: Mapping[str, str]) -> Answer:
        """Post a body and return the answer, whatever its status is.

        Raises:
            UrlRefused: The URL must not be called.
            NoAnswer: There was no answer in time, or none that is HTTP.
        """
        deadline = self.monotonic() + self.timeout_s
        target = checked(url, loopback=self.loopback)
        addresses = self._addresses(target, deadline)
        try:
            with self._connected(target, addresses, deadline) as connection:
                connection.settimeout(self._left(deadline))
                connection.sendall(request_of(target, body, headers, connection="close"))
                return self._answer(connection, deadline)
        except TimeoutError as error:
            raise NoAnswer(f"no answer within {self.timeout_s:g} s") from error
        except http.client.HTTPException as error:
            raise NoAnswer("the answer is no HTTP response, or too large") from error
        except OSError as error:
            raise failed_connection(error) from error

    def _addresses(self, target: Target, deadline: float) -> Sequence[str]:
        """Return the checked addresses. The resolver of the operating system has no time limit, so that its thread may
        outlive the request.
        """
        found: Future[Sequence[str]] = Future()

        def look_up() -> None:
            try:
                found.set_result(public_addresses(target, resolve=self.resolve, loopback=self.loopback))
            except BaseException as error:  # The caller gets the error.
                found.set_exception(error)

        Thread(target=look_up, name="resolve", daemon=True).start()
        try:
            return found.result(timeout=self._left(deadline))
        except TimeoutError as error:
            raise NoAnswer("the host name was not resolved in time") from error
        except Retry as error:
            raise NoAnswer(str(error)) from error

    def _connected(self, target: Target, addresses: Sequence[str], deadline: float) -> socket.socket:
        """Return a connection to the first address that accepts one, with TLS for the host's name."""
        error: OSError = ConnectionError("no address")
        for address in addresses:
            try:
                # The address is numeric: nothing is resolved again.
                plain = socket.create_connection((address, target.port), timeout=self._left(deadline))
            except TimeoutError:
                raise
            except OSError as failed:
                error = failed
                continue
            try:
                plain.settimeout(self._left(deadline))
                if target.scheme == "http":
                    return plain
                return self._tls.wrap_socket(plain, server_hostname=target.host)
            except BaseException:
                plain.close()
                raise
        raise error

    def _answer(self, connection: socket.socket, deadline: float) -> Answer:
        reading = _Reading(connection, lambda: self._left(deadline))
        response = _begun(reading)
        # Informational responses, such as 103 Early Hints, precede the response.
        while response.status < http.HTTPStatus.OK:  # guard: guarded_http.informational
            response = _begun(reading)
        try:
            body = response.read(MAX_BODY_BYTES)
        except (OSError, http.client.HTTPException):
            body = b""  # The status is known, and decides.
        return Answer(
            status=response.status,
            retry_after=response.getheader("retry-after"),
            body=body.decode(errors="replace"),
        )

    def _left(self, deadline: float) -> float:
        """Return the seconds until the deadline. Raises TimeoutError."""
        left = deadline - self.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return tls_context(self.authorities)


class _Reading(io.RawIOBase):
    """Reads a response within the time limit and the size limit. http.client takes it for the connection."""

    def __init__(self, connection: socket.socket, left: Callable[[], float]) -> None:
        self._connection, self._left, self._size = connection, left, 0

    def makefile(self, _mode: str) -> io.BufferedReader:
        return self._responses

    @cached_property
    def _responses(self) -> io.BufferedReader:
        """Return the stream of all responses: bytes that are read beyond one belong to the next."""
        return _Unclosed(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        # A server that sends a byte at a time does not extend the time limit.
        self._connection.settimeout(self._left())  # guard: guarded_http.time_limit
        received = self._connection.recv_into(buffer)
        self._size += received
        if self._size > MAX_RESPONSE_BYTES:  # guard: guarded_http.response_size
            raise http.client.HTTPException("the response is too large")
        return received


class _Unclosed(io.BufferedReader):
    """A stream that an object of http.client leaves open for the next response."""

    def close(self) -> None:
        """Do nothing: the connection is closed by its owner."""


def _begun(reading: _Reading) -> http.client.HTTPResponse:
    """Return the next response, whose body is not read. Raises http.client.HTTPException or OSError."""
    response = http.client.HTTPResponse(cast("socket.socket", reading), method="POST")
    response.begin()
    return response


@dataclass(frozen=True, kw_only=True)
class ClientCertificate:
    """A certificate with which a client authenticates itself."""

    # Identifies the certificate and its owner: connections are shared only with the same id.
    id: str
    # The certificate, followed by those of its authorities, and the private key without a password, in PEM.
    certificate: str
    private_key: str = field(repr=False)


def tls_context(authorities: str | None, client: ClientCertificate | None = None) -> ssl.SSLContext:
    """Return the settings of TLS to a server that a tenant named.

    Args:
        authorities: A file with further certificate authorities.
        client: The certificate of the client.

    Raises:
        NoAnswer: The certificate of the client cannot be used.
    """
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if authorities is not None:
        context.load_verify_locations(authorities)
    if client is not None:
        with _readable(client.certificate) as certificate, _readable(client.private_key) as private_key:
            try:
                # Without a password, one would be asked for at the terminal.
                context.load_cert_chain(certificate, private_key, password="")
            except OSError as error:  # ssl.SSLError, or that a pipe cannot be read twice
                raise NoAnswer("the client certificate cannot be used") from error
    return context


@contextmanager
def _readable(text: str) -> Iterator[str]:
    """Yield a path from which a text of up to 16 kB is read once. It is a pipe: no disk gets the text."""
    reading, writing = os.pipe()
    try:
        with os.fdopen(writing, "w") as pipe:
            pipe.write(text)
        yield f"/dev/fd/{reading}"
    finally:
        os.close(reading)


def failed_connection(error: OSError) -> NoAnswer:
    """Return the reason for the tenant why a connection failed."""
    match error:
        case ssl.SSLCertVerificationError():
            return NoAnswer(f"the certificate is not valid: {error.verify_message}")
        case ssl.SSLError():
            return NoAnswer("TLS failed")
    return NoAnswer("the connection failed")


def request_of(target: Target, body: bytes, headers: Mapping[str, str], *, connection: str) -> bytes:
    """Return a POST request. `connection` is the value of the header Connection."""
    fields = {
        "host": target.authority,
        "content-length": str(len(body)),
        "accept-encoding": "identity",
        "connection": connection,
        **headers,
    }
    lines = [f"POST {target.path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
    return "\r\n".join((*lines, "", "")).encode("latin-1") + body
