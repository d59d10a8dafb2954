"""Counts one micro-batch: stages and archives its records, and merges them."""

import gc
import json
import logging
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from masscomm.errors import Retry
from spark_metrics.archive import Archive
from spark_metrics.facts import Facts
from spark_metrics.refusals import (
    Place,
    RefusedByPostgres,
    first_of,
    places_of,
    postgres_errors,
    refused_places,
    without_places,
)
from spark_metrics.settings import Settings
from spark_metrics.sink import Attempt, Floor, Merged, PostgresSink, Repeated
from spark_metrics.staging import REFUSED, Staging
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
        archive: Archive | None,
        wait: DependencyWaiter,
    ) -> None:
        self._settings, self._sink, self._writers, self._archive, self._wait = settings, sink, writers, archive, wait
        self._facts: Facts | None = None
        self._staging: Staging | None = None
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
            self._wait.call("Postgres", lambda: self._count_storable(records, number))
        except Exception as error:
            self.failure = error
            raise
        # py4j's objects form reference cycles, and each may keep a query plan alive in the JVM. Python starts a
        # collection by the number of objects, which is small, so that without this call tens of megabytes would stay
        # in the JVM.
        gc.collect()

    def _count_storable(self, records: DataFrame, number: int) -> None:
        unstorable: list[Place] = []
        must_search = searched = False
        while True:
            try:
                if must_search:
                    unstorable, must_search, searched = self._unstorable(records, number), False, True
                self._count(without_places(records, unstorable), number, self._archive, unstorable=unstorable)
            except NewWriters:
                _log.info("reading the batch again with new writer schemas")
                self._facts = None
            except RefusedByPostgres:
                if must_search or searched:
                    raise
                must_search = True
            else:
                return

    def _count(self, records: DataFrame, number: int, archive: Archive | None, **more: Any) -> None:
        with postgres_errors():
            count_batch(
                records,
                self._known_facts(),
                self._prepared_staging(),
                batch_id=number,
                sink=self._sink,
                database_url=self._settings.database_url,
                archive=archive,
                learn=self._learn,
                **more,
            )

    def _unstorable(self, records: DataFrame, number: int) -> list[Place]:
        """Return the positions of the records that Postgres rejects."""

        def fits(some: DataFrame) -> bool:
            try:
                self._count(some, number, None, trial=True)
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

    def _prepared_staging(self) -> Staging:
        if self._staging is None:
            self._staging = Staging(views=self._sink.views, recipients=self._sink.recipients)
        return self._staging


def count_batch(
    records: DataFrame,
    facts: Facts,
    staging: Staging,
    *,
    batch_id: int,
    sink: PostgresSink,
    database_url: str,
    archive: Archive | None,
    learn: Learn,
    unstorable: Collection[Place] = (),
    trial: bool = False,
) -> Merged:
    """Stage, archive and merge a batch of Kafka's records. It is staged as if all of its records were new; if some were
    counted before, it is staged again without them.

    Raises the errors of `sink`, `learn` and Spark. Then nothing is counted, and the batch may be counted again.

    Args:
        facts: Decodes the records.
        staging: Stages their sums.
        unstorable: The positions of records to quarantine; `records` does not contain them.
        trial: Whether to roll the merge back.
    """
    timer = _StepTimer()
    # More tasks than cores cost more than they gain.
    cores = records.sparkSession.sparkContext.defaultParallelism
    whole = facts(records.coalesce(cores))
    rows, replayed = whole, 0
    attempt = sink.begin()

    def stage() -> None:
        staging.copy(rows, database_url, attempt.number)
        if unknown := sink.unknown_schemas(attempt):
            sink.refuse_schemas(attempt, learn(unknown))
        if unstorable:
            sink.quarantine(attempt, unstorable)
        timer.add("stage_ms")

    # Staging and archiving read the same facts.
    with _persisted(whole) if archive else nullcontext():
        if archive is not None:
            _make_room(archive, sink, attempt)
        files = max(1, cores // 2)
        with archive.written_beside(whole, attempt, files=files) if archive else nullcontext():
            stage()
        # The time by which archiving took longer than staging.
        timer.add("archive_ms")
        while True:
            try:
                merged = sink.merge(attempt, batch_id=batch_id, batch_ms=timer.all_ms(), replayed=replayed, trial=trial)
                break
            except Repeated as repeated:
                if repeated.floor:
                    rows = above(rows, repeated.floor)
                    replayed = whole.count() - rows.count()
                    # An earlier batch has archived the replays. Redeliveries are archived in this batch.
                    if archive is not None:  # guard: archive.replays
                        archive.remove([attempt.number])
                        archive.write(above(whole, repeated.floor), attempt)
                else:
                    rows = marked(rows, repeated.ids, repeated.twice)
                sink.delete_staged(attempt)
                stage()
    timer.add("merge_ms")
    if not trial:
        _log.info("counted %s", json.dumps({"batch": batch_id} | vars(merged) | timer.ms))
    return merged


@contextmanager
def _persisted(frame: DataFrame) -> Iterator[None]:
    frame.persist()
    try:
        yield
    finally:
        frame.unpersist()


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


def _make_room(archive: Archive, sink: PostgresSink, attempt: Attempt) -> None:
    left = sink.archiving(attempt)
    if left:
        archive.remove(left)  # guard: archive.uncounted_batch_is_removed
        sink.archive_removed(left)


def above(facts: DataFrame, floor: Floor) -> DataFrame:
    """Return the facts at or above the floor: for each partition, the first offset that is not a replay."""
    pairs = [column for (t, p), offset in floor.items() for column in (F.lit(f"{t}/{p}"), F.lit(offset))]
    floors = F.create_map(*pairs)
    known = F.try_element_at(floors, F.concat_ws("/", "topic", "partition"))
    return facts.where(F.col("kafka_offset") >= F.coalesce(known, F.lit(0)))


def marked(facts: DataFrame, counted: Collection[tuple[str, str]], twice: Collection[tuple[str, str]]) -> DataFrame:
    """Return the facts, with the problem REFUSED for each countable record whose id was counted before or is also at an
    earlier position in the batch.

    Args:
        counted: (source, record id) of records that were counted before.
        twice: (source, record id) of records that the batch contains several times.
    """
    spark, key = facts.sparkSession, ["source", "record_id"]
    schema = "source string, record_id string"
    good = facts.where(F.col("problem").isNull())
    place = F.struct("topic", "partition", "kafka_offset")
    first = (
        good.join(F.broadcast(spark.createDataFrame(list(twice), schema)), key)
        .groupBy(*key)
        .agg(F.min(place).alias("first"))
    )
    before = spark.createDataFrame(list(counted), schema).withColumn("before", F.lit(True))
    later = F.coalesce(place != F.col("first"), F.lit(False))
    return (
        facts.join(F.broadcast(before), key, "left")
        .join(F.broadcast(first), key, "left")
        .withColumn(
            "problem", F.coalesce("problem", F.when(F.coalesce("before", F.lit(False)) | later, F.lit(REFUSED)))
        )
        .drop("before", "first")
    )
