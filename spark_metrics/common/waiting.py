"""Waits for dependencies that are down, and for the end of a batch."""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import psycopg
from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery

from masscomm.errors import Retry
from spark_metrics.common.database import first_line

_log = logging.getLogger(__name__)

_PAUSE_S = 0.5
_FINISH_BATCH_S = 15.0


class DependencyWaiter:
    """Repeats calls to dependencies that are down, until the job stops.

    Args:
        wait_s: How long a dependency may be down.

    Attributes:
        stopped: Set when the job is to stop.
    """

    def __init__(self, wait_s: float) -> None:
        self._wait_s = wait_s
        self.stopped = threading.Event()

    def pause(self) -> bool:
        """Wait for a moment, and return whether the job is to stop."""
        return self.stopped.wait(_PAUSE_S)

    def call[T](self, dependency: str, attempt: Callable[[], T]) -> T:
        """Repeat a call until it succeeds, and return its result. Raises Retry after wait_s, or when the job stops."""
        deadline = time.monotonic() + self._wait_s
        logged = ""
        while True:
            try:
                return attempt()
            except (Retry, psycopg.OperationalError) as error:
                reason = first_line(error)
                if self.stopped.is_set() or time.monotonic() > deadline:
                    raise Retry(f"{dependency} stayed down for {self._wait_s:.0f} s: {reason}") from error
                if reason != logged:
                    _log.warning("waiting for %s: %s", dependency, reason)
                    logged = reason
            self.pause()


def finish(query: StreamingQuery) -> None:
    """Let the running batch end, then stop the query: the next start would repeat an interrupted batch."""
    deadline = time.monotonic() + _FINISH_BATCH_S
    while query.isActive and query.status["isTriggerActive"] and time.monotonic() < deadline:
        time.sleep(0.05)
    with suppress(StreamingQueryException):
        query.stop()
