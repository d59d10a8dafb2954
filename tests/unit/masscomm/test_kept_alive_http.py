"""Kept-alive requests to servers that a tenant named, against real TLS servers on this machine."""

import asyncio
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator

import pytest

from masscomm.channels import kept_alive_http
from masscomm.channels.guarded_http import MAX_RESPONSE_BYTES, Answer, NoAnswer
from masscomm.channels.kept_alive_http import KeptAliveHttp
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


def replying(content: bytes, times: int = 1) -> Callable[[ssl.SSLSocket, bytes], None]:
    """Return a server's answer to the first requests on a connection, which ends after them."""

    def answer(connection: ssl.SSLSocket, _: bytes) -> None:
        connection.sendall(content)
        for _number in range(times - 1):
            if not connection.recv(1_000):
                return
            connection.sendall(content)

    return answer


def posting(authority: Authority) -> KeptAliveHttp:
    return KeptAliveHttp(loopback=True, resolve=lambda *_: ["127.0.0.1"], authorities=str(authority.path))


def run[R](http: KeptAliveHttp, work: Callable[[], Awaitable[R]]) -> R:
    async def closing() -> R:
        try:
            return await work()
        finally:
            await http.close()

    return asyncio.run(closing())


def post(
    http: KeptAliveHttp, server: TlsServer, times: int = 1, *, host: str = "localhost", timeout_s: float = 10
) -> list[Answer]:
    async def work() -> list[Answer]:
        url = f"https://{host}:{server.port}/hook?club=7"
        return [
            await http.post(url, body=b'{"a":1}', headers={"webhook-id": "evt_1"}, timeout_s=timeout_s)
            for _ in range(times)
        ]

    return run(http, work)


def test_requests_share_a_connection(serving: Callable[..., TlsServer], authority: Authority) -> None:
    server = serving(answer=replying(OK, 3))
    assert post(posting(authority), server, 3) == [Answer(status=200, retry_after=None, body="ok")] * 3
    assert server.handshakes == 1
    head, _, body = server.received[0].decode().partition("\r\n\r\n")
    assert head.split("\r\n") == [
        "POST /hook?club=7 HTTP/1.1",
        f"host: localhost:{server.port}",
        "content-length: 7",
        "accept-encoding: identity",
        "connection: keep-alive",
        "webhook-id: evt_1",
    ]
    assert body == '{"a":1}'


def test_an_ended_connection_is_made_again(serving: Callable[..., TlsServer], authority: Authority) -> None:
    """The server ends each connection after one answer, without saying so."""
    server = serving(answer=replying(OK))
    assert [each.status for each in post(posting(authority), server, 3)] == [200] * 3
    assert server.handshakes == 3


@pytest.mark.kills(guard="kept_alive_http.idle_connections")
def test_idle_connections_are_bounded(
    serving: Callable[..., TlsServer], authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_alive_http, "MAX_IDLE", 2)
    servers = [serving(answer=replying(OK, 2)) for _ in range(4)]
    http = posting(authority)

    async def work() -> int:
        for server in servers:
            await http.post(f"https://localhost:{server.port}/", body=b"", headers={}, timeout_s=10)
        return sum(len(each) for each in http._idle.values())

    assert run(http, work) == 2


@pytest.mark.guarantee("webhooks.public_servers_only")
def test_redirects_are_not_followed(serving: Callable[..., TlsServer], authority: Authority) -> None:
    other = serving(answer=replying(OK))
    location = f"HTTP/1.1 307 Moved\r\nlocation: https://localhost:{other.port}/\r\nretry-after: 7\r\n\r\n".encode()
    assert post(posting(authority), serving(answer=replying(location))) == [
        Answer(status=307, retry_after="7", body="")
    ]
    assert other.handshakes == 0


@pytest.mark.guarantee("webhooks.public_servers_only")
def test_a_server_that_is_not_public_is_not_connected(serving: Callable[..., TlsServer], authority: Authority) -> None:
    server = serving(answer=replying(OK))
    http = KeptAliveHttp(resolve=lambda *_: ["127.0.0.1"], authorities=str(authority.path))
    with pytest.raises(UrlRefused):
        post(http, server)
    assert server.handshakes == 0


def test_another_hosts_certificate_is_refused(serving: Callable[..., TlsServer], authority: Authority) -> None:
    server = serving(answer=replying(OK))
    with pytest.raises(NoAnswer, match="certificate is not valid"):
        post(posting(authority), server, host="hooks.example.org")
    assert server.received == []


def test_a_silent_server_ends_with_the_time_limit(serving: Callable[..., TlsServer], authority: Authority) -> None:
    ended = threading.Event()
    server = serving(answer=lambda *_: ended.wait(30))
    with pytest.raises(NoAnswer, match=r"within 0\.5 s"):
        post(posting(authority), server, timeout_s=0.5)
    ended.set()


def test_a_status_counts_although_the_body_is_too_large(
    serving: Callable[..., TlsServer], authority: Authority
) -> None:
    large = b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * (2 * MAX_RESPONSE_BYTES)
    assert [each.status for each in post(posting(authority), serving(answer=replying(large)))] == [200]


@pytest.mark.parametrize("content", [b"SSH-2.0-OpenSSH\r\n\r\n", b"", b"HTTP/1.1 nine OK\r\n\r\n"])
def test_response_other_than_http_counts_as_unanswered(
    serving: Callable[..., TlsServer], authority: Authority, content: bytes
) -> None:
    with pytest.raises(NoAnswer):
        post(posting(authority), serving(answer=replying(content)))


def test_refused_connection_counts_as_unanswered(authority: Authority) -> None:
    free = socket.create_server(("127.0.0.1", 0))
    port = free.getsockname()[1]
    free.close()
    http = posting(authority)
    with pytest.raises(NoAnswer, match="connection failed"):
        run(http, lambda: http.post(f"http://127.0.0.1:{port}/", body=b"", headers={}, timeout_s=10))
