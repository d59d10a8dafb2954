"""The archive's rows as facts, for every version of the job that wrote them.

Files of earlier versions have whole records (value and headers) and lack the columns that are computed from them: these
records are decoded again. The result can replace the files, without value and headers.
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

# Reads the writers' schemas of (kind, schema id) pairs.
type WritersOf = Callable[[Sequence[tuple[str, int]]], Writers]

_WHOLE = ("value", "headers")
_OF_BATCH = ("attempt", "counted_us", "date", "hour", "batch")


def archived_facts(archived: DataFrame, writers_of: WritersOf, *, recipients: bool) -> DataFrame:
    """The rows of Archive.read without value and headers; rows that have them are decoded.

    recipients: with the users of outcomes. Errors: those of writers_of, which is called only for rows with a value.
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
    """Whole records as facts: the columns ARCHIVED and OF_RECIPIENTS.

    Reads the columns PLACE, timestamp_ms, value, headers, source and, for records counted before, counts.
    """
    return facts(
        records.select(
            "topic",
            "partition",
            F.col("kafka_offset").alias("offset"),
            F.timestamp_millis("timestamp_ms").alias("timestamp"),
            *_WHOLE,
            # A category's channels may have changed since: use those that the functions resolved then.
            F.when(F.col("source") == "send", F.array_distinct("counts.channel")).alias("channels_then"),
        ),
        writers=writers,
        # Timestamps too far ahead at that time are archived with that problem; all others are counted.
        far_future_ms=END_OF_TIME_MS,
        recipients=True,
        channels="channels_then",
        # Records that an earlier version counted stay counted. Those that this version rejected are archived with a
        # problem.
        strict=False,  # guard: metrics.counted_by_earlier_version
    ).select(*ARCHIVED, *OF_RECIPIENTS)


def writers_in(registry_url: str, spark: SparkSession) -> WritersOf:
    """Reads writers' schemas from a registry. Errors of a look-up: Stop if a schema no longer exists, else Retry."""

    def writers_of(wanted: Sequence[tuple[str, int]]) -> Writers:
        jvm = spark.sparkContext._jvm
        writers = KnownWriters(HttpSchemaRegistry(registry_url), lambda text: parses(jvm, text))
        refused = writers.learn(wanted).refused
        if refused:
            raise Stop(f"the registry no longer has schemas of archived records: {sorted(refused)}")
        return writers.known

    return writers_of
