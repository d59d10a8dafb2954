"""Change rows of the monolith at a steady rate, and measure how long changes take to be readable in the directory.

    python -m examples.monolith.simulate --dsn postgresql://… --changes-per-s 1000 --for 30 \\
        --directory http://127.0.0.1:9200/users

Each transaction changes the rows of about 20 ms. One of its rows is read from the directory by id again and again until
it has the change; the next transaction after that is the next one to be measured. Without `--directory`, nothing is
measured.
"""

import argparse
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import batched, cycle, islice
from queue import Full, Queue
from typing import Any

import httpx
import psycopg

TICK_S = 0.02
# Other processes share the processors.
_POLL_S = 0.001
_TIMEOUT_S = 20.0
_MOST_USERS = 10_000

type Read = Callable[[int], datetime | None]


class NotReadable(Exception):
    """A change is not in the directory within _TIMEOUT_S."""


@dataclass(frozen=True)
class Change:
    """A committed change of a user's row."""

    user_id: int
    # The row's `updated_at`.
    updated_at: datetime
    # The time of the commit, by time.perf_counter.
    committed: float


def due(
    per_s: float,
    seconds: float,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[int]:
    """Yield, each TICK_S or later, how many changes are due since the last time, until all of the seconds are due."""
    began, made = clock(), 0
    while made < round(per_s * seconds):
        wanted = round(per_s * min(clock() - began, seconds))
        if wanted > made:
            yield wanted - made
            made = wanted
        sleep(TICK_S)


def change(connection: psycopg.Connection[Any], user_ids: list[int]) -> Change:
    """Change existing rows in one transaction, and return the change of one of them. Raises psycopg.Error."""
    rows = connection.execute(
        "UPDATE users SET updated_at = clock_timestamp() WHERE id = ANY(%s) RETURNING id, updated_at", (user_ids,)
    ).fetchall()
    committed = time.perf_counter()
    user_id, updated_at = rows[-1]
    return Change(user_id, updated_at, committed)


class Watcher:
    """Measures one change after the other in a thread of its own.

    Args:
        read: Returns `updated_at` of a user in the directory; None if it has none.
    """

    def __init__(self, read: Read) -> None:
        self._read = read
        self._next: Queue[Change | None] = Queue(1)
        self._error: Exception | None = None
        # The milliseconds of each measured change.
        self.latencies_ms: list[float] = []

    @contextmanager
    def running(self) -> Iterator[None]:
        """Measure during this context. Raises what `read` raised, or NotReadable."""
        thread = threading.Thread(target=self._watch, name="watcher", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._next.put(None)
            thread.join()
        if self._error is not None:
            raise self._error

    def committed(self, made: Change) -> None:
        """Measure this change, unless another one is being measured."""
        try:
            self._next.put_nowait(made)
        except Full:
            return

    def summary(self) -> str:
        """Return the percentiles of the measured changes."""
        if len(self.latencies_ms) < 2:
            return f"{len(self.latencies_ms)} measured"
        hundredths = statistics.quantiles(self.latencies_ms, n=100, method="inclusive")
        return f"{len(self.latencies_ms)} measured: p50 {hundredths[49]:.0f} ms, p99 {hundredths[98]:.0f} ms"

    def _watch(self) -> None:
        while (made := self._next.get()) is not None:
            try:
                self.latencies_ms.append(self._await(made))
            except Exception as error:
                self._error = error

    def _await(self, made: Change) -> float:
        """Return the milliseconds from a change's commit until the directory returns it."""
        while (passed := time.perf_counter() - made.committed) < _TIMEOUT_S:
            found = self._read(made.user_id)
            if found is not None and found >= made.updated_at:
                return (time.perf_counter() - made.committed) * 1000
            time.sleep(_POLL_S)
        raise NotReadable(f"the change of user {made.user_id} is not in the directory after {passed:.0f} s")


def directory(client: httpx.Client) -> Read:
    """Return a reader of an index of users in OpenSearch."""

    def read(user_id: int) -> datetime | None:
        answer = client.get(f"/_doc/{user_id}")
        if answer.status_code == httpx.codes.NOT_FOUND:
            return None
        return datetime.fromisoformat(answer.raise_for_status().json()["_source"]["updated_at"])

    return read


def simulate(
    connection: psycopg.Connection[Any], per_s: float, seconds: float, committed: Callable[[Change], None]
) -> tuple[int, float]:
    """Change rows, and return their number and the seconds that the changes took.

    Args:
        committed: Gets a change of each transaction.

    Raises:
        psycopg.Error: A transaction failed.
        SystemExit: The monolith has no users.
    """
    known = connection.execute("SELECT id FROM users ORDER BY id LIMIT %s", (_MOST_USERS,)).fetchall()
    if not known:
        raise SystemExit("The table users is empty: run python -m examples.monolith.seed first.")
    user_ids = cycle([user_id for (user_id,) in known])
    made, began = 0, time.monotonic()
    for count in due(per_s, seconds):
        # A row changes once in a transaction.
        for some in batched(islice(user_ids, count), len(known), strict=False):
            committed(change(connection, list(some)))
        made += count
    return made, time.monotonic() - began


def main() -> None:
    parser = argparse.ArgumentParser(description="Change rows of the monolith at a steady rate.")
    parser.add_argument("--dsn", required=True, help="the monolith's database")
    parser.add_argument("--changes-per-s", type=float, default=100, help="(default: %(default)s)")
    parser.add_argument(
        "--for", type=float, default=10, dest="seconds", metavar="SECONDS", help="(default: %(default)s)"
    )
    parser.add_argument("--directory", help="the URL of the index of users in OpenSearch, to measure the changes")
    chosen = parser.parse_args()
    with psycopg.connect(chosen.dsn, autocommit=True) as connection:
        if chosen.directory is None:
            made, took = simulate(connection, chosen.changes_per_s, chosen.seconds, lambda _: None)
        else:
            with httpx.Client(base_url=chosen.directory, trust_env=False) as client:
                watcher = Watcher(directory(client))
                with watcher.running():
                    made, took = simulate(connection, chosen.changes_per_s, chosen.seconds, watcher.committed)
            print(watcher.summary())
    print(f"{made:,} changes, {made / took:,.0f}/s")


if __name__ == "__main__":
    main()
