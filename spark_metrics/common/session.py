"""Creates the Spark session, and reads the topics' records with it."""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import files
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.types import StructType

from masscomm.aws.authentication import spark_kafka_options
from masscomm.errors import Retry
from masscomm.kafka import topics
from spark_metrics.common.settings import EMR, SessionSettings, Settings
from spark_metrics.common.sources import kinds_of_topics

_FETCH_WAIT_MS = "10"
_POLL_RECORDS = "5000"
# Consumers that an executor keeps: one for each partition of the topics, for the stream and for the archive.
_KEPT_CONSUMERS = "256"

# Limit the lengths in Avro values: a corrupt record of a few bytes could otherwise request gigabytes and end the
# process. Records have at most 1 MiB, and an item has at least one byte. The fast reader needs a third less time.
JVM_OPTIONS = (
    "-Dorg.apache.avro.limits.collectionItems.maxLength=1100000"
    " -Dorg.apache.avro.limits.bytes.maxLength=2200000"
    " -Dorg.apache.avro.limits.string.maxLength=2200000"
    " -Dorg.apache.avro.fastread=true"
)


def topic_names() -> list[str]:
    """Return the names of all topics that the job consumes."""
    return list(kinds_of_topics())


def spark_session(settings: SessionSettings, *, name: str = "masscomm metrics") -> SparkSession:
    """Return the Spark session. On EMR, the job's submission defines its resources; elsewhere it is a small session
    without a UI, on the loopback address.
    """
    options = {
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.adaptive.enabled": "true",
        # In whole, a batch's plan would be one method of 30,000 bytes, which the JVM interprets.
        # From 8,000 bytes on (HotSpot's HugeMethodLimit), Spark generates a method for each expression instead.
        "spark.sql.codegen.hugeMethodLimit": "8000",
        # The archive's appends and the stream's batches have pools of their own.
        "spark.scheduler.mode": "FAIR",
        "spark.kafka.consumer.cache.capacity": _KEPT_CONSUMERS,
        # If a record has a header twice, the last one counts.
        "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
        # An out-of-range value becomes null, and its record is quarantined. With ANSI mode, an exception would stop the
        # stream at this record.
        "spark.sql.ansi.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.numRecentProgressUpdates": "2",
        # Limit the data that Spark keeps about finished jobs for the UI: half a megabyte per batch.
        "spark.sql.ui.retainedExecutions": "10",
        "spark.ui.retainedJobs": "10",
        "spark.ui.retainedStages": "10",
        "spark.ui.retainedTasks": "100",
        "spark.ui.dagGraph.retainedRootRDDs": "10",
        # Shorten the text of each plan, which only the disabled UI uses.
        "spark.sql.maxPlanStringLength": "1000",
        "spark.sql.debug.maxToStringFields": "5",
        # Disable the stack trace of each expression, which only error messages use. In Python, it takes a dozen calls
        # into the JVM per expression.
        "spark.sql.dataFrameQueryContext.enabled": "false",
        "spark.python.sql.dataFrameDebugging.enabled": "false",
    }
    builder = SparkSession.builder.appName(name)
    if settings.master != EMR:
        builder = builder.master(settings.master)
        options |= _on_one_machine(settings)
    if settings.master.startswith("local"):
        # Executors are child processes of this process, and "python3" may be another interpreter.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    for name, value in options.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    if settings.master != EMR:
        spark.conf.set("spark.sql.shuffle.partitions", spark.sparkContext.defaultParallelism)
    return spark


def _on_one_machine(settings: SessionSettings) -> dict[str, str]:
    logging_file = files("spark_metrics").joinpath("log4j2.properties")
    java_options = f"{settings.java_options} {JVM_OPTIONS} -Dlog4j2.configurationFile={logging_file}"
    return {
        "spark.driver.memory": settings.driver_memory,
        "spark.driver.extraJavaOptions": java_options,
        # A master local-cluster[…] has executors of their own.
        "spark.executor.extraJavaOptions": java_options,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        # Shuffled data is mainly ids, which cannot be compressed, and stays on this machine.
        "spark.shuffle.compress": "false",
        **({"spark.jars": settings.jars} if settings.jars else {}),
    }


def kafka_options(settings: Settings) -> dict[str, str]:
    """Return the options of Spark's Kafka source: all topics that the job consumes, committed records only, with
    headers.
    """
    return {
        "kafka.bootstrap.servers": settings.bootstrap_servers,
        "subscribe": ",".join(topic_names()),
        "failOnDataLoss": str(settings.fail_on_data_loss),
        **reader_options(topics.SPARK_GROUP),
    }


def reader_options(group: str) -> dict[str, str]:
    """Return the options of Spark's Kafka source that are the same for all topics.

    Args:
        group: The consumer group that IAM policies permit.
    """
    return {
        # Spark would read the records of aborted transactions by default; masscomm's functions ignore them.
        "kafka.isolation.level": "read_committed",  # guard: metrics.read_committed
        "includeHeaders": "true",
        # Spark requests the end offset after each fetch, and the broker responds in order per connection. At the end of
        # a partition, a task would therefore wait for the default of 500 ms.
        "kafka.fetch.max.wait.ms": _FETCH_WAIT_MS,
        # Spark polls again after the records of the last poll, so one poll may return as many records as one fetch.
        "kafka.max.poll.records": _POLL_RECORDS,
        **spark_kafka_options(group),
    }


def trigger(settings: SessionSettings, *, available_now: bool) -> Mapping[str, Any]:
    """Return the arguments of a query's trigger. With `available_now`, the query reads the ends of the topics when it
    starts, and terminates after the batches up to them.

    https://spark.apache.org/docs/latest/streaming/apis-on-dataframes-and-datasets.html#triggers
    """
    return {"availableNow": True} if available_now else {"processingTime": f"{settings.trigger_ms} milliseconds"}


def kafka_records(spark: SparkSession, settings: Settings, starting: str) -> DataFrame:
    """Return the stream of all topics' records.

    Args:
        starting: The first offsets if there is no checkpoint, as Spark's startingOffsets.
    """
    records = (
        spark.readStream.format("kafka")
        .options(**kafka_options(settings))
        .option("startingOffsets", starting)
        .option("maxOffsetsPerTrigger", settings.max_offsets_per_trigger)
        .load()
    )
    return one_task_per_core(records)


def kafka_range(spark: SparkSession, settings: Settings, begin: str, end: str) -> DataFrame:
    """Return the records of all topics between offsets, given as Spark's startingOffsets and endingOffsets."""
    options = kafka_options(settings) | {"startingOffsets": begin, "endingOffsets": end}
    # Spark would name a new group for each read, and keep its consumers for minutes although nothing uses them again.
    options["kafka.group.id"] = topics.SPARK_GROUP
    return one_task_per_core(spark.read.format("kafka").options(**options).load())


def one_task_per_core(records: DataFrame) -> DataFrame:
    """Return records of Kafka in at most one task for each core, in place of one for each partition.

    Each task generates the code of its decoding expressions, which takes as long as decoding ten thousand records.
    """
    return records.coalesce(most_cores(records.sparkSession))


def most_cores(spark: SparkSession) -> int:
    """Return the greatest number of cores: a cluster may have fewer now."""
    return int(spark.conf.get("spark.sql.shuffle.partitions") or 1)


def is_usable_schema(spark: SparkSession, schema: str) -> bool:
    """Return whether Spark can decode values of this Avro schema, and the schema is a record."""
    try:
        decoded = spark.createDataFrame([], "value binary").select(from_avro("value", schema).alias("value"))
        # Decoding adds a field to the schema's JSON, so Python must be able to parse it as well.
        return isinstance(decoded.schema["value"].dataType, StructType) and isinstance(
            json.loads(schema).get("fields"), list
        )
    except (PySparkException, Py4JJavaError):
        return False


@contextmanager
def spark_errors() -> Iterator[None]:
    """Raise Retry instead of Spark's errors: the catalog or the files are not available now."""
    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
        raise Retry(f"the archive: {reason_of(error)}") from error


def reason_of(error: Exception) -> str:
    """Return the reason of an error in one line."""
    lines = str(error).strip().splitlines()
    if isinstance(error, Py4JJavaError):
        # The text of a Java exception begins in the second line, and a line for each of its causes follows.
        lines = [line for line in lines if line.startswith("Caused by: ")][-1:] or lines[1:]
    return "".join(lines[:1]).removeprefix("Caused by: ").removeprefix(": ")[:300] or type(error).__name__
