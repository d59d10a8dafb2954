"""The proxies cause the requested faults: a cell without its fault would prove nothing."""

import socket
import struct
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import StreamRequestHandler, ThreadingTCPServer

import httpx
import pytest

from tests.support.fault_stack.proxy import (
    Answer,
    Cut,
    DropAnswer,
    Edit,
    Hold,
    HttpProxy,
    KafkaProxy,
    Loop,
    produce_to,
)


class Server(ThreadingHTTPServer):
    """A server that returns the request in chunks and records it."""

    daemon_threads = True

    def __init__(self) -> None:
        self.got: list[bytes] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                server.got.append(body)
                self.send_response(200)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                self.wfile.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))

            def log_message(self, *_: object) -> None:
                """Do not log requests to standard error."""

        super().__init__(("127.0.0.1", 0), Handler)


@pytest.fixture
def loop() -> Iterator[Loop]:
    with Loop() as loop:
        yield loop


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def proxy(loop: Loop, server: Server) -> HttpProxy:
    return HttpProxy(loop, server.server_port)


@pytest.fixture
def client(proxy: HttpProxy) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"http://127.0.0.1:{proxy.port}", trust_env=False, timeout=20) as client:
        yield client


def test_requests_pass_without_a_fault(client: httpx.Client, server: Server) -> None:
    assert [client.post("/", content=b"one").content, client.post("/", content=b"two").content] == [b"one", b"two"]
    assert server.got == [b"one", b"two"]


def test_injected_answer_reaches_only_its_request(client: httpx.Client, proxy: HttpProxy, server: Server) -> None:
    with proxy.fault(Answer(status=429, body=b"{}"), when=lambda request: "/a" in request.operation, times=1) as fault:
        assert client.post("/b", content=b"b").status_code == 200
        assert client.post("/a", content=b"a").status_code == 429
        assert client.post("/a", content=b"a").status_code == 200
        assert fault.hits == 1
    assert server.got == [b"b", b"a"]


@pytest.mark.parametrize(("action", "arrives"), [(DropAnswer(), True), (Cut(), False)])
def test_a_connection_is_cut_before_or_after(
    client: httpx.Client, proxy: HttpProxy, server: Server, action: DropAnswer | Cut, arrives: bool
) -> None:
    with proxy.fault(action), pytest.raises(httpx.TransportError):
        client.post("/", content=b"x")
    assert server.got == ([b"x"] if arrives else [])
    assert client.post("/", content=b"y").content == b"y"


def test_held_request_arrives_when_released_but_not_discarded(
    client: httpx.Client, proxy: HttpProxy, server: Server
) -> None:
    with ThreadPoolExecutor() as pool:
        with proxy.fault(Hold()) as fault:
            asked = pool.submit(client.post, "/", content=b"released")
            fault.await_hits()
            assert server.got == []
        assert asked.result().content == b"released"
        with proxy.fault(Hold()) as fault:
            asked = pool.submit(client.post, "/", content=b"discarded")
            fault.await_hits()
            fault.discard()
            assert isinstance(asked.exception(), httpx.TransportError)
    assert server.got == [b"released"]


def test_an_answer_is_changed(client: httpx.Client, proxy: HttpProxy) -> None:
    with proxy.fault(Edit(bytes.upper)):
        assert client.post("/", content=b"abc").content == b"ABC"


def test_proxy_that_is_down_accepts_no_connection(client: httpx.Client, proxy: HttpProxy, server: Server) -> None:
    with proxy.down(), pytest.raises(httpx.TransportError):
        client.post("/", content=b"x")
    assert client.post("/", content=b"y").content == b"y"
    assert server.got == [b"y"]


def _frame(api: int, correlation: int, topic: bytes) -> bytes:
    body = struct.pack(">hhi", api, 9, correlation) + bytes([len(topic) + 1]) + topic
    return struct.pack(">i", len(body)) + body


def test_response_to_a_chosen_kafka_request_is_lost(loop: Loop) -> None:
    got = []

    class Broker(StreamRequestHandler):
        def handle(self) -> None:
            while size := self.rfile.read(4):
                body = self.rfile.read(struct.unpack(">i", size)[0])
                got.append(body)
                self.wfile.write(struct.pack(">i", 4) + body[4:8])

    with ThreadingTCPServer(("127.0.0.1", 0), Broker) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        proxy = KafkaProxy(loop, server.server_address[1])
        answers = []
        with (
            proxy.fault(DropAnswer(), when=produce_to("outcome")) as fault,
            socket.create_connection(("127.0.0.1", proxy.port)) as connection,
        ):
            for number, topic in enumerate((b"build", b"outcomes", b"outcome")):
                connection.sendall(_frame(0, number, topic))
                with suppress(ConnectionResetError):
                    answers.append(connection.recv(8))
        assert (fault.hits, len(got)) == (1, 3)
        assert [each for each in answers if each] == [struct.pack(">ii", 4, number) for number in (0, 1)]
        server.shutdown()
        thread.join()
