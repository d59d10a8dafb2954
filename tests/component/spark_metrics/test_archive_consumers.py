"""With a real broker, each read of the archive uses the consumers of the one before it."""

import json

import psutil
import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from local.devstack.config import StackConfig
from spark_metrics.common import session
from spark_metrics.common.session import kafka_range
from spark_metrics.common.settings import Settings
from tests.support.servers.kafka_topics import make_topic
from tests.support.spark.session import PY4J_SOCKETS

pytestmark = pytest.mark.filterwarnings(PY4J_SOCKETS)

PARTITIONS = 3


def connections(spark: SparkSession, port: int) -> set[int]:
    """Return the local ports of the connections from Spark's JVM to the broker."""
    jvm = psutil.Process(spark.sparkContext._gateway.proc.pid)  # type: ignore[union-attr]
    found = jvm.net_connections("tcp")
    return {one.laddr.port for one in found if one.status == psutil.CONN_ESTABLISHED and one.raddr.port == port}


@pytest.mark.nightly
def test_second_read_opens_no_connections(
    spark: SparkSession, kafka: StackConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = make_topic(kafka.kafka_bootstrap, partitions=PARTITIONS)
    with Producer({"bootstrap.servers": kafka.kafka_bootstrap}) as producer:
        for partition in range(PARTITIONS):
            producer.produce(topic, b"x", partition=partition)
        assert producer.flush(30) == 0
    monkeypatch.setattr(session, "topic_names", lambda: [topic])
    settings = Settings(bootstrap_servers=kafka.kafka_bootstrap, registry_url="", database_url="")
    begin, end = (json.dumps({topic: dict.fromkeys(map(str, range(PARTITIONS)), offset)}) for offset in (0, 1))

    after_reads = []
    for _ in range(3):
        assert len(kafka_range(spark, settings, begin, end).collect()) == PARTITIONS
        after_reads.append(connections(spark, kafka.ports.kafka))
    first, *later = after_reads
    assert len(first) >= PARTITIONS
    # Another test's consumers may be closed meanwhile.
    assert all(each <= first for each in later)
