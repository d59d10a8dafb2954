"""The HTTP clients of the provider gateway: our own and aiohttp's keep the same contract."""

import asyncio
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masscomm.aws.async_http import HttpClient
from masscomm.aws.async_requests import AsyncRequests
from masscomm.aws.http_answer import AnswerLost, AnswerReader, Malformed, NotSent
from masscomm.aws.request import FORM, Limits
from masscomm.aws.signature import Credentials
from tests.support.reference_http.aiohttp_client import AiohttpClient
from tests.support.servers.scripted_server import OK, answering, read_request, serving, slow_resolver

ANSWER_S = 0.5
UNBOUNDED_S = 10.0


class HttpContract:
    """The contract of a client; a subclass defines the fixture `client`, which makes the client of a URL."""

    def posts(
        self, client: Callable[[str], Any], url: str, *bodies: bytes, pause_s: float = 0.0, connect_s: float = 5.0
    ) -> list[Any]:
        """Post these bodies one after another with one client. Returns the answer or error of each request."""

        async def post_all() -> list[Any]:
            made, found = client(url), list[Any]()
            try:
                await each(made, found)
            finally:
                await made.close()
            return found

        async def each(made: Any, found: list[Any]) -> None:
            for body in bodies:
                until = asyncio.get_running_loop().time() + connect_s
                try:
                    found.append(await made.post({"a": "b"}, body, connect_until=until))
                except (NotSent, AnswerLost) as error:
                    found.append(type(error))
                time.sleep(pause_s)  # blocks the event loop, as Lambda does when it freezes the environment

        return asyncio.run(post_all())

    def test_request_has_only_the_given_headers(self, client: Callable[[str], Any]) -> None:
        with serving(answering(OK)) as server:
            assert self.posts(client, server.url, b"body") == [(200, b"ok")]
        head, _, body = server.requests[0].partition(b"\r\n\r\n")
        line, *headers = head.split(b"\r\n")
        assert line == b"POST / HTTP/1.1"
        port = server.url.rpartition(":")[2].strip("/").encode()
        wanted = {b"host: 127.0.0.1:" + port, b"a: b", b"content-length: 4"}
        assert {header.lower() for header in headers} == wanted
        assert body == b"body"

    def test_connection_is_kept_for_the_next_request(self, client: Callable[[str], Any]) -> None:
        with serving(answering(OK, OK, OK)) as server:
            assert self.posts(client, server.url, b"1", b"2", b"3") == [(200, b"ok")] * 3
        assert server.connections == 1

    @pytest.mark.parametrize(
        ("answer", "expected"),
        [
            (b"HTTP/1.1 400 Bad\r\ncontent-length: 3\r\n\r\nbad", (400, b"bad")),
            (b"HTTP/1.1 503\r\nContent-Length:0\r\n\r\n", (503, b"")),
            (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", (200, b"ok")),
            (
                b"HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n1;x=y\r\no\r\n01\r\nk\r\n0\r\nA: b\r\n\r\n",
                (200, b"ok"),
            ),
            (b"HTTP/1.1 100 Continue\r\n\r\n" + OK, (200, b"ok")),
            (b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK, (200, b"ok")),
        ],
        ids=["refusal", "empty", "chunks", "chunks with extensions", "continue", "early hints"],
    )
    def test_answer_is_read_in_any_pieces(
        self, client: Callable[[str], Any], answer: bytes, expected: tuple[int, bytes]
    ) -> None:
        def slowly(connection: socket.socket, _requests: list[bytes]) -> None:
            for size in (1, len(answer)):
                read_request(connection)
                for start in range(0, len(answer), size):
                    connection.sendall(answer[start : start + size])
            connection.recv(1)

        with serving(slowly) as server:
            assert self.posts(client, server.url, b"1", b"2") == [expected] * 2

    @pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\nConnection: close\r\n", b"HTTP/1.0 200 OK\r\n"])
    def test_answer_without_length_ends_with_its_connection(self, client: Callable[[str], Any], head: bytes) -> None:
        with serving(answering(head + b"\r\nok", close=True)) as server:
            assert self.posts(client, server.url, b"1", b"2") == [(200, b"ok")] * 2
        assert server.connections == 2

    def test_connection_that_the_server_ends_is_not_reused(self, client: Callable[[str], Any]) -> None:
        closing = OK.replace(b"\r\n", b"\r\nConnection: close\r\n", 1)
        with serving(answering(closing)) as server:
            assert self.posts(client, server.url, b"1", b"2") == [(200, b"ok")] * 2
        assert server.connections == 2

    def test_connection_ended_while_frozen_loses_no_request(self, client: Callable[[str], Any]) -> None:
        with serving(answering(OK, close=True)) as server:
            assert self.posts(client, server.url, b"1", b"2", pause_s=0.7) == [(200, b"ok")] * 2
        assert server.connections == 2

    @pytest.mark.parametrize("part", [b"", b"HTTP/1.1 200 OK\r\nConte", OK[:-1]], ids=["nothing", "head", "body"])
    @pytest.mark.parametrize("how", ["end", "reset"])
    def test_cut_answer_is_lost(self, client: Callable[[str], Any], part: bytes, how: str) -> None:
        def cut(connection: socket.socket, _requests: list[bytes]) -> None:
            read_request(connection)
            connection.sendall(part)
            if how == "reset":
                time.sleep(0.05)  # lets the client read the sent bytes before the reset
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")

        with serving(cut, answering(OK)) as server:
            assert self.posts(client, server.url, b"1", b"2") == [AnswerLost, (200, b"ok")]

    def test_half_closed_connection_answers_and_is_not_reused(self, client: Callable[[str], Any]) -> None:
        def half(connection: socket.socket, _requests: list[bytes]) -> None:
            read_request(connection)
            connection.sendall(OK)
            connection.shutdown(socket.SHUT_WR)
            connection.recv(1)

        with serving(half) as server:
            assert self.posts(client, server.url, b"1", b"2", pause_s=0.1)[0] == (200, b"ok")
            assert self.posts(client, server.url, b"3") == [(200, b"ok")]

    def test_early_answer_ends_the_connection(self, client: Callable[[str], Any]) -> None:
        """An early answer leaves unread bytes, which the server would read as another request."""
        refusal = b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno"

        def early(connection: socket.socket, _requests: list[bytes]) -> None:
            connection.recv(1000)
            connection.sendall(refusal)
            connection.recv(1000)
            time.sleep(0.2)

        with serving(early, answering(OK)) as server:
            first, second = self.posts(client, server.url, b"m" * 30_000_000, b"2")
        assert first in ((413, b"no"), AnswerLost)
        assert second == (200, b"ok")

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
    def test_malformed_answer_is_lost(self, client: Callable[[str], Any], answer: bytes) -> None:
        with serving(answering(answer)) as server:
            assert self.posts(client, server.url, b"1") == [AnswerLost]

    def test_trickling_answer_is_lost_in_time(self, client: Callable[[str], Any]) -> None:
        def trickle(connection: socket.socket, _requests: list[bytes]) -> None:
            read_request(connection)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n")
            until = time.monotonic() + 1.5 * UNBOUNDED_S
            while time.monotonic() < until:
                connection.sendall(b"x")
                time.sleep(0.05)

        with serving(trickle) as server:
            began = time.monotonic()
            assert self.posts(client, server.url, b"1", connect_s=0.2) == [AnswerLost]
            assert time.monotonic() - began < UNBOUNDED_S

    def test_refused_connection_is_not_sent(self, client: Callable[[str], Any]) -> None:
        assert self.posts(client, "http://127.0.0.1:1/", b"1") == [NotSent]

    def test_slow_name_resolution_is_not_sent(
        self, client: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(socket, "getaddrinfo", slow_resolver)
        assert self.posts(client, "http://sns.example/", b"1", connect_s=0.1) == [NotSent]

    def test_calls_at_once_have_connections_of_their_own(self, client: Callable[[str], Any]) -> None:
        both = threading.Barrier(2, timeout=UNBOUNDED_S)

        def together(connection: socket.socket, _requests: list[bytes]) -> None:
            read_request(connection)
            both.wait()
            connection.sendall(OK)
            connection.recv(1)

        async def post_both(url: str) -> list[Any]:
            made = client(url)
            until = asyncio.get_running_loop().time() + 5
            found = await asyncio.gather(*(made.post({}, b"1", connect_until=until) for _ in range(2)))
            await made.close()
            return found

        with serving(together) as server:
            assert asyncio.run(post_both(server.url)) == [(200, b"ok")] * 2


class TestOwnClient(HttpContract):
    @pytest.fixture
    def client(self) -> Callable[[str], HttpClient]:
        return lambda url: HttpClient(url, answer_s=ANSWER_S)

    def test_unrequested_bytes_end_the_connection(self, client: Callable[[str], Any]) -> None:
        """On a reused connection, unrequested bytes would count as the answer to the next request."""
        with serving(answering(OK + OK, b""), answering(OK.replace(b"ok", b"no"))) as server:
            assert self.posts(client, server.url, b"1", b"2") == [(200, b"ok"), (200, b"no")]


class TestAiohttpClient(HttpContract):
    @pytest.fixture
    def client(self) -> Callable[[str], AiohttpClient]:
        return lambda url: AiohttpClient(url, answer_s=ANSWER_S)


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
def test_rotated_credentials_sign_later_requests(moved: float) -> None:
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
