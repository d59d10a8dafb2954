"""Stages and merges one micro-batch.

A batch is first staged as if all of its records were new. If some were counted before, it is staged again without them.
"""

import json
import logging
import time
from collections.abc import Callable, Collection
from contextlib import nullcontext
from dataclasses import dataclass, field

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_metrics.archive import Archive
from spark_metrics.refusals import Place
from spark_metrics.sink import Attempt, Floor, Merged, PostgresSink, Repeated
from spark_metrics.staging import REFUSED, Staging
from spark_metrics.transforms import Facts

_log = logging.getLogger(__name__)

# Looks up the schemas of (kind, schema id) pairs, and returns the pairs that the registry does not have. An error ends
# the batch.
type Learn = Callable[[list[tuple[str, int]]], set[tuple[str, int]]]


@dataclass
class Staged:
    """A batch that is staged and archived, but not merged yet.

    Attributes:
        records: The records from Kafka.
        rows: The facts of the records to stage; None: the facts of all records.
        replayed: The number of records that are left out because an earlier merge consumed them.
        refused: The schemas that the registry does not have.
        unstorable: The positions of records that are left out because Postgres rejects them.
    """

    records: DataFrame
    facts: Facts
    batch_id: int
    attempt: Attempt
    spent: "_Spent"
    staging: Staging
    database_url: str
    archive: Archive | None = None
    rows: DataFrame | None = None
    replayed: int = 0
    refused: set[tuple[str, int]] = field(default_factory=set)
    unstorable: Collection[Place] = ()

    def send(self, sink: PostgresSink, learn: Learn | None = None) -> None:
        """Have the executors stage the rows.

        Args:
            learn: Looks up unknown schemas; None if the batch is staged again.
        """
        self.staging.send(
            self.records if self.rows is None else self.rows,
            self.database_url,
            self.attempt.number,
            facts=self.facts if self.rows is None else None,
            views=sink.views,
            recipients=sink.recipients,
        )
        unknown = sink.not_learned(self.attempt)
        if unknown and learn is not None:
            self.refused = learn(unknown)
        if self.refused:
            sink.refuse_schemas(self.attempt, self.refused)
        if self.unstorable:
            sink.quarantine(self.attempt, self.unstorable)

    def send_without(self, repeated: Repeated, sink: PostgresSink) -> None:
        """Stage the batch again without the records that were counted before.

        The archive keeps redeliveries in this batch. Replays are removed from it, because the batch that counted them
        contains them.
        """
        whole = self.staging.facts(self.records, self.facts)
        rows = whole if self.rows is None else self.rows
        if repeated.floor:
            self.rows = above(rows, repeated.floor)
            self.replayed = whole.count() - self.rows.count()
            if self.archive is not None:  # guard: archive.replays
                self.archive.remove([self.attempt.number])
                self.archive.write(above(whole, repeated.floor), self.attempt)
        else:
            self.rows = marked(rows, repeated.ids, repeated.twice)
        sink.staged_again(self.attempt)
        self.send(sink)


def stage_batch(
    records: DataFrame,
    facts: Facts,
    *,
    batch_id: int,
    staging: Staging,
    sink: PostgresSink,
    database_url: str,
    archive: Archive | None,
    learn: Learn,
    beside: Collection[int] = (),
    unstorable: Collection[Place] = (),
    rehearsal: bool = False,
) -> Staged:
    """Stage a batch of Kafka's records, and archive it concurrently. merge_batch counts it.

    Raises the errors of `sink`, `learn` and Spark. The same batch may be staged again afterwards.

    Args:
        facts: Decodes the records. Pass the same object for every batch, because it keeps query plans.
        staging: Pass the same object for every batch, because it keeps query plans.
        beside: The numbers of other attempts that are staged and not merged yet.
        unstorable: The positions of records to quarantine; `records` does not contain them.
        rehearsal: Whether the batch will be rolled back. The caller then removes the files of `archive`.
    """
    spent = _Spent()
    whole = None if archive is None else staging.facts(records, facts)
    kept = None
    if staging.small and whole is not None:
        kept = whole.persist()
    elif sink.recipients:
        kept = staging.facts(records, facts).persist()
    try:
        attempt = sink.begin(beside)
        staged = Staged(records, facts, batch_id, attempt, spent, staging, database_url, archive, kept)
        staged.unstorable = unstorable
        if archive is not None and not rehearsal:
            _make_room(archive, sink, attempt, beside)
        files = staging.files(records.sparkSession.sparkContext.defaultParallelism)
        with archive.written_beside(whole, attempt, files=files) if archive and whole else nullcontext():
            staged.send(sink, learn)
            spent.add("stage_ms")
        if archive is not None:
            # archive_ms is the time by which archiving took longer than staging.
            spent.add("archive_ms")
            # Replays are removed from this batch's files, because an earlier batch has archived them.
            if floor := sink.floor(attempt):
                staged.send_without(Repeated(floor, (), ()), sink)
    finally:
        if kept is not None:
            kept.unpersist()
    return staged


def merge_batch(staged: Staged, *, sink: PostgresSink, rehearsal: bool = False) -> Merged:
    """Count the staged records. If some were counted before, stage the batch again without them first.

    Raises the errors of `sink` and Spark. Then nothing is counted, and the batch must be staged again.
    """
    spent = staged.spent
    spent.add("waited_ms")
    while True:
        try:
            merged = sink.merge(
                staged.attempt,
                batch_id=staged.batch_id,
                batch_ms=spent.all_ms(),
                replayed=staged.replayed,
                rehearsal=rehearsal,
            )
        except Repeated as repeated:
            staged.send_without(repeated, sink)
            spent.add("stage_ms")
        else:
            spent.add("merge_ms")
            staged.staging.last_records = merged.records
            _log.info(
                "%s %s",
                "rehearsed" if rehearsal else "counted",
                json.dumps({"batch": staged.batch_id} | vars(merged) | spent.ms),
            )
            return merged


class _Spent:
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


def _make_room(archive: Archive, sink: PostgresSink, attempt: Attempt, beside: Collection[int]) -> None:
    left = sink.archiving(attempt, beside)
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
