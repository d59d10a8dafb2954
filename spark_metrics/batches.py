"""Counts one micro-batch: decodes its records, and has the executors merge them in lanes."""

import gc
import json
import logging
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

import psycopg
from pyspark.sql import DataFrame, SparkSession

from masscomm.errors import Retry
from spark_metrics.facts import Facts
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
from spark_metrics.settings import Settings
from spark_metrics.sink import Attempt, Fenced, Merged, PostgresSink
from spark_metrics.waiting import DependencyWaiter
from spark_metrics.writers import KnownWriters

_log = logging.getLogger(__name__)

# Looks up the schemas of (kind, schema id) pairs, and returns the pairs that the registry does not have. An error ends
# the batch.
type Learn = Callable[[list[tuple[str, int]]], set[tuple[str, int]]]


class NewWriters(Exception):
    """New writers' schemas were learned: the batch must be decoded again."""


class BatchCounter:
    """Counts the stream's batches. Waits while a dependency is down, learns new writers' schemas, and finds the records
    that Postgres rejects.
    """

    def __init__(
        self,
        settings: Settings,
        sink: PostgresSink,
        writers: KnownWriters,
        wait: DependencyWaiter,
    ) -> None:
        self._settings, self._sink, self._writers, self._wait = settings, sink, writers, wait
        self._facts: Facts | None = None
        self._lanes: Lanes | None = None
        # The error that ended the stream: Spark's own error quotes only its text.
        self.failure: Exception | None = None

    def count(self, records: DataFrame, number: int) -> None:
        """Count a batch of Kafka's records. This is the function of foreachBatch.

        Raises:
            Retry: A dependency stayed down, or the job stops.
            RefusedByPostgres: Postgres rejects the batch, also without the records that it rejects.
        """
        # Spark disables adaptive execution in the session of a stream.
        records.sparkSession.conf.set("spark.sql.adaptive.enabled", True)
        try:
            while not self._is_counted(records, number):
                self._wait.pause()
        except Exception as error:
            self.failure = error
            raise
        # py4j's objects form reference cycles, and each may keep a query plan alive in the JVM. Python starts a
        # collection by the number of objects, which is small, so that without this call tens of megabytes would stay
        # in the JVM.
        gc.collect()

    def _is_counted(self, records: DataFrame, number: int) -> bool:
        """Make one attempt, and return whether it succeeded. An attempt may take longer than Postgres may be down, so
        only its beginning is limited.
        """
        if self._wait.call("Postgres", lambda: self._sink.is_complete(number)):
            return True
        attempt = self._wait.call("Postgres", self._sink.begin)
        try:
            self._count_storable(records, number, attempt)
        except psycopg.OperationalError as error:
            if self._wait.stopped.is_set():
                raise Retry(f"the job stops before its last batch is merged: {first_line(error)}") from error
            _log.warning("merging the batch again: %s", first_line(error))
            return False
        return True

    def _count_storable(self, records: DataFrame, number: int, attempt: Attempt) -> None:
        unstorable: list[Place] = []
        must_search = searched = False
        while True:
            try:
                if must_search:
                    unstorable, must_search, searched = self._unstorable(records, attempt), False, True
                self._count(records, attempt, batch_id=number, unstorable=unstorable)
            except NewWriters:
                _log.info("reading the batch again with new writer schemas")
                self._facts = None
            except RefusedByPostgres:
                if must_search or searched:
                    raise
                must_search = True
            else:
                return

    def _count(self, records: DataFrame, attempt: Attempt, **more: Any) -> None:
        with postgres_errors():
            count_batch(
                records,
                self._known_facts(),
                self._prepared_lanes(records.sparkSession),
                attempt=attempt,
                sink=self._sink,
                learn=self._learn,
                **more,
            )

    def _unstorable(self, records: DataFrame, attempt: Attempt) -> list[Place]:
        """Return the positions of the records that Postgres rejects."""

        def fits(some: DataFrame) -> bool:
            try:
                self._count(some, attempt, trial=True)
            except RefusedByPostgres:
                return False
            return True

        places = places_of(records)
        found = refused_places(places, lambda n, without: fits(first_of(records, places[:n], without)))
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

    def _known_facts(self) -> Facts:
        """Return the transform that decodes each batch. It is created again after a writer's schema was learned."""
        if self._facts is None:
            self._facts = Facts(
                writers=self._writers.known,
                far_future_ms=self._settings.far_future_s * 1000,
                recipients=self._settings.recipient_log,
            )
        return self._facts

    def _prepared_lanes(self, spark: SparkSession) -> Lanes:
        if self._lanes is None:
            # The greatest number of cores: a cluster may have fewer now.
            number = self._settings.lanes or int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
            self._lanes = Lanes(spark, number, recipients=self._sink.recipients)
        return self._lanes


def count_batch(
    records: DataFrame,
    facts: Facts,
    lanes: Lanes,
    *,
    attempt: Attempt,
    sink: PostgresSink,
    learn: Learn,
    batch_id: int = 0,
    unstorable: Collection[Place] = (),
    trial: bool = False,
) -> Merged | None:
    """Merge a batch of Kafka's records in lanes, and move the stream's offsets.

    Raises the errors of `sink`, `learn` and Spark. Then some lanes may be merged; the batch may be counted again.

    Args:
        facts: Decodes the records.
        attempt: What `sink.begin` returned.
        batch_id: The number that Spark gave the batch.
        unstorable: The positions of records to quarantine.
        trial: Whether to roll each lane back.

    Returns:
        None for a trial.
    """
    timer = _StepTimer()
    plan = sink.plan(attempt, lanes=lanes.number, unstorable=frozenset(unstorable), trial=trial)
    results = _merged(lanes, facts(records), plan, learn)
    timer.add("merge_ms")
    if trial:
        return None
    merged = sink.complete(results, batch_id=batch_id, batch_ms=timer.all_ms())
    _log.info("counted %s", json.dumps({"batch": batch_id} | vars(merged) | timer.ms))
    return merged


def _merged(lanes: Lanes, facts: DataFrame, plan: Plan, learn: Learn) -> list[LaneResult]:
    while True:
        results = lanes.merge(facts, plan)
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
