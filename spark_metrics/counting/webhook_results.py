"""The results of webhook messages: their counts by endpoint, and the log of the messages.

A record has the results of up to 500 messages for any endpoints, so all are in one column of its facts (`listed`), and
are counted here instead of by the record's own tenant, type and time. A message counts at the time of its attempt.

The log has all failures and all repetitions (attempts after the first one), but of the other messages, which succeeded
at the first attempt, only the first ones of each endpoint and hour. So its size does not grow with the traffic. It
depends neither on the lanes nor on the order of records.
"""

import json
from collections.abc import Callable, Iterable
from heapq import nsmallest
from typing import Any

import psycopg

from masscomm.domain.grains import Grain
from masscomm.domain.ids import event_message_id
from masscomm.domain.webhooks import AttemptResult
from spark_metrics.counting.folding import lane_of_bucket
from spark_metrics.sql import read_sql

KIND = "webhook_outcome"
LOG = "webhook_log"
_HOUR_MS = 3_600_000

type Copy = Callable[[str, Iterable[tuple[Any, ...]]], None]


class WebhookResults:
    """The results of a lane's records. They are held until they are sent to Postgres.

    Attributes:
        size: The number of rows that are held.
    """

    def __init__(self, successes: int) -> None:
        """Create it without results.

        Args:
            successes: How many messages of an endpoint and hour that succeeded at the first attempt the log has.
        """
        self._successes = successes
        # A lane without results executes no statement for them.
        self._any = False
        self._hold_nothing()

    def _hold_nothing(self) -> None:
        self.size = 0
        self._sums: dict[tuple[Any, ...], list[int]] = {}
        self._rows: list[tuple[Any, ...]] = []
        # (endpoint, hour): rows
        self._sampled: dict[tuple[str, int], list[tuple[Any, ...]]] = {}

    def add(self, listed: str) -> None:
        """Add the results of a record.

        Args:
            listed: The line of sources.listed_results.
        """
        record = json.loads(listed)
        endpoints, types = record["endpoints"], record["types"]
        names = ("endpoint_index", "type_index", "club_id", "status", "duration_ms", "at_ms", "message_id", "attempt")
        if not record["message_id"]:
            keys = zip(record["club_id"], record["event_id"], record["endpoint_index"], strict=True)
            record["message_id"] = [event_message_id(club, event, endpoints[place]) for club, event, place in keys]
        columns = [record[name] for name in (*names, "event_id", "http_status", "error")]
        for endpoint, kind, club_id, status, duration_ms, at_ms, message_id, attempt, *rest in zip(
            *columns, strict=True
        ):
            endpoint_id, event_type = endpoints[endpoint], types[kind]
            key = (at_ms // 60_000 * 60, club_id, endpoint_id, event_type, status)
            known = self._sums.setdefault(key, [0, 0])
            known[0] += 1
            known[1] += duration_ms
            row = (endpoint_id, at_ms, message_id, attempt, club_id, event_type, status, duration_ms, *rest)
            if status == AttemptResult.DELIVERED and attempt == 1:
                self._sampled.setdefault((endpoint_id, at_ms // _HOUR_MS), []).append(row)
            else:
                self._rows.append(row)
            self.size += 1

    def send(self, copy: Copy) -> None:
        """Copy the collected rows to the temporary tables of the lane."""
        if not self.size:
            return
        self._any = True
        copy("batch_webhooks", ((*key, *sums) for key, sums in self._sums.items()))
        # By time and message id, the second and third column.
        first = [row for rows in self._sampled.values() for row in nsmallest(self._successes, rows)]
        copy("batch_webhook_log", [*self._rows, *first])
        self._hold_nothing()

    def merge(self, connection: psycopg.Connection[Any]) -> None:
        """Merge the copied rows into the served tables."""
        if not self._any:
            return
        for statement in _COUNTS:
            connection.execute(statement)
        # Last: the lanes update the log one after the other, so that each sees which successes it has.
        connection.execute(_ONE_LANE)  # guard: metrics.sample_of_several_lanes
        connection.execute(read_sql("merge_webhook_log", successes=self._successes))
        connection.execute(read_sql("trim_webhook_log", successes=self._successes))


_COUNTS = tuple(
    read_sql(
        "merge_webhook_counts", table=grain.webhook_table, seconds=grain.seconds, lane=lane_of_bucket(grain.seconds)
    )
    for grain in Grain
)
_ONE_LANE = b"select pg_advisory_xact_lock(hashtext(current_schema), -2)"
