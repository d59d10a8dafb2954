"""Transforms facts to one row per record and measure, and these to sums."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F


def exploded(facts: DataFrame) -> DataFrame:
    """Return facts as one row per count, and at least one row per record, so that no source position is lost.

    The columns are topic, partition, kafka_offset, ordinal (of the row in its record), source, schema_id, problem,
    record_id, send_id, club_id, type, at_ms, chunk_count, labels, channel, measure, reason, count_total. A record with
    a problem has one row, in which all columns after `problem` are null. A record without recipients has one row
    without a measure.
    """
    counted = F.when(F.col("problem").isNull() & (F.size("counts") > 0), F.col("counts"))
    position, of_record = ("topic", "partition", "kafka_offset"), ("source", "schema_id", "problem")
    values = ("record_id", "send_id", "club_id", "type", "at_ms", "chunk_count", "labels")
    return facts.select(
        *map(F.col, (*position, *of_record)),
        *[F.when(F.col("problem").isNull(), F.col(name)).alias(name) for name in values],
        # The optimizer would push a filter below posexplode, and so decode each record twice.
        F.posexplode_outer(counted).alias("ordinal", "count"),
    ).select(
        *position,
        F.coalesce("ordinal", F.lit(0)).alias("ordinal"),
        *of_record,
        *values,
        *("count.channel", "count.measure", "count.reason", "count.count_total"),
    )


def minute_s() -> Column:
    """Return the minute in which a record counts, in seconds since the epoch."""
    return F.expr("at_ms div 60000 * 60")


_SUM_KEYS = ("source", "send_id", "club_id", "type", "minute_s", "labels", "channel", "measure", "reason")


def sums(rows: DataFrame) -> DataFrame:
    """Sum the rows of `exploded` for countable records, to one row per send, minute, channel, measure and reason.

    The columns are source, send_id, club_id, type, minute_s (seconds since the epoch), labels (JSON), channel, measure,
    reason, count_total, records (the number of records whose first row is in this sum), first_ms (the earliest
    timestamp), chunk_count.
    """
    return (
        rows.withColumn("minute_s", minute_s())
        .groupBy(*_SUM_KEYS)
        .agg(
            F.sum("count_total").alias("count_total"),
            F.sum(F.when(F.col("ordinal") == 0, 1).otherwise(0)).alias("records"),
            F.min("at_ms").alias("first_ms"),
            F.max("chunk_count").alias("chunk_count"),
        )
    )


def states(facts: DataFrame) -> DataFrame:
    """Return the results of countable outcome records by recipients' positions: one row per chunk and channel.

    The columns are send_id, chunk_index, channel, and `entries`: an array of {status, reason, runs, listed} (see
    spark_metrics.states).
    """
    return (
        facts.where((F.col("source") == "outcome") & (F.size("counts") > 0))
        .select("send_id", "chunk_index", F.col("counts")[0].alias("c"), "run", "listed")
        .groupBy("send_id", "chunk_index", "c.channel", "c.measure", "c.reason")
        .agg(F.listagg("run").alias("runs"), F.listagg("listed", "\n").alias("listed"))
        .groupBy("send_id", "chunk_index", "channel")
        .agg(F.collect_list(F.struct("measure", "reason", "runs", "listed")).alias("entries"))
    )
