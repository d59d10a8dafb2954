"""Counts one micro-batch: has the executors merge its rows in lanes, and moves the stream's offsets."""

import gc
import json
import logging
import time
from collections.abc import Callable
from dataclasses import replace

import psycopg
from pyspark.sql import DataFrame

from masscomm.domain.categories import CategoryTable, category_table
from masscomm.errors import Retry, Stop
from spark_metrics.common.database import first_line, postgres_errors
from spark_metrics.common.waiting import DependencyWaiter
from spark_metrics.counting.lane_merge import LaneResult, Plan
from spark_metrics.counting.lanes import Lanes
from spark_metrics.counting.sink import Fenced, Merged, PostgresSink
from spark_metrics.counting.writers import KnownWriters

_log = logging.getLogger(__name__)

_COLLECT_EVERY_S = 10.0

type Learn = Callable[[list[tuple[str, int]]], set[tuple[str, int]]]


class NewPlan(Exception):
    """New writers' schemas or other categories are known: the query must start again and read the batch with them."""


class BatchCounter:
    """Counts the stream's batches. Waits while a dependency is down, and learns new writers' schemas.

    Args:
        categories: The categories with which the query reads the batches.
        refresh: Reads the categories that operators have changed.
    """

    def __init__(
        self,
        sink: PostgresSink,
        lanes: Lanes,
        writers: KnownWriters,
        wait: DependencyWaiter,
        *,
        categories: CategoryTable,
        refresh: Callable[[], object],
    ) -> None:
        self._sink, self._lanes, self._writers, self._wait = sink, lanes, writers, wait
        self._categories, self._refresh = categories, refresh
        self._collected = time.monotonic()
        # The error that ended the stream: Spark's own error quotes only its text.
        self.failure: Exception | None = None

    def count(self, rows: DataFrame, number: int) -> None:
        """Count a batch of rows of `lanes`. This is the function of foreachBatch.

        Raises:
            NewPlan: The query must start again.
            Retry: A dependency stayed down, or the job stops.
            Stop: Postgres rejects the batch, even without the records that it rejects.
        """
        try:
            self._check_categories()
            while not self._is_counted(rows, number):
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

    def _check_categories(self) -> None:
        """Raise NewPlan if the query reads its batches with other categories than those of now."""
        self._wait.call("the categories", self._refresh)
        if category_table() is not self._categories:  # guard: metrics.changed_categories
            raise NewPlan

    def _is_counted(self, rows: DataFrame, number: int) -> bool:
        """Make one attempt, and return whether it succeeded. An attempt may take longer than Postgres may be down, so
        only its beginning is limited. After a commit without an answer, the next attempt finds all records merged.
        """
        plan = self._wait.call("Postgres", lambda: self._sink.begin(self._lanes.number))
        try:
            with postgres_errors():
                count_batch(rows, self._lanes, plan, sink=self._sink, learn=self._learn, batch_id=number)
        except psycopg.OperationalError as error:
            if self._wait.stopped.is_set():
                raise Retry(f"the job stops before its last batch is merged: {first_line(error)}") from error
            _log.warning("merging the batch again: %s", first_line(error))
            return False
        return True

    def _learn(self, unknown: list[tuple[str, int]]) -> set[tuple[str, int]]:
        learned = self._wait.call("the schema registry", lambda: self._writers.learn(unknown))
        if learned.added:
            raise NewPlan
        return learned.refused


def count_batch(
    rows: DataFrame, lanes: Lanes, plan: Plan, *, sink: PostgresSink, learn: Learn, batch_id: int = 0
) -> Merged:
    """Merge a batch of rows of `lanes`, and move the stream's offsets.

    Raises the errors of `sink`, `learn` and Spark, and Stop. Then some lanes may be merged; the batch may be counted
    again.

    Args:
        plan: What `sink.begin` returned.
        learn: Looks up (kind, schema id), and returns those that the registry does not have.
        batch_id: The number that Spark gave the batch.
    """
    began = time.monotonic()
    results = _merged(lanes, rows, plan, learn)
    took_ms = round((time.monotonic() - began) * 1000)
    merged = sink.complete(results, batch_id=batch_id, batch_ms=took_ms)
    _log.info("counted %s", json.dumps({"batch": batch_id} | vars(merged) | {"merge_ms": took_ms}))
    return merged


def _merged(lanes: Lanes, rows: DataFrame, plan: Plan, learn: Learn) -> list[LaneResult]:
    while True:
        results = lanes.merge(rows, plan)
        if taken_by := [result.taken_by for result in results if result.taken_by is not None]:
            raise Fenced(f"another driver has taken the stream over (epoch {taken_by[0]}, ours {plan.epoch})")
        if rejected := [result.rejected for result in results if result.rejected is not None]:
            if plan.find_unstorable:
                raise Stop(f"Postgres rejects a batch also without its rejected records: {rejected[0]}")
            _log.warning("Postgres rejects records, which are quarantined: %s", rejected[0])
            plan = replace(plan, find_unstorable=True)
        elif unknown := {schema for result in results for schema in result.unknown}:
            plan = replace(plan, denied=plan.denied | learn(sorted(unknown)))
        else:
            return results
