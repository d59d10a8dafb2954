"""Requests to servers that a tenant named, against real TLS servers on this machine."""

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count

import pytest

from masscomm.channels.guarded_http import MAX_BODY_BYTES, MAX_RESPONSE_BYTES, Answer, GuardedHttp, NoAnswer
from masscomm.channels.public_urls import UrlRefused
from tests.support.servers.tls_server import Authority, TlsServer, create_authority, tls_servers

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return create_authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def serving(authority: Authority) -> Iterator[Callable[..., TlsServer]]:
    with tls_servers(authority) as start:
        yield start


def replying(content: bytes) -> Callable[[ssl.SSLSocket, bytes], None]:
    return lambda connection, _: connection.sendall(content)


def post(
    server: TlsServer,
    authority: Authority,
    *,
    host: str = "localhost",
    timeout_s: float = 10,
    monotonic: Callable[[], float] = time.monotonic,
) -> Answer:
    http = GuardedHttp(
        timeout_s=timeout_s,
        monotonic=monotonic,
        loopback=True,
        resolve=lambda *_: ["127.0.0.1"],
        authorities=str(authority.path),
    )
    url = f"https://{host}:{server.port}/hook?club=7"
    return http.post(url, body=b'{"a":1}', headers={"content-type": "application/json", "webhook-id": "evt_1"})


def test_a_body_is_posted_with_its_headers(serving: Callable[..., TlsServer], authority: Authority) -> None:
    server = serving(answer=replying(OK))
    assert post(server, authority) == Answer(status=200, retry_after=None, body="ok")
    (received,) = server.received
    head, _, body = received.decode().partition("\r\n\r\n")
    assert head.split("\r\n") == [
        "POST /hook?club=7 HTTP/1.1",
        f"host: localhost:{server.port}",
        "content-length: 7",
        "accept-encoding: identity",
        "connection: close",
        "content-type: application/json",
        "webhook-id: evt_1",
    ]
    assert body == '{"a":1}'


@pytest.mark.kills(guard="guarded_http.informational")
@pytest.mark.parametrize("status", ["100 Continue", "102 Processing", "103 Early Hints"])
def test_informational_responses_are_not_the_answer(
    serving: Callable[..., TlsServer], authority: Authority, status: str
) -> None:
    """RFC 9110, 15.2: a client must parse them, although it did not ask for them."""
    informational = f"HTTP/1.1 {status}\r\nlink: </style.css>; rel=preload\r\n\r\n".encode()
    server = serving(answer=replying(informational * 2 + OK))
    assert post(server, authority) == Answer(status=200, retry_after=None, body="ok")


@pytest.mark.guarantee("webhooks.public_servers_only")
def test_redirects_are_not_followed(serving: Callable[..., TlsServer], authority: Authority) -> None:
    other = serving(answer=replying(OK))
    location = f"HTTP/1.1 307 Moved\r\nlocation: https://localhost:{other.port}/\r\nretry-after: 7\r\n\r\n".encode()
    assert post(serving(answer=replying(location)), authority) == Answer(status=307, retry_after="7", body="")
    assert other.handshakes == 0


@pytest.mark.guarantee("webhooks.public_servers_only")
def test_the_host_is_resolved_once(serving: Callable[..., TlsServer], authority: Authority) -> None:
    """DNS rebinding: a second resolution would have another address."""
    server, asked = serving(answer=replying(OK)), []

    def resolve(host: str, port: int) -> list[str]:
        asked.append((host, port))
        return ["127.0.0.1"] if len(asked) == 1 else ["127.0.0.2"]

    http = GuardedHttp(timeout_s=10, loopback=True, resolve=resolve, authorities=str(authority.path))
    assert http.post(f"https://localhost:{server.port}/", body=b"", headers={}).status == 200
    assert asked == [("localhost", server.port)]


def test_a_server_that_is_not_public_is_not_connected(serving: Callable[..., TlsServer], authority: Authority) -> None:
    server = serving(answer=replying(OK))
    http = GuardedHttp(timeout_s=10, resolve=lambda *_: ["127.0.0.1"], authorities=str(authority.path))
    with pytest.raises(UrlRefused):
        http.post(f"https://localhost:{server.port}/", body=b"", headers={})
    assert server.handshakes == 0


def test_another_hosts_certificate_is_refused(serving: Callable[..., TlsServer], authority: Authority) -> None:
    server = serving(answer=replying(OK))
    with pytest.raises(NoAnswer, match="certificate is not valid"):
        post(server, authority, host="hooks.example.org")
    assert server.received == []
    unknown = GuardedHttp(timeout_s=10, loopback=True)
    with pytest.raises(NoAnswer, match="certificate is not valid"):
        unknown.post(f"https://localhost:{server.port}/", body=b"", headers={})


@pytest.mark.kills(guard="guarded_http.time_limit")
def test_a_server_that_drips_does_not_extend_the_limit(serving: Callable[..., TlsServer], authority: Authority) -> None:
    """Each read is fast, and the clock advances with each: the limit is that of the whole request."""

    def drip(connection: ssl.SSLSocket, _: bytes) -> None:
        with suppress(OSError):
            while True:
                connection.sendall(b"H")

    with pytest.raises(NoAnswer, match="within 60 s"):
        post(serving(answer=drip), authority, timeout_s=60, monotonic=count(0, 0.5).__next__)


@pytest.mark.parametrize("silent", ["before", "after"])
def test_a_silent_server_ends_with_the_time_limit(
    serving: Callable[..., TlsServer], authority: Authority, silent: str
) -> None:
    ended = threading.Event()
    server = serving(answer=lambda *_: ended.wait(30))
    if silent == "before":
        listening = socket.create_server(("127.0.0.1", 0))  # accepts no connection, so that the handshake hangs
        server = TlsServer(server.context, listening)
    with pytest.raises(NoAnswer, match=r"within 0\.3 s"):
        post(server, authority, timeout_s=0.3)
    ended.set()
    server.listening.close()


def test_a_hanging_resolver_ends_with_the_time_limit() -> None:
    ended = threading.Event()
    http = GuardedHttp(timeout_s=0.1, resolve=lambda *_: [str(ended.wait(30))])
    with pytest.raises(NoAnswer, match="not resolved in time"):
        http.post("https://hooks.example.org/", body=b"", headers={})
    ended.set()


@pytest.mark.kills(guard="guarded_http.response_size")
@pytest.mark.parametrize("line", [b"x: " + b"y" * 1_000 + b"\r\n", b""])
def test_response_headers_are_bounded(serving: Callable[..., TlsServer], authority: Authority, line: bytes) -> None:
    endless = b"HTTP/1.1 200 OK\r\n" + line * 90 if line else b"HTTP/1.1 100 Continue\r\n\r\n" * 10_000
    with pytest.raises(NoAnswer, match="too large"):
        post(serving(answer=replying(endless)), authority)


def test_a_body_is_read_up_to_a_limit_and_not_inflated(serving: Callable[..., TlsServer], authority: Authority) -> None:
    large = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n" + b"\x1f\x8b" + b"x" * (2 * MAX_RESPONSE_BYTES)
    answer = post(serving(answer=replying(large)), authority)
    assert (answer.status, len(answer.body)) == (200, MAX_BODY_BYTES)


def test_a_status_counts_although_the_body_hangs(serving: Callable[..., TlsServer], authority: Authority) -> None:
    ended = threading.Event()

    def half(connection: ssl.SSLSocket, _: bytes) -> None:
        connection.sendall(b"HTTP/1.1 204 OK\r\ncontent-length: 2\r\n\r\n")
        ended.wait(30)

    assert post(serving(answer=half), authority, timeout_s=0.5).status == 204
    ended.set()


@pytest.mark.parametrize("content", [b"SSH-2.0-OpenSSH\r\n", b"", b"HTTP/1.1 nine OK\r\n\r\n"])
def test_response_other_than_http_counts_as_unanswered(
    serving: Callable[..., TlsServer], authority: Authority, content: bytes
) -> None:
    with pytest.raises(NoAnswer):
        post(serving(answer=replying(content)), authority)


def test_refused_connection_counts_as_unanswered(serving: Callable[..., TlsServer], authority: Authority) -> None:
    server = serving()
    server.listening.close()
    free = socket.create_server(("127.0.0.1", 0))
    port = free.getsockname()[1]
    free.close()
    http = GuardedHttp(timeout_s=5, loopback=True)
    with pytest.raises(NoAnswer, match="connection failed"):
        http.post(f"http://127.0.0.1:{port}/", body=b"", headers={})
