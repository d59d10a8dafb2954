"""Compares the archive with the records that are still in the topics, position by position."""

from collections.abc import Callable, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from masscomm.domain.limits import END_OF_TIME_MS
from masscomm.errors import Stop
from masscomm.kafka.avro import HttpSchemaRegistry
from spark_metrics.archive_table import ARCHIVED, OF_RECIPIENTS, PLACE
from spark_metrics.decode import Writers
from spark_metrics.facts import facts
from spark_metrics.session import is_usable_schema, kafka_options
from spark_metrics.settings import Settings
from spark_metrics.writers import KnownWriters

# Returns the writers' schemas of (kind, schema id) pairs.
type WritersOf = Callable[[Sequence[tuple[str, int]]], Writers]

# The columns of a counted record that must be equal in the archive and the topic. Records of earlier versions have no
# labels.
_COMPARED = tuple(name for name in ARCHIVED if name not in (*PLACE, "problem", "labels"))


def topics_differ(
    spark: SparkSession,
    settings: Settings,
    archived: DataFrame,
    offsets: Sequence[tuple[str, int, int]],
    writers_of: WritersOf,
) -> int:
    """Return the number of positions below the stream's offsets that differ between topics and archive, or are
    missing in one of them. Raises the errors of `writers_of` and Spark.

    Args:
        archived: The archived records.
        offsets: (topic, partition, next offset) of the stream.
    """
    if not offsets:
        return 0
    held = spark.read.format("kafka").options(**kafka_options(settings)).option("includeHeaders", True).load()
    ends = F.broadcast(spark.createDataFrame(list(offsets), "topic string, partition int, next_offset long"))
    held = (
        held.join(ends, ["topic", "partition"])
        .where(F.col("offset") < F.col("next_offset"))
        .withColumn("timestamp_ms", F.unix_millis("timestamp"))
        .withColumnRenamed("offset", "kafka_offset")
        .join(archived.select(*PLACE, "source", "counts"), list(PLACE), "left")
        .coalesce(spark.sparkContext.defaultParallelism)
    )
    ids = archived.where(F.col("problem").isNull()).select("source", "schema_id").distinct().collect()
    writers = writers_of([(row["source"], row["schema_id"]) for row in ids])
    digest = F.xxhash64(*_COMPARED)
    held = (
        decoded_again(held, writers).select(*PLACE, digest.alias("held")).withColumn("in_topic", F.lit(True)).persist()
    )
    first = held.groupBy("topic", "partition").agg(F.min("kafka_offset").alias("first"))
    stored = (
        archived.join(F.broadcast(first), ["topic", "partition"])
        .join(ends, ["topic", "partition"])
        .where((F.col("kafka_offset") >= F.col("first")) & (F.col("kafka_offset") < F.col("next_offset")))
        # Only the position of an uncounted record is compared.
        .select(*PLACE, F.when(F.col("problem").isNull(), digest).alias("stored"))
        .withColumn("in_archive", F.lit(True))
        .persist()
    )
    same = F.col("in_topic") & F.col("in_archive") & F.coalesce(F.col("held") == F.col("stored"), F.lit(True))
    # The join does not detect a position that the archive contains twice.
    twice = stored.count() - stored.select(*PLACE).distinct().count()
    return held.join(stored, list(PLACE), "full").where(~F.coalesce(same, F.lit(False))).count() + twice


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
            *("value", "headers"),
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
