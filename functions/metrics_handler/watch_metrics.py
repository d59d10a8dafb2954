"""GET /v1/metrics/stream: a long poll that answers when something has been counted.

since   the cursor of the answer before; without it the answer comes at once
wait    seconds to wait at most, 20 without it: a request ends before API Gateway's 29 s are over

and, where wanted, the parameters of GET /v1/metrics: its answer is then sent along (`metrics`) when something changed.

The cursor moves when a batch is counted, and when another whole minute is complete: the watermark alone moves every
second while nothing happens, and no figure with it. No connection is held while waiting, and nothing is missed between
two requests: what is counted then is newer than the cursor. Rows that are sent along may be newer than the cursor
beside them, never older.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from functions.metrics_handler import parameters as parse
from functions.metrics_handler.buckets import LENGTH, floor
from functions.metrics_handler.metrics_store import Granularity, MetricsStore, Position
from functions.metrics_handler.parameters import Reader, rfc3339
from functions.metrics_handler.query_metrics import PARAMETERS as QUERY_PARAMETERS
from functions.metrics_handler.query_metrics import QueryMetrics, parse_query
from functions.metrics_handler.tenant import seen
from masscomm.clock import Clock
from masscomm.tenant import Clubs

MAX_WAIT_S = 20
# A look is one row by its key.
LOOK_EVERY_S = 0.5
# What a query for the rows may take once the waiting is over.
RESERVED_S = 8.0

PARAMETERS = ("since", "wait", *QUERY_PARAMETERS)
_OWN = ("since", "wait")
_CURSOR = re.compile(r"[0-9]{1,20}-[0-9]{1,20}-[0-9]{1,20}", re.ASCII)


@dataclass(frozen=True)
class WatchMetrics:
    """The use case."""

    store: MetricsStore
    clock: Clock
    query_metrics: QueryMetrics

    def answer(self, parameters: Mapping[str, list[str]], clubs: Clubs, *, remaining_s: float = 29.0) -> dict[str, Any]:
        """The answer's body. remaining_s: how long the invocation may still take.

        Errors: Problem (400 before anything is waited for, 403), Retry.
        """
        read = Reader(parameters, PARAMETERS)
        since = read.single("since", _cursor)
        wait = read.single("wait", _wait)
        if read.errors:
            raise read.problem()
        query = {name: values for name, values in parameters.items() if name not in _OWN}
        if query:
            parse_query(query, clubs)
        seen((), clubs)
        position = self._moved(since, min(MAX_WAIT_S if wait is None else wait, remaining_s - RESERVED_S))
        changed = self._cursor(position) != since
        now = datetime.fromtimestamp(self.clock.now_ms() / 1000, UTC)
        complete_to = self._complete_to(position)
        return {
            "cursor": self._cursor(position),
            "changed": changed,
            "metrics": self.query_metrics.answer(query, clubs) if query and changed else None,
            "watermark": rfc3339(position.watermark),
            # Every minute that is over, and the grace with it, is counted.
            "complete": complete_to is not None and complete_to >= self._minute(now, position.grace),
            "generated_at": rfc3339(now),
        }

    def _moved(self, since: str | None, wait_s: float) -> Position:
        """Where the stream is, once that is not where `since` was, or the waiting is over."""
        deadline = self.clock.monotonic() + wait_s
        while True:
            position = self.store.position()
            left = deadline - self.clock.monotonic()
            if self._cursor(position) != since or left <= 0:
                return position
            self.clock.sleep(min(LOOK_EVERY_S, left))

    def _cursor(self, position: Position) -> str:
        finished = position.finished_at
        finished_us = 0 if finished is None else (finished - _EPOCH) // timedelta(microseconds=1)
        complete_to = self._complete_to(position) or _EPOCH
        return f"{(position.batch_id or 0)}-{finished_us}-{int(complete_to.timestamp())}"

    def _complete_to(self, position: Position) -> datetime | None:
        return None if position.watermark is None else self._minute(position.watermark, position.grace)

    def _minute(self, moment: datetime, grace: timedelta) -> datetime:
        """Up to where everything is complete when the watermark is at a moment."""
        return max(_EPOCH, floor(moment - max(self.query_metrics.grace, grace), LENGTH[Granularity.MINUTE]))


_EPOCH = datetime.fromtimestamp(0, UTC)


# The docstrings below are what a caller reads.


def _cursor(text: str) -> str:
    """the cursor of an answer of this resource"""
    if not _CURSOR.fullmatch(text):
        raise ValueError(text)
    return text


_wait = parse.whole_number(0, MAX_WAIT_S)
