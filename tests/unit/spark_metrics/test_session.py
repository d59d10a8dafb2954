"""Kafka's records are read in one task per core, in place of one per partition."""

import json
from collections.abc import Callable

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_metrics.common.session import kafka_range, kafka_records, most_cores, one_task_per_core, topic_names
from spark_metrics.common.settings import Settings

SETTINGS = Settings(bootstrap_servers="127.0.0.1:1", registry_url="", database_url="")


def _stream(spark: SparkSession) -> DataFrame:
    return kafka_records(spark, SETTINGS, "earliest")


def _range(spark: SparkSession) -> DataFrame:
    offsets = json.dumps({topic: {"0": 5} for topic in topic_names()})
    return kafka_range(spark, SETTINGS, offsets, offsets)


@pytest.mark.parametrize("read", [_stream, _range])
def test_records_are_read_in_one_task_per_core(spark: SparkSession, read: Callable[[SparkSession], DataFrame]) -> None:
    """Nothing connects before the first batch, so the plan is compared; `~` marks a stream in it."""
    plan = read(spark)._jdf.queryExecution().analyzed().toString().removeprefix("~")
    assert plan.startswith(f"Repartition {most_cores(spark)}, false")


def test_eight_partitions_are_read_in_two_tasks(spark: SparkSession) -> None:
    assert one_task_per_core(spark.range(8, numPartitions=8)).rdd.getNumPartitions() == 2
