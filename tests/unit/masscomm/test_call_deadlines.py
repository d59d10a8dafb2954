"""A call to AWS ends within its time, whatever server and resolver do, because the delivery lease depends on this."""

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from masscomm.aws.http_answer import AnswerLost, NotSent
from masscomm.aws.request import Limits, Requests
from masscomm.aws.signature import Credentials
from masscomm.channels.sns_push import SnsPush
from masscomm.domain.provider_errors import Transient
from tests.support.contracts.provider import publish

TOTAL_S = 0.5
# Seconds after which a call counts as unbounded: a busy machine delays less, the servers of these tests more.
UNBOUNDED_S = 10.0
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"


def _trickle(connection: socket.socket, stop: threading.Event, first: bytes) -> None:
    """Send one byte every 50 ms, so that no read times out."""
    connection.recv(65_536)
    connection.sendall(first)
    until = time.monotonic() + 1.5 * UNBOUNDED_S  # limited, so that an unbounded call fails the test instead of hanging
    while not stop.wait(0.05) and time.monotonic() < until:
        connection.sendall(b"x")


def _headers(connection: socket.socket, stop: threading.Event) -> None:
    _trickle(connection, stop, b"HTTP/1.1 200 OK\r\nX-Long: ")


def _body(connection: socket.socket, stop: threading.Event) -> None:
    _trickle(connection, stop, HEAD)


def _closing(connection: socket.socket, stop: threading.Event) -> None:
    """Send a body without a length, which ends with the connection: a truncated body must not count as complete."""
    _trickle(connection, stop, b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")


def _silent(_connection: socket.socket, stop: threading.Event) -> None:
    stop.wait()


def _slow_reader(connection: socket.socket, stop: threading.Event) -> None:
    """Reads the request slowly, so that sending does not end."""
    while not stop.wait(0.05):
        connection.recv(1_000)


@contextmanager
def _serving(behave: Callable[[socket.socket, threading.Event], None]) -> Iterator[int]:
    """The port of a server that runs `behave` for each connection."""
    stop = threading.Event()
    threads = []

    def serve(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            behave(connection, stop)

    def accept(listening: socket.socket) -> None:
        with suppress(OSError):
            while True:
                threads.append(threading.Thread(target=serve, args=(listening.accept()[0],)))
                threads[-1].start()

    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    accepting = threading.Thread(target=accept, args=(listening,))
    accepting.start()
    try:
        yield listening.getsockname()[1]
    finally:
        stop.set()
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        for thread in (accepting, *threads):
            thread.join()


def _push(url: str) -> None:
    """Publish once; the call must end within TOTAL_S."""
    push = SnsPush(url=url, region="eu-central-1", credentials=lambda: Credentials("key", "secret"))
    push._api._requests._http._answer_s = TOTAL_S
    # The message exceeds the sockets' buffers, so sending blocks if the server does not read.
    publish(push, endpoint_arn="a", message="m" * 4_000_000, attributes={})


def _request(url: str) -> None:
    """Send a request of another service once; it must end within TOTAL_S."""
    limits = Limits(connect_s=60, read_s=60)  # longer than TOTAL_S, so that only the limit of the whole call can end it
    requests = Requests(
        "dynamodb", limits, url=url, region="eu-central-1", credentials=lambda: Credentials("key", "secret")
    )
    requests._total_s = TOTAL_S
    with pytest.raises((NotSent, AnswerLost)) as raised:
        requests.post(b"m" * 4_000_000, {})
    raise Transient("", answer_lost=isinstance(raised.value, AnswerLost))


@pytest.mark.guarantee("push.provider_call_is_bounded")
@pytest.mark.kills(guard="provider.call_deadline")
@pytest.mark.kills(guard="pooled_http.call_deadline")
@pytest.mark.parametrize("call", [_push, _request])
@pytest.mark.parametrize("behave", [_headers, _body, _closing, _silent, _slow_reader])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_call_to_a_faulty_server_ends_in_time(
    call: Callable[[str], None],
    behave: Callable[[socket.socket, threading.Event], None],
    scheme: str,
    certificate: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The answer counts as lost: the provider may have accepted the message. The next call has its own time."""
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(certificate)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))

    def behaving(connection: socket.socket, stop: threading.Event) -> None:
        if scheme == "http":
            return behave(connection, stop)
        with server_side.wrap_socket(connection, server_side=True) as trusted:
            return behave(trusted, stop)

    with _serving(behaving) as port:
        for _ in range(2):
            began = time.monotonic()
            with pytest.raises(Transient) as raised:
                call(f"{scheme}://localhost:{port}")
            assert raised.value.answer_lost
            assert time.monotonic() - began < UNBOUNDED_S


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Key and self-signed certificate of localhost, in one file."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path = tmp_path_factory.mktemp("tls") / "localhost.pem"
    path.write_bytes(private + made.public_bytes(pem))
    return path
