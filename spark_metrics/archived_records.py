"""The archive's rows as facts, whichever version of the job wrote them.

Files of earlier versions hold whole records (value and headers), and not the columns that are counted from them: those
are decoded here, once more. What is read so can be written back in their place, without value and headers.
"""

from collections.abc import Callable, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from masscomm.domain.limits import END_OF_TIME_MS
from masscomm.errors import Stop
from masscomm.kafka.avro import HttpSchemaRegistry
from spark_metrics.archive import ARCHIVED, OF_RECIPIENTS, PLACE
from spark_metrics.decode import Writers
from spark_metrics.job import parses
from spark_metrics.transforms import facts
from spark_metrics.writers import KnownWriters

# Looks the writers' schemas of (kind, schema id) pairs up.
type WritersOf = Callable[[Sequence[tuple[str, int]]], Writers]

_WHOLE = ("value", "headers")
_OF_BATCH = ("attempt", "counted_us", "date", "hour", "batch")


def archived_facts(archived: DataFrame, writers_of: WritersOf, *, recipients: bool) -> DataFrame:
    """What Archive.read gives, without value and headers; rows that have them are decoded.

    recipients: with the users of outcomes. Errors: those of writers_of, asked only where there are such rows.
    """
    whole = F.col("value").isNotNull() & F.col("problem").isNull()
    reduced = archived.where(~whole).drop(*_WHOLE)
    ids = archived.where(whole).select("source", "schema_id").distinct().collect()
    if ids:
        old = archived.where(whole)
        found = decoded_again(old, writers_of([(row["source"], row["schema_id"]) for row in ids]))
        reduced = reduced.unionByName(old.select(*PLACE, *_OF_BATCH).join(found, list(PLACE)))
    return reduced if recipients else reduced.drop(*OF_RECIPIENTS)


def decoded_again(records: DataFrame, writers: Writers) -> DataFrame:
    """Whole records as facts: the columns ARCHIVED and OF_RECIPIENTS. Read of the columns PLACE, timestamp_ms, value,
    headers, source and, where the record was counted before, counts."""
    return facts(
        records.select(
            "topic",
            "partition",
            F.col("kafka_offset").alias("offset"),
            F.timestamp_millis("timestamp_ms").alias("timestamp"),
            *_WHOLE,
            # What a category's channels are may have changed since; the functions resolved them then.
            F.when(F.col("source") == "send", F.array_distinct("counts.channel")).alias("channels_then"),
        ),
        writers=writers,
        # What was too far ahead then is archived with that problem; what was not is counted.
        far_future_ms=END_OF_TIME_MS,
        recipients=True,
        channels="channels_then",
        # What an earlier version counted stays counted. What this version refused is archived with its problem.
        strict=False,  # guard: metrics.counted_by_earlier_version
    ).select(*ARCHIVED, *OF_RECIPIENTS)


def writers_in(registry_url: str, spark: SparkSession) -> WritersOf:
    """Looks writers' schemas up in a registry. Errors of a look-up: Stop where one is no longer there, Retry."""

    def writers_of(wanted: Sequence[tuple[str, int]]) -> Writers:
        jvm = spark.sparkContext._jvm
        writers = KnownWriters(HttpSchemaRegistry(registry_url), lambda text: parses(jvm, text))
        refused = writers.learn(wanted).refused
        if refused:
            raise Stop(f"the registry no longer has schemas of archived records: {sorted(refused)}")
        return writers.known

    return writers_of
