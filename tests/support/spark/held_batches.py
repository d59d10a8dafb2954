"""Stops a batch of the metrics job at one of its steps: triggers of the tables wait there for a lock."""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psycopg

from spark_metrics.sql import read_sql
from tests.support.spark.metrics_job import wait_until

# Step of a batch → event of the trigger that stops it. A constraint trigger stops the commit itself.
POINTS = {
    "while a lane merges": "before insert on sends",
    "before a lane commits": "before insert on lane_offsets",
    "while a lane commits": "after insert or update on lane_offsets",
    "after the lanes": "before insert on stream_offsets",
    "during the commit": "after insert or update on stream_offsets",
}
# One lane waits before its first statement, and the others are merged.
BETWEEN_LANES = "between the lanes"
HOLD = """
create function hold_up() returns trigger language plpgsql as $$
begin
    perform pg_advisory_xact_lock_shared(tg_argv[0]::bigint);
    return null;
end $$
"""
# How long the other lanes of a batch merge nothing before the batch is taken for one of a single lane.
ONE_LANE_S = 15.0


class Held:
    """Stops a batch at one point until `let_go` is called."""

    def __init__(self, database: str, point: str, lanes: int) -> None:
        self._lane = point == BETWEEN_LANES
        self._alone_since: float | None = None
        self._connection = psycopg.connect(database, autocommit=True)
        # The lock of a lane is spark_metrics.counting.lane_merge's.
        [lock] = self._connection.execute("select hashtext(current_schema)").fetchone() or [0]
        self._key = (lock, lanes * 100_000) if self._lane else (0, list(POINTS).index(point) + 1)
        how = "select pg_advisory_lock(%s, %s)" if self._lane else "select pg_advisory_lock(%s::bigint << 32 | %s)"
        self._connection.execute(how.encode(), self._key)

    def waiting(self) -> list[int]:
        """Return the pids of the server processes that wait at the point. Between the lanes, all others have ended."""
        return [] if self._lane and not self.is_partly_merged() else self._waiting_pids()

    def _waiting_pids(self) -> list[int]:
        rows = self._connection.execute(
            "select l.pid from pg_locks as l join pg_database as d on d.oid = l.database"
            " where d.datname = current_database() and locktype = 'advisory' and classid = %s and objid = %s"
            " and not granted",
            self._key,
        )
        return [pid for (pid,) in rows]

    def passes_batch_of_one_lane(self) -> bool:
        """Let a batch pass if its other lanes have merged nothing for a while, and return whether it passes.

        The job may begin a batch with the first few records of a step, all of them in the held lane.
        """
        alone = self._lane and not self.is_partly_merged() and bool(self._waiting_pids())
        self._alone_since = (self._alone_since or time.monotonic()) if alone else None
        if self._alone_since is None or time.monotonic() - self._alone_since < ONE_LANE_S:
            return False
        self._alone_since = None
        self._connection.execute("select pg_advisory_unlock(%s, %s)", self._key)
        self._connection.execute("select pg_advisory_lock(%s, %s)", self._key)
        return True

    def is_partly_merged(self) -> bool:
        return self._connection.execute(read_sql("unfinished_batch")).fetchone() == (True,)

    def cut_off(self) -> None:
        """Terminate the waiting server processes, and so their transactions."""
        for pid in self.waiting():
            self._connection.execute("select pg_terminate_backend(%s)", [pid])
        wait_until("the held transaction to end", lambda: not self.waiting())

    def let_go(self) -> None:
        with suppress(psycopg.OperationalError):  # a killed server has already released the lock
            self._connection.execute("select pg_advisory_unlock_all()")
        self._connection.close()


@contextmanager
def held_up(database: str, point: str, lanes: int) -> Iterator[Held]:
    held = Held(database, point, lanes)
    try:
        yield held
    finally:
        held.let_go()


def install_points(database: str) -> None:
    with psycopg.connect(database) as connection:
        connection.execute(HOLD)
        for number, when in enumerate(POINTS.values(), start=1):
            deferred = when.startswith("after")
            connection.execute(
                f"create {'constraint' if deferred else ''} trigger hold_{number} {when}"
                f" {'deferrable initially deferred for each row' if deferred else 'for each statement'}"
                f" execute function hold_up('{number}')".encode()
            )
