"""A job that has counted ends, and says so, if a topic or its records were deleted meanwhile."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from local.devstack.config import StackConfig
from local.devstack.provision import create_topics, register_schemas
from local.devstack.stack import Stack
from masscomm.kafka.topics import chain_topics
from spark_metrics.common.broker import Broker
from tests.support.servers.metrics_database import metrics_database
from tests.support.spark.metrics_job import WAIT_S, Job, StartJob, await_watermark, jobs_on, query_value, wait_until

pytestmark = pytest.mark.nightly
TOPIC = "outcome"


@pytest.fixture
def config(tmp_path: Path) -> Iterator[StackConfig]:
    """Servers of the test's own, because the job reads topics by their real names."""
    config = StackConfig.on_free_ports(tmp_path / "stack")
    with Stack(config, ["kafka", "registry", "postgres"], discard=True):
        create_topics(config.kafka_bootstrap, chain_topics())
        register_schemas(config.registry_url, chain_topics())
        yield config


@pytest.fixture
def start_job(config: StackConfig, tmp_path: Path) -> Iterator[StartJob]:
    with metrics_database(config) as database, jobs_on(config, database, tmp_path) as start:
        yield start


def produce(config: StackConfig, records: int) -> None:
    """Produce records that are quarantined: their positions are counted as any others."""
    producer = Producer({"bootstrap.servers": config.kafka_bootstrap})
    for _ in range(records):
        producer.produce(TOPIC, b"", partition=0)
    assert producer.flush(WAIT_S) == 0


def counted(config: StackConfig, job: Job, records: int) -> None:
    """Have the job count these records, and end."""
    produce(config, records)
    await_watermark(job, time.time())
    assert query_value(job.database, "select count(*) from quarantine") == records
    job.process.terminate()
    assert job.process.wait(WAIT_S) == 0


def ended(job: Job) -> str:
    """Return the last line of a job that must end with status 1."""
    assert job.process.wait(WAIT_S) == 1
    return job.log.read_text().splitlines()[-1]


def recreate(config: StackConfig) -> None:
    """Delete the topic and create it again."""
    broker = Broker(config.kafka_bootstrap)
    with AdminClient({"bootstrap.servers": config.kafka_bootstrap}) as admin:
        admin.delete_topics([TOPIC])[TOPIC].result(WAIT_S)
        wait_until("the topic's end", lambda: broker.missing([TOPIC]))
    create_topics(config.kafka_bootstrap, [topic for topic in chain_topics() if topic.name == TOPIC])
    wait_until("the new topic", lambda: not broker.missing([TOPIC]))


def test_topic_recreated_while_the_job_runs_stops_it(config: StackConfig, start_job: StartJob) -> None:
    job = start_job()
    produce(config, 3)
    await_watermark(job, time.time())
    recreate(config)
    assert f"{TOPIC} was deleted and made again since it was counted" in ended(job)
    assert query_value(job.database, "select next_offset from stream_offsets where partition = 0 limit 1") == 3


def test_recreated_topic_stops_the_job(config: StackConfig, start_job: StartJob) -> None:
    """The new topic is longer than the old one was, so that offsets do not reveal it."""
    counted(config, start_job(), 3)
    recreate(config)
    produce(config, 9)
    job = start_job()
    assert f"{TOPIC} was deleted and made again since it was counted" in ended(job)
    assert query_value(job.database, "select next_offset from stream_offsets where partition = 0 limit 1") == 3


def test_records_deleted_before_they_are_counted_stop_the_job(config: StackConfig, start_job: StartJob) -> None:
    counted(config, start_job(), 3)
    produce(config, 4)
    with AdminClient({"bootstrap.servers": config.kafka_bootstrap}) as admin:
        gone = TopicPartition(TOPIC, 0, 5)
        admin.delete_records([gone])[gone].result(WAIT_S)
    line = ended(start_job())
    assert f"{TOPIC}-0 is counted up to 3, but its records now begin at 5" in line
    assert "SPARK_FAIL_ON_DATA_LOSS=false" in line
