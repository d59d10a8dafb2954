"""Kept-alive requests to servers that a tenant named, against real TLS servers on this machine."""

import asyncio
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from masscomm.channels import kept_alive_http
from masscomm.channels.guarded_http import MAX_BODY_BYTES, MAX_RESPONSE_BYTES, Answer, ClientCertificate, NoAnswer
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


def test_servers_in_turn_keep_some_of_their_connections(
    serving: Callable[..., TlsServer], authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the oldest connection was closed for a new one, every request would need a new one."""
    monkeypatch.setattr(kept_alive_http, "MAX_IDLE", 4)
    servers, rounds = [serving(answer=replying(OK, 100)) for _ in range(5)], 10
    http = posting(authority)

    async def work() -> None:
        for server in servers * rounds:
            await http.post(f"https://localhost:{server.port}/", body=b"", headers={}, timeout_s=10)

    run(http, work)
    assert sum(server.handshakes for server in servers) < len(servers) * rounds * 0.8


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


@pytest.mark.guarantee("webhooks.public_servers_only")
def test_the_host_is_resolved_once(serving: Callable[..., TlsServer], authority: Authority) -> None:
    """DNS rebinding: a second resolution would have another address."""
    server, asked = serving(answer=replying(OK)), []

    def resolve(host: str, port: int) -> list[str]:
        asked.append((host, port))
        return ["127.0.0.1"] if len(asked) == 1 else ["127.0.0.2"]

    http = KeptAliveHttp(loopback=True, resolve=resolve, authorities=str(authority.path))
    assert [each.status for each in post(http, server)] == [200]
    assert asked == [("localhost", server.port)]


def test_another_hosts_certificate_is_refused(serving: Callable[..., TlsServer], authority: Authority) -> None:
    server = serving(answer=replying(OK))
    with pytest.raises(NoAnswer, match="certificate is not valid"):
        post(posting(authority), server, host="hooks.example.org")
    assert server.received == []
    unknown = KeptAliveHttp(loopback=True, resolve=lambda *_: ["127.0.0.1"])
    with pytest.raises(NoAnswer, match="certificate is not valid"):
        post(unknown, server)


@pytest.mark.parametrize("status", ["100 Continue", "102 Processing", "103 Early Hints"])
def test_informational_responses_are_not_the_answer(
    serving: Callable[..., TlsServer], authority: Authority, status: str
) -> None:
    """RFC 9110, 15.2: a client must parse them, although it did not ask for them."""
    informational = f"HTTP/1.1 {status}\r\nlink: </style.css>; rel=preload\r\n\r\n".encode()
    server = serving(answer=replying(informational * 2 + OK))
    assert post(posting(authority), server) == [Answer(status=200, retry_after=None, body="ok")]


def test_a_server_that_drips_does_not_extend_the_limit(serving: Callable[..., TlsServer], authority: Authority) -> None:
    """Each read is fast: the limit is that of the whole request."""

    def drip(connection: ssl.SSLSocket, _: bytes) -> None:
        with suppress(OSError):
            while True:
                connection.sendall(b"H")

    with pytest.raises(NoAnswer):
        post(posting(authority), serving(answer=drip), timeout_s=0.5)


@pytest.mark.parametrize("silent", ["before", "after"])
def test_a_silent_server_ends_with_the_time_limit(
    serving: Callable[..., TlsServer], authority: Authority, silent: str
) -> None:
    ended = threading.Event()
    server = serving(answer=lambda *_: ended.wait(30))
    if silent == "before":
        listening = socket.create_server(("127.0.0.1", 0))  # accepts no connection, so that the handshake hangs
        server = TlsServer(server.context, listening)
    with pytest.raises(NoAnswer, match=r"within 0\.5 s"):
        post(posting(authority), server, timeout_s=0.5)
    ended.set()
    server.listening.close()


def test_a_hanging_resolver_ends_with_the_time_limit() -> None:
    ended = threading.Event()
    http = KeptAliveHttp(resolve=lambda *_: [str(ended.wait(30))])

    async def work() -> None:
        try:
            await http.post("https://hooks.example.org/", body=b"", headers={}, timeout_s=0.1)
        finally:
            ended.set()  # The event loop waits for its threads at its end.

    with pytest.raises(NoAnswer, match=r"within 0\.1 s"):
        run(http, work)


@pytest.mark.parametrize("line", [b"x: " + b"y" * 1_000 + b"\r\n", b""])
def test_response_headers_are_bounded(serving: Callable[..., TlsServer], authority: Authority, line: bytes) -> None:
    endless = b"HTTP/1.1 200 OK\r\n" + line * 90 if line else b"HTTP/1.1 100 Continue\r\n\r\n" * 10_000
    with pytest.raises(NoAnswer):
        post(posting(authority), serving(answer=replying(endless)))


def test_a_body_is_read_up_to_a_limit_and_not_inflated(serving: Callable[..., TlsServer], authority: Authority) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-length: 3002\r\ncontent-encoding: gzip\r\n\r\n"
    large = head + b"\x1f\x8b" + b"x" * 3_000
    (answer,) = post(posting(authority), serving(answer=replying(large)))
    assert (answer.status, len(answer.body)) == (200, MAX_BODY_BYTES)


def test_a_status_counts_although_the_body_hangs(serving: Callable[..., TlsServer], authority: Authority) -> None:
    ended = threading.Event()

    def half(connection: ssl.SSLSocket, _: bytes) -> None:
        connection.sendall(b"HTTP/1.1 204 OK\r\ncontent-length: 2\r\n\r\n")
        ended.wait(30)

    assert [each.status for each in post(posting(authority), serving(answer=half), timeout_s=2)] == [204]
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


def certified(authority: Authority, name: str) -> ClientCertificate:
    """Return a client certificate of the authority."""
    authority.context(name)
    private_key, begin, certificate = (authority.folder / f"{name}.pem").read_text().partition("-----BEGIN CERT")
    return ClientCertificate(id=name, certificate=begin + certificate, private_key=private_key)


def demanding(serving: Callable[..., TlsServer], authority: Authority, seen: list[str]) -> TlsServer:
    """Return a server that demands a client certificate, and records the name in it for each request."""

    def answer(connection: ssl.SSLSocket, _: bytes) -> None:
        found: Any = connection.getpeercert()
        for number in range(10):
            if number and not connection.recv(1_000):
                return
            seen.append(found["subject"][0][0][1])
            connection.sendall(OK)

    server = serving(answer=answer)
    server.context.load_verify_locations(authority.path)
    server.context.verify_mode = ssl.CERT_REQUIRED
    return server


@pytest.mark.kills(guard="kept_alive_http.connections_of_a_client")
def test_client_certificates_do_not_share_connections(serving: Callable[..., TlsServer], authority: Authority) -> None:
    seen: list[str] = []
    server, http = demanding(serving, authority, seen), posting(authority)
    ada, bob = certified(authority, "ada"), certified(authority, "bob")
    threading.Thread(target=server.serve, daemon=True).start()

    async def work() -> None:
        for client in (ada, bob, ada, bob):
            url = f"https://localhost:{server.port}/"
            await http.post(url, body=b"", headers={}, timeout_s=10, client=client)

    run(http, work)
    assert seen == ["ada", "bob", "ada", "bob"]
    assert server.handshakes == 2


def test_a_demanded_certificate_is_no_answer(serving: Callable[..., TlsServer], authority: Authority) -> None:
    server = demanding(serving, authority, [])
    with pytest.raises(NoAnswer):
        post(posting(authority), server)


def test_a_certificate_that_does_not_fit_its_key_is_no_answer(
    serving: Callable[..., TlsServer], authority: Authority
) -> None:
    server, http = demanding(serving, authority, []), posting(authority)
    other = replace(certified(authority, "ada"), private_key=certified(authority, "bob").private_key)
    url = f"https://localhost:{server.port}/"
    with pytest.raises(NoAnswer, match="the client certificate cannot be used"):
        run(http, lambda: http.post(url, body=b"", headers={}, timeout_s=10, client=other))


@pytest.mark.kills(guard="kept_alive_http.contexts")
def test_settings_of_tls_are_bounded(
    serving: Callable[..., TlsServer], authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_alive_http, "MAX_CONTEXTS", 2)
    seen: list[str] = []
    server, http = demanding(serving, authority, seen), posting(authority)
    clients = [replace(certified(authority, "ada"), id=str(number)) for number in range(3)]
    threading.Thread(target=server.serve, daemon=True).start()
    threading.Thread(target=server.serve, daemon=True).start()

    async def work() -> None:
        for client in clients:
            url = f"https://localhost:{server.port}/"
            await http.post(url, body=b"", headers={}, timeout_s=10, client=client)

    run(http, work)
    assert list(http._contexts) == ["1", "2"]


def test_a_longer_body_is_returned_on_request(serving: Callable[..., TlsServer], authority: Authority) -> None:
    server = serving(answer=replying(b"HTTP/1.1 200 OK\r\ncontent-length: 3000\r\n\r\n" + b"a" * 3000))
    http, url = posting(authority), f"https://localhost:{server.port}/"
    answer = run(http, lambda: http.post(url, body=b"", headers={}, timeout_s=10, most_bytes=2_000))
    assert answer.body == "a" * 2_000
