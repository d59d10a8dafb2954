"""One micro-batch, from its facts to the merge: staged as if all were new, then without what proves to be counted."""

import json
import logging
import time
from collections.abc import Callable, Collection

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_metrics.archive import Archive
from spark_metrics.sink import Attempt, Floor, Merged, PostgresSink, Repeated
from spark_metrics.staging import REFUSED, Staging
from spark_metrics.transforms import Facts

_log = logging.getLogger(__name__)

# What of the facts only the archive reads.
ARCHIVED_ONLY = ("value", "headers")

# Looks unknown (kind, schema id) pairs up; gives those that the registry does not have. What it raises ends the batch.
type Learn = Callable[[list[tuple[str, int]]], set[tuple[str, int]]]


def facts_of(records: DataFrame, facts: Facts, staging: Staging, *, archived: bool) -> DataFrame:
    """A micro-batch of Kafka's records as facts, for count_batch."""
    session = records.sparkSession
    tasks = staging.tasks(session.sparkContext.defaultParallelism)
    # Compiled code is found again by its text, and to write that takes longer than to interpret a few records.
    session.conf.set("spark.sql.codegen.wholeStage", tasks > 1)
    session.conf.set("spark.sql.codegen.factoryMode", "FALLBACK" if tasks > 1 else "NO_CODEGEN")
    # A topic's partition is a task; where there are more than cores, tasks cost more than what they do. Before anything
    # else, so that reading, decoding and the first sums are compiled as one.
    found = facts(records.coalesce(tasks))
    return found if archived else found.drop(*ARCHIVED_ONLY)


def count_batch(
    facts: DataFrame,
    *,
    batch_id: int,
    staging: Staging,
    sink: PostgresSink,
    database_url: str,
    archive: Archive | None,
    learn: Learn,
    rehearsal: bool = False,
) -> Merged:
    """Count (and archive) a batch of facts.

    staging: the same for every batch; rehearsal: undo it (the files of `archive` are the caller's to remove).

    Errors: those of sink, of Spark, and of `learn`; nothing is then counted, and the same batch may come again.
    """
    spent = _Spent()
    # What is read once is not kept: where something comes again, to read it again costs less than to keep always.
    several = archive is not None or sink.recipients
    kept = facts.persist() if several else facts
    try:
        attempt = sink.begin()
        rows, replayed, archived = kept, 0, False
        while True:
            staging.send(rows, database_url, attempt.number, views=sink.views, recipients=sink.recipients)
            spent.add("stage_ms")
            unknown = sink.not_learned(attempt)
            if unknown:
                sink.refuse_schemas(attempt, learn(unknown))
            try:
                if archive is not None and not archived:
                    # Replays stand in the archive already.
                    sink.check_floor(attempt)
                    if rehearsal:
                        archive.write(rows, attempt)
                    else:
                        _archive(archive, sink, attempt, rows)
                    archived = True
                    spent.add("archive_ms")
                merged = sink.merge(
                    attempt, batch_id=batch_id, batch_ms=spent.all_ms(), replayed=replayed, rehearsal=rehearsal
                )
            except Repeated as repeated:
                if repeated.floor:
                    rows = above(rows, repeated.floor)
                    replayed = kept.count() - rows.count()
                else:
                    rows = marked(rows, repeated.ids, repeated.twice)
                sink.staged_again(attempt)
            else:
                spent.add("merge_ms")
                staging.last_records = merged.records
                _log.info(
                    "%s %s",
                    "rehearsed" if rehearsal else "counted",
                    json.dumps({"batch": batch_id} | vars(merged) | spent.ms),
                )
                return merged
    finally:
        if several:
            kept.unpersist()


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


def _archive(archive: Archive, sink: PostgresSink, attempt: Attempt, rows: DataFrame) -> None:
    left = sink.archiving(attempt)
    if left:
        archive.remove(left)
        sink.archive_removed(left)
    archive.write(rows, attempt)


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
