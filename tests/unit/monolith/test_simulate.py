"""The changes of examples.monolith.simulate: their rate, and the measurement of one after the other."""

import threading
import time
from collections import deque
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import httpx
import psycopg
import pytest

from examples.monolith.simulate import TICK_S, Change, Watcher, directory, due, simulate

AT = datetime(2026, 1, 1, tzinfo=UTC)


class Pace:
    """A clock that passes in `sleep` alone. One of the waits is longer."""

    def __init__(self, *longer_s: float) -> None:
        self.now = 5.0
        self._longer_s = deque(longer_s)

    def sleep(self, seconds: float) -> None:
        self.now += self._longer_s.popleft() if self._longer_s else seconds


def test_changes_are_due_at_a_steady_rate() -> None:
    """After a wait that took too long, all that is due by then is changed at once; nothing is left out."""
    pace = Pace(TICK_S, 0.1)
    counts = list(due(1_000, 1, clock=lambda: pace.now, sleep=pace.sleep))
    assert counts[:3] == [20, 100, 20]
    assert sum(counts) == 1_000


def test_rate_below_one_a_tick_is_kept() -> None:
    pace = Pace()
    assert list(due(10, 1, clock=lambda: pace.now, sleep=pace.sleep)) == [1] * 10


class Rows:
    """A connection to a table of users."""

    def __init__(self, *ids: int) -> None:
        self.ids = ids
        self.changed: list[list[int]] = []

    def execute(self, statement: str, parameters: tuple[Any]) -> "Rows":
        self._rows: list[tuple[Any, ...]] = [(each,) for each in self.ids]
        if statement.startswith("UPDATE"):
            self.changed.append(parameters[0])
            self._rows = [(each, AT) for each in parameters[0]]
        return self

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self._rows


def test_each_due_row_is_changed_once_a_transaction() -> None:
    rows = Rows(1, 2, 3)
    made: list[object] = []
    count, _ = simulate(cast(psycopg.Connection[Any], rows), 1_000, 0.05, made.append)
    assert count == 50
    assert sum(map(len, rows.changed)) == 50
    assert all(len(each) == len(set(each)) for each in rows.changed)
    assert len(made) == len(rows.changed)


def test_monolith_without_users_is_refused() -> None:
    with pytest.raises(SystemExit, match=r"examples\.monolith\.seed"):
        simulate(cast(psycopg.Connection[Any], Rows()), 10, 1, lambda _: None)


def test_change_is_awaited_until_the_directory_has_it() -> None:
    found = deque([None, AT - timedelta(microseconds=1), AT])
    watcher = Watcher(lambda _: found.popleft())
    with watcher.running():
        watcher.committed(Change(7, AT, time.perf_counter() - 1))
    assert not found
    assert watcher.summary() == "1 measured"
    assert 1_000 <= watcher.latencies_ms[0] < 20_000


def test_changes_meanwhile_are_not_measured() -> None:
    reading, may_end = threading.Event(), threading.Event()

    def read(_: int) -> datetime:
        reading.set()
        assert may_end.wait(10)
        return AT

    watcher = Watcher(read)
    with watcher.running():
        for number in range(3):
            watcher.committed(Change(number, AT, time.perf_counter()))
            assert reading.wait(10)
        may_end.set()
    assert len(watcher.latencies_ms) == 2
    assert watcher.summary().startswith("2 measured: p50 ")


def test_error_of_the_directory_is_raised() -> None:
    client = httpx.Client(base_url="http://d/users", transport=httpx.MockTransport(lambda _: httpx.Response(503)))
    watcher = Watcher(directory(client))
    with pytest.raises(httpx.HTTPStatusError), watcher.running():
        watcher.committed(Change(1, AT, time.perf_counter()))


def test_absent_document_is_not_readable() -> None:
    answers = deque(
        [httpx.Response(404), httpx.Response(200, json={"_source": {"updated_at": "2026-01-01T00:00:00Z"}})]
    )
    transport = httpx.MockTransport(lambda _: answers.popleft())
    read = directory(httpx.Client(base_url="http://d/users", transport=transport))
    assert [read(1), read(1)] == [None, AT]
