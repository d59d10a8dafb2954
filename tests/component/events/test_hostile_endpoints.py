"""Endpoints that hang, fail, ask to wait or answer wrongly, beside one that works, with the real DynamoDB."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from functions.webhook_sender.gateway import FAILURES_IN_A_ROW
from masscomm.domain.time_limits import EVENT_ATTEMPT_S
from masscomm.domain.webhooks import DEFAULT_CONCURRENCY, EndpointKey
from masscomm.kafka import topics
from tests.support.harness.sender_process import KEY, SenderStores, batch, in_a_process, sender_stores
from tests.support.harness.webhook_receiver import receiving

__all__ = ["sender_stores"]

WORKS = EndpointKey(7, "ep_7_bbbbbbbbbbbbbbbbbbbb")
_OK = b"HTTP/1.1 200 OK\r\n"


@contextmanager
def server(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """Yield the URL of a server that answers each connection, after a part of its request, by a function."""
    ended = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(0.1)

    def accept() -> None:
        while not ended.is_set():
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                continue
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    def serve(connection: socket.socket) -> None:
        with connection:
            try:
                connection.recv(65_536)
                answer(connection)
            except OSError:
                return  # The function has ended the connection.

    thread = threading.Thread(target=accept)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
    finally:
        ended.set()
        thread.join()
        listener.close()


def hangs(connection: socket.socket) -> None:
    while connection.recv(1_000):
        pass


def byte_by_byte(connection: socket.socket) -> None:
    for byte in _OK + b"Content-Length: 100000\r\n\r\n" + b"x" * 100_000:
        connection.sendall(bytes([byte]))
        time.sleep(0.05)


def a_gigabyte(connection: socket.socket) -> None:
    connection.sendall(_OK + b"Content-Length: 1000000000\r\n\r\n")
    for _ in range(1_000):
        connection.sendall(b"x" * 1_000_000)


def answers(text: bytes) -> Callable[[socket.socket], None]:
    return lambda connection: connection.sendall(text)


REDIRECT = answers(b"HTTP/1.1 307 Moved\r\nLocation: http://127.0.0.1:9/\r\nContent-Length: 0\r\n\r\n")
FAILS = answers(b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n")
BUSY = answers(b"HTTP/1.1 429 Busy\r\nRetry-After: 3600\r\nContent-Length: 0\r\n\r\n")


@pytest.mark.parametrize(
    ("answer", "status", "error"),
    [
        pytest.param(hangs, None, f"no answer within {EVENT_ATTEMPT_S:g} s", id="hangs"),
        *(
            pytest.param(*each, marks=pytest.mark.nightly, id=name)
            for name, *each in (
                ("fails", FAILS, 500, ""),
                ("busy", BUSY, 429, ""),
                ("redirects", REDIRECT, 307, ""),
                ("no HTTP", answers(b"SSH-2.0-OpenSSH\r\n\r\n"), None, "the connection failed"),
            )
        ),
    ],
)
def test_a_failing_endpoint_delays_no_other(
    sender_stores: SenderStores, answer: Callable[[socket.socket], None], status: int | None, error: str
) -> None:
    """Its messages wait, and the other endpoint has its messages without a repetition."""
    with receiving() as receiver, server(answer) as url:
        sender_stores.create(url)
        sender_stores.create(receiver.url, WORKS)
        assert in_a_process(batch(40, KEY, WORKS)) == 0
        assert len(receiver.received) == 40
        waiting = sender_stores.waiting()
        assert {each.endpoints[0] for each in waiting} == {KEY.id}
        assert sum(len(each.event_index) for each in waiting) == 40
        failed = [row for row in sender_stores.results() if row.status == "retried"]
        assert {(row.http_status, row.error) for row in failed} == {(status, error)}
        # The calls in flight, after as many failures as an endpoint may have in a row.
        assert 1 <= len(failed) < DEFAULT_CONCURRENCY + FAILURES_IN_A_ROW
        assert sender_stores.endpoint().failing_since_ms is not None
        # The next batch makes no attempt, in any environment.
        assert in_a_process(batch(5, KEY, offset=1)) == 0
        assert len([row for row in sender_stores.results() if row.status == "retried"]) == len(failed)


def test_retry_after_delays_all_messages_of_an_endpoint(sender_stores: SenderStores) -> None:
    with server(BUSY) as url:
        sender_stores.create(url)
        began_ms = time.time() * 1000
        assert in_a_process(batch(20)) == 0
    assert min(sender_stores.due_ms()) >= began_ms + 3_600_000


@pytest.mark.parametrize("answer", [byte_by_byte, a_gigabyte])
def test_an_endless_answer_ends_with_the_limits(
    sender_stores: SenderStores, answer: Callable[[socket.socket], None]
) -> None:
    """The status decides. The rest is not read beyond the size and the time of an answer."""
    with server(answer) as url:
        sender_stores.create(url, max_concurrency=2)
        assert in_a_process(batch(2)) == 0
    assert [row.status for row in sender_stores.results()] == ["delivered"] * 2
    if answer is byte_by_byte:
        assert sender_stores.endpoint().is_slow


@pytest.mark.nightly
def test_a_repeated_message_has_a_longer_time(sender_stores: SenderStores) -> None:
    def answers_late(connection: socket.socket) -> None:
        time.sleep(EVENT_ATTEMPT_S + 1)
        connection.sendall(_OK + b"Content-Length: 0\r\n\r\n")

    with server(answers_late) as url:
        sender_stores.create(url)
        assert in_a_process(batch(1)) == 0
        assert [row.status for row in sender_stores.results()] == ["retried"]
        assert sender_stores.endpoint().is_slow
        sender_stores.let_probe()
        assert in_a_process(batch(1, topic=topics.WEBHOOK_SLOW, attempt=1)) == 0
    assert sorted(row.status for row in sender_stores.results()) == ["delivered", "retried"]
    state = sender_stores.endpoint()
    assert (state.failing_since_ms, state.is_slow) == (None, True)
