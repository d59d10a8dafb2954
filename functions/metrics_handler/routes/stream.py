"""GET /v1/metrics/stream: a long poll that returns once a batch has been counted.

since   the cursor of the previous response; a request without it is answered immediately
wait    the maximum wait in seconds, by default 20: the request must end within API Gateway's 29 s

The request may also have the parameters of GET /v1/metrics. Then a response after a change contains that route's body
(`metrics`).

The cursor changes when a batch is counted and when another whole minute is complete. Without new records, the watermark
advances every second, but the cursor does not, because no count changes. A waiting request holds no database
connection. No count is missed between two requests, because it is newer than the cursor. The rows in `metrics` are
never older than the response's cursor.

A waiting request takes one of the slots of its API key (waiting.py), and is refused if all are taken. A request that is
answered immediately needs no slot.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypedDict

from functions.metrics_handler.routes.metrics import PARAMETERS as QUERY_PARAMETERS
from functions.metrics_handler.routes.metrics import MetricsBody, MetricsRoute, parse_query
from masscomm.clock import Clock
from masscomm.domain.grains import Grain, floor
from masscomm.http import parameters as parse
from masscomm.http.parameters import Reader, rfc3339
from masscomm.http.requested_clubs import seen
from masscomm.http.tenant import Clubs
from masscomm.operations.waiting import Waiting, parse_wait
from masscomm.stores.metrics.port import MetricsStore, StreamPosition
from masscomm.texts import Text

PARAMETERS = ("since", "wait", *QUERY_PARAMETERS)
_OWN = ("since", "wait")
_CURSOR = re.compile(r"[0-9]{1,20}-[0-9]{1,20}-[0-9]{1,20}", re.ASCII)


class StreamBody(TypedDict):
    """The state of counting, and the queried counts after a change."""

    cursor: str
    """The value of `since` in the next request."""
    changed: bool
    metrics: MetricsBody | None
    """The body of GET /v1/metrics, if the request has its parameters and counts have changed."""
    watermark: str | None
    """The counts include all records that were in the topics at this time."""
    complete: bool
    generated_at: str


@dataclass(frozen=True)
class StreamRoute:
    """The route GET /v1/metrics/stream."""

    store: MetricsStore
    clock: Clock
    metrics_route: MetricsRoute
    waiting: Waiting

    def answer(
        self, parameters: Mapping[str, list[str]], clubs: Clubs, *, caller: str = "", remaining_s: float = 29.0
    ) -> StreamBody:
        """Return the response body.

        Args:
            parameters: The query parameters, {name: values}.
            clubs: The clubs that the caller may read.
            caller: The id of the API key.
            remaining_s: The remaining time of the invocation in seconds.

        Raises:
            Problem: 400 before the wait, 403, or 429 if all of the key's slots are taken.
            Retry: the store is unavailable.
            Stop: the store of slots is missing or not permitted.
        """
        read = Reader(parameters, PARAMETERS)
        since = read.single("since", _cursor)
        wait = read.single("wait", parse_wait)
        read.check()
        query = {name: values for name, values in parameters.items() if name not in _OWN}
        if query:
            parse_query(query, clubs)
        seen((), clubs)

        def moved(position: StreamPosition) -> bool:
            return self._cursor(position) != since

        position = self.waiting.until(moved, self.store.position, wait=wait, caller=caller, remaining_s=remaining_s)
        changed = moved(position)
        now = datetime.fromtimestamp(self.clock.now_ms() / 1000, UTC)
        complete_to = self._complete_to(position)
        return {
            "cursor": self._cursor(position),
            "changed": changed,
            "metrics": self.metrics_route.answer(query, clubs) if query and changed else None,
            "watermark": rfc3339(position.watermark),
            # `complete` is true if every minute is counted whose end and grace have passed.
            "complete": complete_to is not None and complete_to >= self._minute(now, position.grace),
            "generated_at": rfc3339(now),
        }

    def _cursor(self, position: StreamPosition) -> str:
        finished = position.finished_at
        finished_us = 0 if finished is None else (finished - _EPOCH) // timedelta(microseconds=1)
        complete_to = self._complete_to(position) or _EPOCH
        return f"{(position.batch_id or 0)}-{finished_us}-{int(complete_to.timestamp())}"

    def _complete_to(self, position: StreamPosition) -> datetime | None:
        return None if position.watermark is None else self._minute(position.watermark, position.grace)

    def _minute(self, moment: datetime, grace: timedelta) -> datetime:
        """Return the end of the last complete minute, given the watermark at `moment`."""
        return max(_EPOCH, floor(moment - max(self.metrics_route.grace, grace), Grain.MINUTE.length))


_EPOCH = datetime.fromtimestamp(0, UTC)


# The API description shows the docstrings of the following parsers to callers.


@parse.of_form(Text.FORM_STREAM_CURSOR.filled())
def _cursor(text: str) -> str:
    if not _CURSOR.fullmatch(text):
        raise ValueError(text)
    return text
