"""Counts one micro-batch: has the executors merge its rows in lanes, and moves the stream's offsets."""

import gc
import json
import logging
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

import psycopg
from pyspark.sql import DataFrame

from masscomm.errors import Retry
from spark_metrics.lane_merge import LaneResult, Plan
from spark_metrics.lanes import Lanes
from spark_metrics.refusals import (
    Place,
    RefusedByPostgres,
    first_line,
    first_of,
    places_of,
    postgres_errors,
    refused_places,
)
from spark_metrics.sink import Attempt, Fenced, Merged, PostgresSink
from spark_metrics.waiting import DependencyWaiter
from spark_metrics.writers import KnownWriters

_log = logging.getLogger(__name__)

_COLLECT_EVERY_S = 10.0

# Looks up the schemas of (kind, schema id) pairs, and returns the pairs that the registry does not have. An error ends
# the batch.
type Learn = Callable[[list[tuple[str, int]]], set[tuple[str, int]]]


class NewWriters(Exception):
    """New writers' schemas were learned: the query must start again and decode the batch with them."""


class BatchCounter:
    """Counts the stream's batches. Waits while a dependency is down, learns new writers' schemas, and finds the records
    that Postgres rejects.
    """

    def __init__(self, sink: PostgresSink, lanes: Lanes, writers: KnownWriters, wait: DependencyWaiter) -> None:
        self._sink, self._lanes, self._writers, self._wait = sink, lanes, writers, wait
        self._collected = time.monotonic()
        # The error that ended the stream: Spark's own error quotes only its text.
        self.failure: Exception | None = None

    def count(self, rows: DataFrame, number: int) -> None:
        """Count a batch of rows of `lanes`. This is the function of foreachBatch.

        Raises:
            NewWriters: The query must start again.
            Retry: A dependency stayed down, or the job stops.
            RefusedByPostgres: Postgres rejects the batch, also without the records that it rejects.
        """
        try:
            again = False
            while not self._is_counted(rows, number, again=again):
                again = True
                self._wait.pause()
        except Exception as error:
            self.failure = error
            raise
        # py4j's objects form reference cycles, and each may keep a query plan alive in the JVM. Python starts a
        # collection by the number of objects, which is small, so that without this call tens of megabytes would stay
        # in the JVM.
        if time.monotonic() - self._collected > _COLLECT_EVERY_S:
            gc.collect()
            self._collected = time.monotonic()

    def _is_counted(self, rows: DataFrame, number: int, *, again: bool) -> bool:
        """Make one attempt, and return whether it succeeded. An attempt may take longer than Postgres may be down, so
        only its beginning is limited.
        """
        if again and self._wait.call("Postgres", lambda: self._sink.is_complete(number)):
            return True
        attempt = self._wait.call("Postgres", self._sink.begin)
        try:
            self._count_storable(rows, number, attempt)
        except psycopg.OperationalError as error:
            if self._wait.stopped.is_set():
                raise Retry(f"the job stops before its last batch is merged: {first_line(error)}") from error
            _log.warning("merging the batch again: %s", first_line(error))
            return False
        return True

    def _count_storable(self, rows: DataFrame, number: int, attempt: Attempt) -> None:
        try:
            self._count(rows, attempt, batch_id=number)
        except RefusedByPostgres:
            self._count(rows, attempt, batch_id=number, unstorable=self._unstorable(rows, attempt))

    def _count(self, rows: DataFrame, attempt: Attempt, **more: Any) -> None:
        with postgres_errors():
            count_batch(rows, self._lanes, attempt=attempt, sink=self._sink, learn=self._learn, **more)

    def _unstorable(self, rows: DataFrame, attempt: Attempt) -> list[Place]:
        """Return the positions of the records that Postgres rejects."""

        def fits(some: DataFrame) -> bool:
            try:
                self._count(some, attempt, trial=True)
            except RefusedByPostgres:
                return False
            return True

        places = places_of(rows)
        found = refused_places(places, lambda n, without: fits(first_of(rows, places[:n], without)))
        _log.warning("Postgres rejects %d records of %d: %s", len(found), len(places), found[:10])
        return found

    def _learn(self, unknown: list[tuple[str, int]]) -> set[tuple[str, int]]:
        # This loop retries schema ids that the registry denies.
        while (learned := self._wait.call("the schema registry", lambda: self._writers.learn(unknown))).asked_again:
            if learned.added or self._wait.pause():
                break
        if learned.added:
            raise NewWriters
        if learned.asked_again:
            raise Retry("the job stops before it has called the registry again")
        return learned.refused


def count_batch(
    rows: DataFrame,
    lanes: Lanes,
    *,
    attempt: Attempt,
    sink: PostgresSink,
    learn: Learn,
    batch_id: int = 0,
    unstorable: Collection[Place] = (),
    trial: bool = False,
) -> Merged | None:
    """Merge a batch of rows of `lanes`, and move the stream's offsets.

    Raises the errors of `sink`, `learn` and Spark. Then some lanes may be merged; the batch may be counted again.

    Args:
        attempt: What `sink.begin` returned.
        batch_id: The number that Spark gave the batch.
        unstorable: The positions of records to quarantine.
        trial: Whether to roll each lane back.

    Returns:
        None for a trial.
    """
    timer = _StepTimer()
    plan = sink.plan(attempt, lanes=lanes.number, unstorable=frozenset(unstorable), trial=trial)
    results = _merged(lanes, rows, plan, learn)
    timer.add("merge_ms")
    if trial:
        return None
    merged = sink.complete(results, batch_id=batch_id, batch_ms=timer.all_ms())
    _log.info("counted %s", json.dumps({"batch": batch_id} | vars(merged) | timer.ms))
    return merged


def _merged(lanes: Lanes, rows: DataFrame, plan: Plan, learn: Learn) -> list[LaneResult]:
    while True:
        results = lanes.merge(rows, plan)
        if taken_by := [result.taken_by for result in results if result.taken_by is not None]:
            raise Fenced(f"another driver has taken the stream over (epoch {taken_by[0]}, ours {plan.epoch})")
        if rejected := [result.rejected for result in results if result.rejected is not None]:
            raise RefusedByPostgres(rejected[0])
        unknown = {schema for result in results for schema in result.unknown}
        if not unknown:
            return results
        plan = replace(plan, denied=plan.denied | learn(sorted(unknown)))


class _StepTimer:
    """Measures the duration of each step of a batch, in ms."""

    def __init__(self) -> None:
        self._began = self._last = time.monotonic()
        self.ms: dict[str, int] = {}

    def add(self, step: str) -> None:
        now = time.monotonic()
        self.ms[step] = self.ms.get(step, 0) + round((now - self._last) * 1000)
        self._last = now

    def all_ms(self) -> int:
        return round((time.monotonic() - self._began) * 1000)
