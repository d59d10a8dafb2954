"""Reads the archive's rows as facts (see spark_metrics.facts), including rows that earlier versions wrote.

Earlier versions stored whole records (value and headers) without the columns that are computed from them. Such records
are decoded again, and a compaction stores the result without value and headers.
"""

from collections.abc import Callable, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from masscomm.domain.limits import END_OF_TIME_MS
from masscomm.errors import Stop
from masscomm.kafka.avro import HttpSchemaRegistry
from spark_metrics.archive_table import ARCHIVED, OF_RECIPIENTS, PLACE
from spark_metrics.decode import Writers
from spark_metrics.facts import facts
from spark_metrics.session import is_usable_schema
from spark_metrics.writers import KnownWriters

# Returns the writers' schemas of (kind, schema id) pairs.
type WritersOf = Callable[[Sequence[tuple[str, int]]], Writers]

_WHOLE = ("value", "headers")
_OF_BATCH = ("attempt", "counted_us", "date", "hour", "batch")


def archived_facts(archived: DataFrame, writers_of: WritersOf, *, recipients: bool) -> DataFrame:
    """Return the rows of Archive.read without value and headers; rows that have a value are decoded.

    Raises the errors of `writers_of`, which is called only for rows with a value.

    Args:
        recipients: Whether to include the users of outcomes.
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
    """Decode whole records to facts with the columns ARCHIVED and OF_RECIPIENTS.

    Reads the columns PLACE, timestamp_ms, value, headers, source and, for records that were counted, counts.
    """
    return facts(
        records.select(
            "topic",
            "partition",
            F.col("kafka_offset").alias("offset"),
            F.timestamp_millis("timestamp_ms").alias("timestamp"),
            *_WHOLE,
            # The channels of a category may have changed since: use the channels that were counted.
            F.when(F.col("source") == "send", F.array_distinct("counts.channel")).alias("channels_then"),
        ),
        writers=writers,
        # The archive already marks records whose timestamp was too far ahead; the others were counted.
        far_future_ms=END_OF_TIME_MS,
        recipients=True,
        channels="channels_then",
        # A record that an earlier version counted stays counted, even if this version would reject it.
        strict=False,  # guard: metrics.counted_by_earlier_version
    ).select(*ARCHIVED, *OF_RECIPIENTS)


def writers_in(registry_url: str, spark: SparkSession) -> WritersOf:
    """Return a function that reads writers' schemas from a registry. It raises Stop if a schema no longer exists, else
    Retry.
    """

    def writers_of(wanted: Sequence[tuple[str, int]]) -> Writers:
        writers = KnownWriters(HttpSchemaRegistry(registry_url), lambda text: is_usable_schema(spark, text))
        refused = writers.learn(wanted).refused
        if refused:
            raise Stop(f"the registry no longer has schemas of archived records: {sorted(refused)}")
        return writers.known

    return writers_of
