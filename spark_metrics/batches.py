"""One micro-batch, from its facts to the merge: staged as if all were new, then without what proves to be counted."""

import json
import logging
import time
from collections.abc import Callable, Collection
from contextlib import nullcontext
from dataclasses import dataclass, field

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_metrics.archive import Archive
from spark_metrics.sink import Attempt, Floor, Merged, PostgresSink, Repeated
from spark_metrics.staging import REFUSED, Staging, leaf
from spark_metrics.transforms import Facts

_log = logging.getLogger(__name__)

# What of the facts only the archive reads.
ARCHIVED_ONLY = ("value", "headers")

# Looks unknown (kind, schema id) pairs up; gives those that the registry does not have. What it raises ends the batch.
type Learn = Callable[[list[tuple[str, int]]], set[tuple[str, int]]]


def facts_of(records: DataFrame, facts: Facts, staging: Staging, *, archived: bool) -> DataFrame:
    """A micro-batch of Kafka's records as facts, for stage_batch."""
    session = records.sparkSession
    # Whatever runs a job takes this away again, and Spark then looks for its caller at each step of a plan.
    session.sparkContext.setLocalProperty("callSite.short", "micro-batch")
    tasks = staging.tasks(session.sparkContext.defaultParallelism)
    # Compiled code is found again by its text, and to write that takes longer than to interpret a few records.
    session.conf.set("spark.sql.codegen.wholeStage", tasks > 1)
    session.conf.set("spark.sql.codegen.factoryMode", "FALLBACK" if tasks > 1 else "NO_CODEGEN")
    # A topic's partition is a task; where there are more than cores, tasks cost more than what they do. Before anything
    # else, so that reading, decoding and the first sums are compiled as one.
    found = facts(records.coalesce(tasks))
    return found if archived else found.drop(*ARCHIVED_ONLY)


@dataclass
class Staged:
    """A batch that is staged (and archived) under an attempt, and waits for its merge.

    facts: all of them; rows: those that are staged; replayed: how many were left out as consumed before; refused: what
    the registry does not have.
    """

    facts: DataFrame
    rows: DataFrame
    batch_id: int
    attempt: Attempt
    spent: "_Spent"
    staging: Staging
    database_url: str
    archive: Archive | None = None
    replayed: int = 0
    refused: set[tuple[str, int]] = field(default_factory=set)

    def send(self, sink: PostgresSink, learn: Learn | None = None) -> None:
        """Have the executors stage the rows. learn: for the first time."""
        self.staging.send(
            self.rows, self.database_url, self.attempt.number, views=sink.views, recipients=sink.recipients
        )
        unknown = sink.not_learned(self.attempt)
        if unknown and learn is not None:
            self.refused = learn(unknown)
        if self.refused:
            sink.refuse_schemas(self.attempt, self.refused)

    def send_without(self, repeated: Repeated, sink: PostgresSink) -> None:
        """Stage it again without what is counted already. Redeliveries stay in the archive, replays stand there under
        the batch that counted them."""
        if repeated.floor:
            self.rows = above(self.rows, repeated.floor)
            self.replayed = self.facts.count() - self.rows.count()
            if self.archive is not None:
                self.archive.remove([self.attempt.number])
                self.archive.write(above(self.facts, repeated.floor), self.attempt)
        else:
            self.rows = marked(self.rows, repeated.ids, repeated.twice)
        sink.staged_again(self.attempt)
        self.send(sink)


def stage_batch(
    facts: DataFrame,
    *,
    batch_id: int,
    staging: Staging,
    sink: PostgresSink,
    database_url: str,
    archive: Archive | None,
    learn: Learn,
    beside: Collection[int] = (),
    rehearsal: bool = False,
) -> Staged:
    """Stage a batch of facts, and archive it meanwhile; nothing is counted before merge_batch.

    staging: the same for every batch; beside: the numbers of other attempts that are staged and not merged yet;
    rehearsal: it will be undone (the files of `archive` are the caller's to remove).

    Errors: those of sink, of Spark, and of `learn`; the same batch may come again.
    """
    spent = _Spent()
    whole = rows = facts
    kept: DataFrame | None = None
    if staging.small and (archive is not None or sink.recipients):
        whole = rows = kept = leaf(facts).persist()
    elif sink.recipients:
        # The archive reads and decodes the records for itself: to keep them for it, bytes and all, costs as much.
        rows = kept = facts.drop(*ARCHIVED_ONLY).persist()
    try:
        attempt = sink.begin(beside)
        staged = Staged(whole, rows, batch_id, attempt, spent, staging, database_url, archive)
        if archive is not None and not rehearsal:
            _make_room(archive, sink, attempt, beside)
        files = staging.files(facts.sparkSession.sparkContext.defaultParallelism)
        with archive.written_beside(whole, attempt, files=files) if archive is not None else nullcontext():
            staged.send(sink, learn)
            spent.add("stage_ms")
        if archive is not None:
            # What it took longer than staging.
            spent.add("archive_ms")
            # Replays stand in the archive already.
            if floor := sink.floor(attempt):
                staged.send_without(Repeated(floor, (), ()), sink)
    finally:
        if kept is not None:
            kept.unpersist()
    return staged


def merge_batch(staged: Staged, *, sink: PostgresSink, rehearsal: bool = False) -> Merged:
    """Count what is staged, once; where some of it is counted already, it is staged again without that.

    Errors: those of sink and of Spark; nothing is then counted, and the batch is to be staged anew.
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
    """How long each step of a batch took, in ms."""

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
        archive.remove(left)
        sink.archive_removed(left)


def above(facts: DataFrame, floor: Floor) -> DataFrame:
    """Without the positions below the floor."""
    pairs = [column for (t, p), offset in floor.items() for column in (F.lit(f"{t}/{p}"), F.lit(offset))]
    floors = F.create_map(*pairs)
    known = F.try_element_at(floors, F.concat_ws("/", "topic", "partition"))
    return facts.where(F.col("kafka_offset") >= F.coalesce(known, F.lit(0)))


def marked(facts: DataFrame, counted: Collection[tuple[str, str]], twice: Collection[tuple[str, str]]) -> DataFrame:
    """Countable records whose (source, record id) is counted, or stands at an earlier position, with the problem
    REFUSED."""
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
