"""The HTTP clients keep one contract: the asynchronous one of providers, the blocking one of AWS' other services."""

import asyncio
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masscomm.aws.async_http import HttpClient
from masscomm.aws.async_requests import AsyncRequests
from masscomm.aws.http_answer import AnswerLost, AnswerReader, AnswerTimeout, ConnectTimeout, Malformed, NotSent
from masscomm.aws.pooled_http import PooledHttp
from masscomm.aws.request import FORM, Limits, Requests
from masscomm.aws.signature import Credentials
from tests.support.reference_http.aiohttp_client import AiohttpClient
from tests.support.reference_http.urllib3_client import Urllib3Http
from tests.support.servers.scripted_server import OK, answering, read_request, serving, slow_resolver

# The wait of a client whose server does not answer in time.
ANSWER_S = 0.5
# Seconds after which a call counts as unbounded: a busy machine delays less, the servers of these tests more.
UNBOUNDED_S = 10.0
OK_ANSWER = (200, b"ok")
CLOSE = b"Connection: close\r\n"
RESET = b"\x01\x00\x00\x00\x00\x00\x00\x00"

type Posts = Callable[..., list[Any]]


def pooled(url: str, *, connect_s: float = 5.0, read_s: float = UNBOUNDED_S) -> PooledHttp:
    return PooledHttp(url, connect_s=connect_s, read_s=read_s, total_s=connect_s + read_s, connections=2)


def over_urllib3(url: str, *, connect_s: float = 5.0, read_s: float = UNBOUNDED_S) -> Urllib3Http:
    return Urllib3Http(url, connect_s=connect_s, read_s=read_s, total_s=connect_s + read_s, connections=2)


def posts_pooled(
    url: str, *bodies: bytes, ended: threading.Event | None = None, client_of: Any = pooled, **limits: float
) -> list[Any]:
    found: list[Any] = []
    with closing(client_of(url, **limits)) as client:
        for body in bodies:
            try:
                found.append(client.request("POST", "/", {"a": "b"}, body))
            except (NotSent, AnswerLost) as error:
                found.append(NotSent if isinstance(error, NotSent) else AnswerLost)
            if ended is not None:
                assert ended.wait(UNBOUNDED_S)
    return found


def posts_asynchronously(
    url: str,
    *bodies: bytes,
    connect_s: float = 5.0,
    read_s: float = UNBOUNDED_S,
    ended: threading.Event | None = None,
    client_of: Any = HttpClient,
) -> list[Any]:
    async def post_all() -> list[Any]:
        client, found = client_of(url, answer_s=read_s), list[Any]()
        for body in bodies:
            until = asyncio.get_running_loop().time() + connect_s
            try:
                found.append(await client.post({"a": "b"}, body, connect_until=until))
            except (NotSent, AnswerLost) as error:
                found.append(type(error))
            if ended is not None:
                assert ended.wait(UNBOUNDED_S)
                time.sleep(0.7)  # blocks the event loop, as Lambda does when it freezes the environment
        await client.close()
        return found

    return asyncio.run(post_all())


posts_over_urllib3 = partial(posts_pooled, client_of=over_urllib3)
posts_over_aiohttp = partial(posts_asynchronously, client_of=AiohttpClient)


# Where the client over urllib3 differs, by a part of the test's name.
UNLIKE_URLLIB3 = {
    "early hints": "http.client takes a 103 for the answer",
    "malformed_answer_is_lost[urllib3-no length]": "http.client ignores such a length, and waits for its time-out",
    "end-head": "http.client accepts a head that ends with the connection",
    "trickle": "urllib3 has no limit for a whole call",
    "unrequested_bytes": "urllib3 sends a request on a connection with unrequested bytes",
}


# The clients over the plain libraries answer as the own ones do.
@pytest.fixture(
    params=[posts_pooled, posts_asynchronously, posts_over_urllib3, posts_over_aiohttp],
    ids=["pooled", "asynchronous", "urllib3", "aiohttp"],
)
def posts(request: pytest.FixtureRequest) -> Posts:
    """Post these bodies one after another with one client, each after the server has ended the connection if there is
    an event for this. Returns the answer or the kind of error of each request.
    """
    found: Posts = request.param
    for case, why in UNLIKE_URLLIB3.items():
        if found is posts_over_urllib3 and case in request.node.name:
            pytest.skip(why)
    return found


def test_request_has_only_the_given_headers(posts: Posts) -> None:
    with serving(answering(OK)) as server:
        assert posts(server.url, b"body") == [OK_ANSWER]
        check_request(server.requests[0], server.url, "POST / HTTP/1.1", b"body", b"content-length: 4")


@pytest.mark.parametrize(
    ("method", "target", "body", "length"),
    [
        ("POST", "/_refresh?a=b%20c&d=%2F", b"", b"content-length: 0"),
        ("PUT", "/i/_doc/a%2Fb", b"{}", b"content-length: 2"),
        ("GET", "/_alias/users,devices", b"", None),
        ("DELETE", "/_search/point_in_time", b"{}", b"content-length: 2"),
    ],
)
def test_each_method_is_sent_with_its_length(method: str, target: str, body: bytes, length: bytes | None) -> None:
    with serving(answering(OK)) as server, closing(pooled(server.url)) as client:
        assert client.request(method, target, {"a": "b"}, body) == OK_ANSWER
        check_request(server.requests[0], server.url, f"{method} {target} HTTP/1.1", body, length)


def check_request(request: bytes, url: str, line: str, body: bytes, length: bytes | None) -> None:
    head, _, received = request.partition(b"\r\n\r\n")
    first, *headers = head.split(b"\r\n")
    host = b"host: 127.0.0.1:" + url.rpartition(":")[2].strip("/").encode()
    assert (first, received) == (line.encode(), body)
    assert {header.lower() for header in headers} == {host, b"a: b", length} - {None}


def test_connection_is_kept_for_the_next_request(posts: Posts) -> None:
    with serving(answering(OK, OK, OK)) as server:
        assert posts(server.url, b"1", b"2", b"3") == [OK_ANSWER] * 3
    assert server.connections == 1


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"HTTP/1.1 400 Bad\r\ncontent-length: 3\r\n\r\nbad", (400, b"bad")),
        (b"HTTP/1.1 503\r\nContent-Length:0\r\n\r\n", (503, b"")),
        (b"HTTP/1.1 301 Moved\r\nLocation: /\r\nContent-Length: 0\r\n\r\n", (301, b"")),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", OK_ANSWER),
        (
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n1;x=y\r\no\r\n01\r\nk\r\n0\r\nA: b\r\n\r\n",
            OK_ANSWER,
        ),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + OK, OK_ANSWER),
        (b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK, OK_ANSWER),
    ],
    ids=["refusal", "empty", "redirect", "chunks", "chunks with extensions", "continue", "early hints"],
)
def test_answer_is_read_in_any_pieces(posts: Posts, answer: bytes, expected: tuple[int, bytes]) -> None:
    def slowly(connection: socket.socket, _requests: list[bytes]) -> None:
        for size in (1, len(answer)):
            read_request(connection)
            for start in range(0, len(answer), size):
                connection.sendall(answer[start : start + size])
        connection.recv(1)

    with serving(slowly) as server:
        assert posts(server.url, b"1", b"2") == [expected] * 2


def test_large_answer_in_chunks_is_read_whole() -> None:
    body = bytes(range(256)) * 40_000
    chunks = b"".join(b"%x\r\n%s\r\n" % (10_000, body[at : at + 10_000]) for at in range(0, len(body), 10_000))
    answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"
    with serving(answering(answer)) as server:
        assert posts_pooled(server.url, b"1") == [(200, body)]


@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\nConnection: close\r\n", b"HTTP/1.0 200 OK\r\n"])
def test_answer_without_length_ends_with_its_connection(posts: Posts, head: bytes) -> None:
    with serving(answering(head + b"\r\nok", close=True)) as server:
        assert posts(server.url, b"1", b"2") == [OK_ANSWER] * 2
    assert server.connections == 2


def test_connection_that_the_server_ends_is_not_reused(posts: Posts) -> None:
    with serving(answering(OK.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))) as server:
        assert posts(server.url, b"1", b"2") == [OK_ANSWER] * 2
    assert server.connections == 2


@pytest.mark.kills(guard="pooled_http.ended_connection")
@pytest.mark.parametrize("how", [socket.SHUT_WR, socket.SHUT_RDWR], ids=["half closed", "closed"])
def test_idle_connection_that_the_server_ended_is_not_used(posts: Posts, how: int) -> None:
    ended = threading.Event()

    def end(connection: socket.socket, _requests: list[bytes]) -> None:
        read_request(connection)
        connection.sendall(OK)
        connection.shutdown(how)
        ended.set()
        connection.recv(1)

    with serving(end) as server:
        assert posts(server.url, b"1", b"2", ended=ended) == [OK_ANSWER] * 2
    assert server.connections == 2


@pytest.mark.parametrize("part", [b"", b"HTTP/1.1 200 OK\r\nConte", OK[:-1]], ids=["nothing", "head", "body"])
@pytest.mark.parametrize("how", ["end", "reset"])
def test_cut_answer_is_lost(posts: Posts, part: bytes, how: str) -> None:
    def cut(connection: socket.socket, _requests: list[bytes]) -> None:
        read_request(connection)
        connection.sendall(part)
        if how == "reset":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)

    with serving(cut, answering(OK)) as server:
        assert posts(server.url, b"1", b"2") == [AnswerLost, OK_ANSWER]


@pytest.mark.parametrize(
    ("posts", "header"),
    # The blocking client reads the answer once it has sent the request.
    [(posts_pooled, CLOSE), (posts_asynchronously, CLOSE), (posts_asynchronously, b"")],
    indirect=["posts"],
)
def test_early_answer_ends_the_connection(posts: Posts, header: bytes) -> None:
    """An early answer leaves unread bytes, which the server would read as another request."""

    def early(connection: socket.socket, _requests: list[bytes]) -> None:
        connection.recv(1000)
        connection.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n" + header + b"\r\nno")
        if header:
            connection.shutdown(socket.SHUT_WR)
        else:
            connection.recv(1000)
            time.sleep(0.2)

    with serving(early, answering(OK)) as server:
        first, second = posts(server.url, b"m" * 30_000_000, b"2")
    assert first in ((413, b"no"), AnswerLost)
    assert second == OK_ANSWER


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxx\r\nok\r\n0\r\n\r\n",
    ],
    ids=["no HTTP", "no length", "two lengths", "no chunk"],
)
def test_malformed_answer_is_lost(posts: Posts, answer: bytes) -> None:
    with serving(answering(answer)) as server:
        assert posts(server.url, b"1") == [AnswerLost]


@pytest.mark.kills(guard="pooled_http.call_deadline")
@pytest.mark.parametrize("first", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n"], ids=["silent", "trickle"])
def test_slow_answer_is_lost_in_time(posts: Posts, first: bytes) -> None:
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
        assert posts(server.url, b"1", read_s=ANSWER_S) == [AnswerLost]
        assert time.monotonic() - began < UNBOUNDED_S


def test_unrequested_bytes_end_the_connection(posts: Posts) -> None:
    """On a reused connection, unrequested bytes would count as the answer to the next request."""
    with serving(answering(OK + OK, b""), answering(OK.replace(b"ok", b"no"))) as server:
        assert posts(server.url, b"1", b"2") == [OK_ANSWER, (200, b"no")]


def test_refused_connection_is_not_sent(posts: Posts) -> None:
    assert posts("http://127.0.0.1:1/", b"1") == [NotSent]


def test_unknown_name_is_not_sent(posts: Posts, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **_more: object) -> list[Any]:
        raise socket.gaierror("unknown")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    assert posts("http://dynamodb.example/", b"1") == [NotSent]


def test_slow_name_resolution_is_not_sent(posts: Posts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", slow_resolver)
    assert posts("http://dynamodb.example/", b"1", connect_s=0.1) == [NotSent]


def test_blocking_client_names_its_time_outs(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(connection: socket.socket, _requests: list[bytes]) -> None:
        while connection.recv(1_000):
            pass

    with serving(silent) as server:
        with pytest.raises(ConnectTimeout):
            pooled(server.url.replace("http:", "https:"), connect_s=0.2).request("POST", "/", {}, b"1")
        with pytest.raises(AnswerTimeout):
            pooled(server.url, read_s=0.2).request("POST", "/", {}, b"1")
        # The look-up of credentials may use up a call's time; by then another function may have sent the request.
        with pytest.raises(ConnectTimeout):
            pooled(server.url).request("POST", "/", {}, b"1", until=time.monotonic())
    monkeypatch.setattr(socket, "getaddrinfo", slow_resolver)
    with pytest.raises(ConnectTimeout):
        pooled("http://dynamodb.example/", connect_s=0.1).request("POST", "/", {}, b"1")


def two_pooled(url: str) -> list[Any]:
    with closing(pooled(url)) as client, ThreadPoolExecutor() as threads:
        return list(threads.map(lambda _: client.request("POST", "/", {}, b"1"), range(2)))


def two_asynchronously(url: str) -> list[Any]:
    async def post_both() -> list[Any]:
        client = HttpClient(url, answer_s=UNBOUNDED_S)
        until = asyncio.get_running_loop().time() + 5
        found = await asyncio.gather(*(client.post({}, b"1", connect_until=until) for _ in range(2)))
        await client.close()
        return found

    return asyncio.run(post_both())


@pytest.mark.parametrize("post_both", [two_pooled, two_asynchronously])
def test_calls_at_once_have_connections_of_their_own(post_both: Callable[[str], list[Any]]) -> None:
    both = threading.Barrier(2, timeout=UNBOUNDED_S)

    def together(connection: socket.socket, _requests: list[bytes]) -> None:
        read_request(connection)
        both.wait()
        connection.sendall(OK)
        connection.recv(1)

    with serving(together) as server:
        assert post_both(server.url) == [OK_ANSWER] * 2


@given(st.data())
def test_any_split_of_an_answer_reads_the_same(data: st.DataObject) -> None:
    body = data.draw(st.binary(max_size=50))
    chunks = [body[start : start + 7] for start in range(0, len(body), 7)]
    answer = data.draw(
        st.sampled_from(
            [
                b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body),
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                + b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
                + b"0\r\n\r\n",
            ]
        )
    )
    reader = AnswerReader()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(answer)), max_size=6)))
    pieces = [answer[start:end] for start, end in zip([0, *cuts], [*cuts, len(answer)], strict=True)]
    complete = [reader.feed(piece) for piece in pieces if piece]
    assert complete[-1]
    assert not any(complete[:-1])
    assert (reader.status, reader.body, reader.reusable) == (200, body, True)


@given(st.binary(max_size=300))
def test_any_bytes_are_an_answer_or_malformed(data: bytes) -> None:
    reader = AnswerReader()
    with suppress(Malformed):
        reader.feed(b"HTTP/1.1 200 OK\r\n" + data)
        reader.end()


class Keys:
    """Credentials and a clock that the test changes."""

    def __init__(self) -> None:
        self.key = "first"
        self.calls = 0

    def __call__(self) -> Credentials:
        self.calls += 1
        return Credentials(self.key, "secret", None)


def _requests(url: str, keys: Callable[[], Credentials], **limits: float) -> AsyncRequests:
    return AsyncRequests(
        "sns",
        Limits(**{"connect_s": 2.0, "read_s": ANSWER_S} | limits),  # type: ignore[arg-type]
        headers=FORM,
        url=url,
        region="eu-central-1",
        credentials=keys,
    )


@pytest.mark.parametrize("moved", [0.0, time.time() + 3600], ids=["a second later", "clock set back"])
def test_rotated_credentials_sign_later_provider_calls(moved: float) -> None:
    """Credentials are looked up once a second; concurrent calls share a look-up."""
    keys = Keys()

    async def work(requests: AsyncRequests) -> None:
        await asyncio.gather(*(requests.post(b"1") for _ in range(3)))
        keys.key = "second"
        requests._signed_at = moved  # the signer is a second old, or the clock was set back
        await requests.post(b"2")
        await requests.close()

    with serving(answering(OK, OK)) as server:
        asyncio.run(work(_requests(server.url, keys)))
    assert keys.calls == 2
    used = [request.partition(b"Credential=")[2].partition(b"/")[0] for request in server.requests if request]
    assert used == [b"first"] * 3 + [b"second"]


def test_request_after_late_credentials_is_not_sent() -> None:
    """If the look-up of credentials outlasts the call, another function may already have sent the message."""

    def late() -> Credentials:
        time.sleep(0.3)
        return Credentials("key", "secret")

    with serving(answering(OK)) as server, pytest.raises(NotSent, match="credentials"):
        asyncio.run(_requests(server.url, late, connect_s=0.05).post(b"1"))
    assert server.requests == []


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
