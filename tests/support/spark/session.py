"""One Spark session for a test process, and Kafka records as a data frame; tests/conftest.py has the fixtures."""

import gc
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from local.devstack.services.spark import driver_options, spark_jars
from spark_metrics.common.session import spark_session
from spark_metrics.common.settings import Settings

# py4j leaves sockets of ended threads to the garbage collector, which warns of them at any time.
PY4J_SOCKETS = "ignore:Exception ignored in. <socket.socket:pytest.PytestUnraisableExceptionWarning"

_KAFKA = (
    "topic string, partition int, offset long, timestamp timestamp, value binary,"
    " headers array<struct<key: string, value: binary>>"
)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The job's own session, so that tests use the job's options."""
    settings = Settings(
        bootstrap_servers="",
        registry_url="",
        database_url="",
        jars=spark_jars(),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_SUBMIT_OPTS", driver_options())
        session = spark_session(settings)
    yield session
    session.stop()
    # End the JVM here: otherwise its sockets are closed during another test.
    gateway: Any = SparkContext._gateway
    SparkContext._gateway = SparkContext._jvm = None
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()
    del gateway
    gc.collect()


# One record of Kafka's source: topic, value and optionally offset, partition, timestamp_ms, headers.
type Record = dict[str, Any]
type ToFrame = Callable[[Sequence[Record]], DataFrame]

PRODUCED_MS = 1_700_000_000_000


def new_session(spark: SparkSession) -> SparkSession:
    """Return another session of the same process, with the same options, and without views and open catalogs."""
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", spark.sparkContext.defaultParallelism)
    return session


def frames_of(spark: SparkSession) -> ToFrame:
    """Return a function that returns the frame of Spark's Kafka source for records; missing offsets are numbered."""

    def frame(records: Sequence[Record]) -> DataFrame:
        rows = [
            (
                record["topic"],
                record.get("partition", 0),
                record.get("offset", place),
                datetime.fromtimestamp(record.get("timestamp_ms", PRODUCED_MS) / 1000, UTC),
                None if record["value"] is None else bytearray(record["value"]),
                [(name, bytearray(value)) for name, value in record.get("headers", [])] or None,
            )
            for place, record in enumerate(records)
        ]
        return spark.createDataFrame(rows, _KAFKA)

    return frame


@pytest.fixture(scope="session")
def kafka_frame(spark: SparkSession) -> ToFrame:
    return frames_of(spark)
