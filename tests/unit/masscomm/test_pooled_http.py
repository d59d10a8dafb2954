"""The HTTP clients of DynamoDB and OpenSearch: our own and urllib3's keep the same contract."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from masscomm.aws.http_answer import AnswerLost, AnswerTimeout, ConnectTimeout, NotSent
from masscomm.aws.pooled_http import PooledHttp
from masscomm.aws.request import Limits, Requests
from masscomm.aws.signature import Credentials
from tests.support.reference_http.urllib3_client import Urllib3Http
from tests.support.servers.scripted_server import OK, answering, read_request, serving, slow_resolver

# The wait of a client whose server does not answer in time.
READ_S = 0.5
# urllib3 has no limit for a whole call.
with_deadline = pytest.mark.parametrize("connect", [PooledHttp], indirect=True, ids=["own"])
# Seconds after which a call counts as unbounded: a busy machine delays less, the servers of these tests more.
UNBOUNDED_S = 10.0

type Connect = Callable[..., PooledHttp]


@pytest.fixture(params=[PooledHttp, Urllib3Http], ids=["own", "urllib3"])
def connect(request: pytest.FixtureRequest) -> Iterator[Connect]:
    """Return a function that makes the client of a URL."""
    made: list[PooledHttp] = []

    def client(url: str, *, connect_s: float = 5.0, read_s: float = UNBOUNDED_S, connections: int = 2) -> PooledHttp:
        made.append(
            request.param(url, connect_s=connect_s, read_s=read_s, total_s=connect_s + read_s, connections=connections)
        )
        return made[-1]

    yield client
    for each in made:
        each.close()


def posts(client: PooledHttp, *bodies: bytes, ended: threading.Event | None = None) -> list[Any]:
    """Post these bodies one after another, each after the server has ended the connection if there is an event for
    this. Return the answer or the kind of error of each request.
    """
    found: list[Any] = []
    for body in bodies:
        try:
            found.append(client.request("POST", "/", {"a": "b"}, body))
        except (NotSent, AnswerLost) as error:
            found.append(type(error))
        if ended is not None:
            assert ended.wait(UNBOUNDED_S)
    return found


@pytest.mark.parametrize(
    ("method", "target", "body", "length"),
    [
        ("POST", "/", b"body", b"content-length: 4"),
        ("POST", "/_refresh?a=b%20c&d=%2F", b"", b"content-length: 0"),
        ("PUT", "/i/_doc/a%2Fb", b"{}", b"content-length: 2"),
        ("GET", "/_alias/users,devices", b"", None),
        ("DELETE", "/_search/point_in_time", b"{}", b"content-length: 2"),
    ],
)
def test_request_has_only_the_given_headers(
    connect: Connect, method: str, target: str, body: bytes, length: bytes | None
) -> None:
    with serving(answering(OK)) as server:
        assert connect(server.url).request(method, target, {"a": "b"}, body) == (200, b"ok")
    head, _, received = server.requests[0].partition(b"\r\n\r\n")
    line, *headers = head.split(b"\r\n")
    assert line == f"{method} {target} HTTP/1.1".encode()
    port = server.url.rpartition(":")[2].strip("/").encode()
    assert {header.lower() for header in headers} == {b"host: 127.0.0.1:" + port, b"a: b", length} - {None}
    assert received == body


def test_connection_is_kept_for_the_next_request(connect: Connect) -> None:
    with serving(answering(OK, OK, OK)) as server:
        assert posts(connect(server.url), b"1", b"2", b"3") == [(200, b"ok")] * 3
    assert server.connections == 1


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"HTTP/1.1 400 Bad\r\ncontent-length: 3\r\n\r\nbad", (400, b"bad")),
        (b"HTTP/1.1 503 Busy\r\nContent-Length:0\r\n\r\n", (503, b"")),
        (b"HTTP/1.1 301 Moved\r\nLocation: /\r\nContent-Length: 0\r\n\r\n", (301, b"")),
        (
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1;x=y\r\no\r\n01\r\nk\r\n0\r\nA: b\r\n\r\n",
            (200, b"ok"),
        ),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + OK, (200, b"ok")),
    ],
    ids=["refusal", "empty", "redirect", "chunks", "continue"],
)
def test_answer_is_read_in_any_pieces(connect: Connect, answer: bytes, expected: tuple[int, bytes]) -> None:
    def slowly(connection: socket.socket, _requests: list[bytes]) -> None:
        for size in (1, len(answer)):
            read_request(connection)
            for start in range(0, len(answer), size):
                connection.sendall(answer[start : start + size])
        connection.recv(1)

    with serving(slowly) as server:
        assert posts(connect(server.url), b"1", b"2") == [expected] * 2


def test_large_answer_in_chunks_is_read_whole(connect: Connect) -> None:
    body = bytes(range(256)) * 40_000
    chunks = b"".join(b"%x\r\n%s\r\n" % (10_000, body[at : at + 10_000]) for at in range(0, len(body), 10_000))
    answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"
    with serving(answering(answer)) as server:
        assert posts(connect(server.url), b"1") == [(200, body)]


@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\nConnection: close\r\n", b"HTTP/1.0 200 OK\r\n"])
def test_answer_without_length_ends_with_its_connection(connect: Connect, head: bytes) -> None:
    with serving(answering(head + b"\r\nok", close=True)) as server:
        assert posts(connect(server.url), b"1", b"2") == [(200, b"ok")] * 2
    assert server.connections == 2


def test_connection_that_the_server_ends_is_not_reused(connect: Connect) -> None:
    closing = OK.replace(b"\r\n", b"\r\nConnection: close\r\n", 1)
    with serving(answering(closing)) as server:
        assert posts(connect(server.url), b"1", b"2") == [(200, b"ok")] * 2
    assert server.connections == 2


@pytest.mark.kills(guard="pooled_http.ended_connection")
@pytest.mark.parametrize("half", [False, True], ids=["closed", "half closed"])
def test_idle_connection_that_the_server_ended_is_not_used(connect: Connect, half: bool) -> None:
    ended = threading.Event()

    def end(connection: socket.socket, _requests: list[bytes]) -> None:
        read_request(connection)
        connection.sendall(OK)
        connection.shutdown(socket.SHUT_WR if half else socket.SHUT_RDWR)
        ended.set()
        connection.recv(1)

    with serving(end) as server:
        assert posts(connect(server.url), b"1", b"2", ended=ended) == [(200, b"ok")] * 2
    assert server.connections == 2


@pytest.mark.parametrize("part", [b"", OK[:-1]], ids=["nothing", "body"])
@pytest.mark.parametrize("how", ["end", "reset"])
def test_cut_answer_is_lost(connect: Connect, part: bytes, how: str) -> None:
    def cut(connection: socket.socket, _requests: list[bytes]) -> None:
        read_request(connection)
        connection.sendall(part)
        if how == "reset":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")

    with serving(cut, answering(OK)) as server:
        assert posts(connect(server.url), b"1", b"2") == [AnswerLost, (200, b"ok")]


def test_early_answer_is_read_or_lost(connect: Connect) -> None:
    """The server reads a part of the request, answers, and ends the connection, which is not used again."""
    refusal = b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno"

    def early(connection: socket.socket, _requests: list[bytes]) -> None:
        connection.recv(1000)
        connection.sendall(refusal)
        connection.shutdown(socket.SHUT_WR)

    with serving(early, answering(OK)) as server:
        first, second = posts(connect(server.url), b"m" * 30_000_000, b"2")
    assert first in ((413, b"no"), AnswerLost)
    assert second == (200, b"ok")


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxx\r\nok\r\n0\r\n\r\n",
    ],
    ids=["no HTTP", "two lengths", "no chunk"],
)
def test_malformed_answer_is_lost(connect: Connect, answer: bytes) -> None:
    with serving(answering(answer)) as server:
        assert posts(connect(server.url), b"1") == [AnswerLost]


@with_deadline
@pytest.mark.kills(guard="pooled_http.call_deadline")
@pytest.mark.parametrize("first", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n"], ids=["silent", "trickle"])
def test_slow_answer_is_lost_in_time(connect: Connect, first: bytes) -> None:
    def trickle(connection: socket.socket, _requests: list[bytes]) -> None:
        read_request(connection)
        connection.sendall(first)
        until = time.monotonic() + 1.5 * UNBOUNDED_S
        while first and time.monotonic() < until:
            connection.sendall(b"x")
            time.sleep(0.05)
        connection.recv(1)

    with serving(trickle) as server:
        began = time.monotonic()
        assert posts(connect(server.url, connect_s=0.2, read_s=READ_S), b"1") == [AnswerTimeout]
        assert time.monotonic() - began < UNBOUNDED_S


def test_refused_connection_is_not_sent(connect: Connect) -> None:
    assert posts(connect("http://127.0.0.1:1/"), b"1") == [NotSent]


def test_unknown_name_is_not_sent(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **_more: object) -> list[Any]:
        raise socket.gaierror("unknown")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    assert posts(connect("http://dynamodb.example/"), b"1") == [NotSent]


@with_deadline
def test_slow_name_resolution_is_a_connect_timeout(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", slow_resolver)
    assert posts(connect("http://dynamodb.example/", connect_s=0.1), b"1") == [ConnectTimeout]


@with_deadline
def test_hanging_tls_handshake_is_a_connect_timeout(connect: Connect) -> None:
    def silent(connection: socket.socket, _requests: list[bytes]) -> None:
        while connection.recv(1_000):
            pass

    with serving(silent) as server:
        url = server.url.replace("http:", "https:")
        assert posts(connect(url, connect_s=0.2, read_s=60), b"1") == [ConnectTimeout]


@with_deadline
def test_request_after_its_deadline_is_not_sent(connect: Connect) -> None:
    """The look-up of credentials may use up a call's time; by then another function may have sent the request."""
    with serving(answering(OK)) as server:
        with pytest.raises(ConnectTimeout):
            connect(server.url).request("POST", "/", {}, b"x", until=time.monotonic())
        assert server.requests in ([], [b""])


def test_calls_at_once_have_connections_of_their_own(connect: Connect) -> None:
    both = threading.Barrier(2, timeout=UNBOUNDED_S)

    def together(connection: socket.socket, _requests: list[bytes]) -> None:
        read_request(connection)
        both.wait()
        connection.sendall(OK)
        connection.recv(1)

    found: list[Any] = []
    with serving(together) as server:
        client = connect(server.url)
        threads = [threading.Thread(target=lambda: found.extend(posts(client, b"1"))) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == [(200, b"ok")] * 2


# --- Answers that Python's http.client, which urllib3 uses, reads in another way ---


def test_early_hints_precede_the_answer() -> None:
    hints = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
    with serving(answering(hints + OK, hints + OK)) as server:
        assert posts(own_client(server.url), b"1", b"2") == [(200, b"ok")] * 2


def test_answer_cut_in_its_head_is_lost() -> None:
    with serving(answering(b"HTTP/1.1 200 OK\r\nConte", close=True), answering(OK)) as server:
        assert posts(own_client(server.url), b"1", b"2") == [AnswerLost, (200, b"ok")]


def test_unrequested_bytes_are_no_answer() -> None:
    """On a reused connection, unrequested bytes would count as the answer to the next request."""
    with serving(answering(OK + OK, b""), answering(OK.replace(b"ok", b"no"))) as server:
        assert posts(own_client(server.url), b"1", b"2") == [(200, b"ok"), (200, b"no")]


def own_client(url: str) -> PooledHttp:
    return PooledHttp(url, connect_s=5.0, read_s=UNBOUNDED_S, total_s=2 * UNBOUNDED_S, connections=2)


# --- The setting, and signed requests ---


@pytest.mark.kills(guard="signatures.renewed")
@pytest.mark.parametrize("passed_s", [2.0, -3600.0], ids=["later", "clock set back"])
def test_rotated_credentials_sign_later_requests(passed_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials are looked up once a second, and again after the clock was set back."""
    keys, now = iter(["first", "second"]), [1_700_000_000.0]
    monkeypatch.setattr(time, "time", lambda: now[0])
    with serving(answering(OK, OK, OK)) as server:
        requests = Requests(
            "dynamodb",
            Limits(connect_s=5, read_s=UNBOUNDED_S),
            url=server.url,
            region="eu-central-1",
            credentials=lambda: Credentials(next(keys), "secret"),
        )
        for step_s in (0.0, 0.5, passed_s):
            now[0] += step_s
            requests.post(b"1", {"x-amz-target": "t"})
    used = [request.partition(b"Credential=")[2].partition(b"/")[0] for request in server.requests]
    assert used == [b"first", b"first", b"second"]
