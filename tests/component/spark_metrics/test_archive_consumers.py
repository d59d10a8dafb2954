"""With a real broker, each read of the archive uses the consumers of the one before it."""

import json
from uuid import uuid4

import psutil
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import SparkSession

from devstack.config import StackConfig
from spark_metrics import session
from spark_metrics.session import kafka_range
from spark_metrics.settings import Settings
from tests.support.spark.session import PY4J_SOCKETS

pytestmark = pytest.mark.filterwarnings(PY4J_SOCKETS)

PARTITIONS = 3


def connections(spark: SparkSession, port: int) -> set[int]:
    """Return the local ports of the connections from Spark's JVM to the broker."""
    jvm = psutil.Process(spark.sparkContext._gateway.proc.pid)  # type: ignore[union-attr]
    found = jvm.net_connections("tcp")
    return {one.laddr.port for one in found if one.status == psutil.CONN_ESTABLISHED and one.raddr.port == port}


def test_second_read_opens_no_connections(
    spark: SparkSession, kafka: StackConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = int(kafka.kafka_bootstrap.rpartition(":")[2])
    topic = f"read-{uuid4().hex}"
    with AdminClient({"bootstrap.servers": kafka.kafka_bootstrap}) as admin:
        admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
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
        after_reads.append(connections(spark, port))
    first, *later = after_reads
    assert len(first) >= PARTITIONS
    # Another test's consumers may be closed meanwhile.
    assert all(each <= first for each in later)
