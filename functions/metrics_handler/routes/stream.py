"""GET /v1/metrics/stream: a long poll that answers when something has been counted.

since   the cursor of the answer before; without it the answer comes at once
wait    seconds to wait at most, 20 without it: a request ends before API Gateway's 29 s are over

and, where wanted, the parameters of GET /v1/metrics: its answer is then sent along (`metrics`) when something changed.

The cursor moves when a batch is counted, and when another whole minute is complete: the watermark alone moves every
second while nothing happens, and no figure with it. No connection is held while waiting, and nothing is missed between
two requests: what is counted then is newer than the cursor. Rows that are sent along may be newer than the cursor
beside them, never older.

A request that would wait takes one of its key's slots (poll_slots.py); where all are taken it is refused. One that is
answered at once needs none.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from functions.metrics_handler.http import parameters as parse
from functions.metrics_handler.http.parameters import Reader, rfc3339
from functions.metrics_handler.http.tenant import seen
from functions.metrics_handler.routes.metrics import PARAMETERS as QUERY_PARAMETERS
from functions.metrics_handler.routes.metrics import MetricsRoute, parse_query
from functions.metrics_handler.store.buckets import LENGTH, floor
from functions.metrics_handler.store.poll_slots import PollSlots
from functions.metrics_handler.store.port import Granularity, MetricsStore, StreamPosition
from masscomm.clock import Clock
from masscomm.errors import Retry
from masscomm.http.problem import Problem
from masscomm.http.tenant import Clubs
from masscomm.observability import logs, metrics
from masscomm.observability.metric_names import POLLS_UNCOUNTED

MAX_WAIT_S = 20
# A look is one row by its key.
LOOK_EVERY_S = 0.5
# What a query for the rows may take once the waiting is over.
RESERVED_S = 8.0

# Open polls of one key, where METRICS_OPEN_POLLS says no other number.
OPEN_POLLS = 5
# A slot is freed as soon as something is counted, which happens every few seconds.
RETRY_AFTER_S = 5

logger = logs.logger("metrics_handler")

PARAMETERS = ("since", "wait", *QUERY_PARAMETERS)
_OWN = ("since", "wait")
_CURSOR = re.compile(r"[0-9]{1,20}-[0-9]{1,20}-[0-9]{1,20}", re.ASCII)


@dataclass(frozen=True)
class StreamRoute:
    """The route. slots: shared by all environments; open_polls: of one key at a time."""

    store: MetricsStore
    clock: Clock
    metrics_route: MetricsRoute
    slots: PollSlots
    open_polls: int = OPEN_POLLS

    def answer(
        self, parameters: Mapping[str, list[str]], clubs: Clubs, *, caller: str = "", remaining_s: float = 29.0
    ) -> dict[str, Any]:
        """The answer's body. caller: the id of the API key; remaining_s: how long the invocation may still take.

        Errors: Problem (400 before anything is waited for, 403, 429 where the key's polls are all open), Retry, Stop.
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
        wait_s = min(MAX_WAIT_S if wait is None else wait, remaining_s - RESERVED_S)
        position = self.store.position()
        if self._cursor(position) == since and wait_s > 0:
            with self._slot(caller, remaining_s) as may_wait:
                if may_wait:
                    position = self._moved(position, wait_s)
        changed = self._cursor(position) != since
        now = datetime.fromtimestamp(self.clock.now_ms() / 1000, UTC)
        complete_to = self._complete_to(position)
        return {
            "cursor": self._cursor(position),
            "changed": changed,
            "metrics": self.metrics_route.answer(query, clubs) if query and changed else None,
            "watermark": rfc3339(position.watermark),
            # Every minute that is over, and the grace with it, is counted.
            "complete": complete_to is not None and complete_to >= self._minute(now, position.grace),
            "generated_at": rfc3339(now),
        }

    @contextmanager
    def _slot(self, caller: str, remaining_s: float) -> Iterator[bool]:
        """Around the waiting: whether there may be any. Errors: Problem (429), Stop."""
        now_ms = self.clock.now_ms()
        try:
            # No later than Lambda ends the invocation: whatever becomes of it, the slot is free then.
            until_ms = now_ms + int(remaining_s * 1000)
            slot = self.slots.take(caller, self.open_polls, now_ms=now_ms, until_ms=until_ms)
        except Retry as error:
            # Uncounted polls must not wait: they would occupy every environment.
            logger.warning("open polls are not counted, this one is answered at once", error=str(error))
            metrics.add(POLLS_UNCOUNTED)
            yield False
            return
        if slot is None:
            raise Problem(
                429,
                f"This key has {self.open_polls} requests waiting already, and may have no more.",
                retry_after_s=RETRY_AFTER_S,
            )
        try:
            yield True
        finally:
            # One that is not freed lapses.
            with suppress(Retry):
                self.slots.free(slot)

    def _moved(self, since: StreamPosition, wait_s: float) -> StreamPosition:
        """Where the stream is, once that is not where it was, or the waiting is over."""
        position, deadline = since, self.clock.monotonic() + wait_s
        while self._cursor(position) == self._cursor(since) and (left := deadline - self.clock.monotonic()) > 0:
            self.clock.sleep(min(LOOK_EVERY_S, left))
            position = self.store.position()
        return position

    def _cursor(self, position: StreamPosition) -> str:
        finished = position.finished_at
        finished_us = 0 if finished is None else (finished - _EPOCH) // timedelta(microseconds=1)
        complete_to = self._complete_to(position) or _EPOCH
        return f"{(position.batch_id or 0)}-{finished_us}-{int(complete_to.timestamp())}"

    def _complete_to(self, position: StreamPosition) -> datetime | None:
        return None if position.watermark is None else self._minute(position.watermark, position.grace)

    def _minute(self, moment: datetime, grace: timedelta) -> datetime:
        """Up to where everything is complete when the watermark is at a moment."""
        return max(_EPOCH, floor(moment - max(self.metrics_route.grace, grace), LENGTH[Granularity.MINUTE]))


_EPOCH = datetime.fromtimestamp(0, UTC)


# The docstrings below are what a caller reads.


def _cursor(text: str) -> str:
    """the cursor of an answer of this resource"""
    if not _CURSOR.fullmatch(text):
        raise ValueError(text)
    return text


_wait = parse.whole_number(0, MAX_WAIT_S)
