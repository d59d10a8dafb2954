"""Compares the archive with the records that are still in the topics, position by position."""

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from masscomm.domain.limits import END_OF_TIME_MS
from masscomm.errors import Stop
from spark_metrics.archive.iceberg import PLACE
from spark_metrics.archive.table import ARCHIVED, OF_RECIPIENTS
from spark_metrics.common.session import kafka_options
from spark_metrics.common.settings import Settings
from spark_metrics.counting.decode import Writers
from spark_metrics.counting.facts import CHANNELS_THEN, facts
from spark_metrics.counting.writers import no_writers

# The columns of a counted record that must be equal in the archive and the topic.
_COMPARED = tuple(name for name in ARCHIVED if name not in (*PLACE, "problem"))


def topics_differ(
    spark: SparkSession, settings: Settings, archived: DataFrame, offsets: Sequence[tuple[str, int, int]]
) -> int:
    """Return the number of positions below the stream's offsets that differ between topics and archive, or are
    missing in one of them. Raises the errors of archived_writers and Spark.

    Args:
        archived: The archived records.
        offsets: (topic, partition, next offset) of the stream.
    """
    held = spark.read.format("kafka").options(**kafka_options(settings)).load()
    ends = F.broadcast(spark.createDataFrame(list(offsets), "topic string, partition int, next_offset long"))
    held = (
        held.join(ends, ["topic", "partition"])
        .where(F.col("offset") < F.col("next_offset"))
        .withColumn("timestamp_ms", F.unix_millis("timestamp"))
        .withColumnRenamed("offset", "kafka_offset")
        .join(archived.select(*PLACE, "source", "counts"), list(PLACE), "left")
        .coalesce(spark.sparkContext.defaultParallelism)
    )
    digest = F.xxhash64(*_COMPARED)
    decoded = decoded_again(held, archived_writers(archived, settings))
    held = decoded.select(*PLACE, digest.alias("digest"), F.lit(1).alias("held")).persist()
    first = held.groupBy("topic", "partition").agg(F.min("kafka_offset").alias("first"))
    stored = (
        archived.join(F.broadcast(first), ["topic", "partition"])
        .join(ends, ["topic", "partition"])
        .where((F.col("kafka_offset") >= F.col("first")) & (F.col("kafka_offset") < F.col("next_offset")))
        # Only the position of an uncounted record is compared.
        .select(*PLACE, F.when(F.col("problem").isNull(), digest).alias("digest"), F.lit(0).alias("held"))
    )
    positions = (
        held.unionByName(stored)
        .groupBy(*PLACE)
        .agg(F.sum("held").alias("held"), F.count("*").alias("found"), F.count_distinct("digest").alias("digests"))
    )
    # A position may also be missing on one side, or be twice in the archive.
    return positions.where((F.col("held") != 1) | (F.col("found") != 2) | (F.col("digests") != 1)).count()


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
            F.when(F.col("source") == "send", F.array_distinct("counts.channel")).alias(CHANNELS_THEN),
        ),
        writers=writers,
        # The archive already marks records whose timestamp was too far ahead; the others were counted.
        far_future_ms=END_OF_TIME_MS,
        recipients=True,
    ).select(*ARCHIVED, *OF_RECIPIENTS)


def archived_writers(archived: DataFrame, settings: Settings) -> Writers:
    """Return the writers' schemas of the counted records of an archive. Raises Stop if the registry no longer has one,
    else Retry.
    """
    ids = archived.where(F.col("problem").isNull()).select("source", "schema_id").distinct().collect()
    writers = no_writers(archived.sparkSession, settings)
    refused = writers.learn([(row["source"], row["schema_id"]) for row in ids]).refused
    if refused:
        raise Stop(f"the registry no longer has schemas of archived records: {sorted(refused)}")
    return writers.known
