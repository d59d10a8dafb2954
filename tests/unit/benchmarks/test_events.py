"""The derived figures of lab.benchmarks.events, and its receivers."""

import json
import socket
import ssl
from pathlib import Path

from lab.benchmarks.event_chain import data, endpoint_key, percentiles
from lab.benchmarks.event_receivers import receivers
from lab.benchmarks.events import Goal
from masscomm.domain.webhooks import bucket_of


def test_a_goal_may_be_missed() -> None:
    assert Goal("a time", 100, 100).is_met
    assert not Goal("a time", 101, 100).is_met
    assert Goal("a rate", 100, 100, is_least=True).is_met
    assert not Goal("a rate", 99, 100, is_least=True).is_met


def test_percentiles_are_in_milliseconds() -> None:
    p50, p99 = percentiles([number / 1000 for number in range(101)])
    assert (round(p50), round(p99)) == (50, 99)
    assert percentiles([]) == (float("inf"), float("inf"))


def test_endpoints_of_one_bucket_have_ids_of_their_own() -> None:
    keys = [endpoint_key(club_id, one_bucket=True) for club_id in range(1, 20)]
    assert {bucket_of(key.id) for key in keys} == {0}
    assert len(set(keys)) == len(keys)


def test_receivers_count_events_and_repetitions(tmp_path: Path) -> None:
    with receivers(tmp_path, 3, failing=1) as served:
        bodies = [f"[{data(1)}, {data(2)}]", data(2)]
        assert _posted(served.ports[0], served.authority, [data(7)]) == [b"500"]
        assert _posted(served.ports[2], served.authority, bodies) == [b"200", b"200"]
        assert served.count() == 2
        received = served.take()
        assert received.latencies.keys() == {1, 2}
        assert all(0 <= each < 60 for each in received.latencies.values())
        assert (received.requests[2], received.messages[2], received.repeated) == (2, 3, 1)
        assert served.count() == 0
    assert json.loads(data(1))["number"] == 1


def _posted(port: int, authority: str, bodies: list[str]) -> list[bytes]:
    """Post bodies on one connection, and return the statuses."""
    statuses = []
    context = ssl.create_default_context(cafile=authority)
    with (
        socket.create_connection(("127.0.0.1", port)) as raw,
        context.wrap_socket(raw, server_hostname="localhost") as connection,
    ):
        for body in bodies:
            connection.sendall(f"POST / HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
            statuses.append(connection.recv(1_000).split(b" ")[1])
    return statuses
