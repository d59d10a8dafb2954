"""The job of the organisation's own topics as a process, on servers of its own."""

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from local.devstack.config import StackConfig
from local.devstack.provision import create_topics, register_schemas
from local.devstack.service import base_environment, function_environment
from local.devstack.services.spark import spark_environment
from local.devstack.stack import Stack
from masscomm.kafka.admin import KafkaAdmin
from masscomm.kafka.dead_letters import SOURCE_TOPIC
from masscomm.kafka.event_sources import GROUP
from masscomm.kafka.topic_ids import topic_ids
from masscomm.kafka.topic_reading import read_topic
from masscomm.kafka.topics import DEAD_LETTER, EVENT, chain_topics
from spark_events.record_mapping import event_id
from tests.support.spark.metrics_job import WAIT_S, JobProcess, wait_until

PATTERN = "orders.*"
SOURCES = {
    "sources": [
        {
            "name": "orders",
            "topics": [PATTERN],
            "mapping": {"type": {"value": "order.paid"}, "club_id": {"value": 1}, "key": {"path": "number"}},
        }
    ]
}


@dataclass
class EventsBench:
    """Kafka, the registry and the jobs that were started."""

    config: StackConfig
    stack: Stack
    folder: Path
    # One client for all calls: one that is closed while its thread ends a call crashes the process.
    kafka: KafkaAdmin
    # A consumer of the job's group that reads nothing.
    consumer: Consumer
    jobs: list[JobProcess] = field(default_factory=list)

    def start(self, *arguments: str, **environment: str) -> JobProcess:
        name = f"job-{len(self.jobs)}"
        chosen = {
            **base_environment(),
            **function_environment(self.config),
            **spark_environment(self.config),
            "SPARK_LOCAL_DIRS": str(self.folder),
            "SPARK_READY_FILE": str(self.folder / f"{name}.ready"),
            "SPARK_TRIGGER_MS": "100",
            "SPARK_EVENT_SOURCES": str(self.config.event_sources),
            **environment,
        }
        self.jobs.append(JobProcess.started("spark_events.job", chosen, self.folder / f"{name}.log", *arguments))
        return self.jobs[-1]

    def stop(self, job: JobProcess) -> None:
        job.process.terminate()
        assert job.process.wait(WAIT_S) == 0

    def create(self, topic: str, *, partitions: int = 2, config: dict[str, str] | None = None) -> str:
        """Create a topic, and return its id."""
        self.admin.create_topics([NewTopic(topic, partitions, 1, config=config or {})])[topic].result(WAIT_S)
        wait_until("the topic", lambda: self._has(topic))
        return topic_ids(self.kafka, [topic])[topic]

    def delete(self, topic: str) -> None:
        self.admin.delete_topics([topic])[topic].result(WAIT_S)
        wait_until("the topic's end", lambda: not self._has(topic))

    @property
    def admin(self) -> AdminClient:
        return self.kafka.client()

    def committed(self, topic: str, partition: int = 0) -> int:
        """Return the job's committed offset; a negative number if there is none, or if it cannot be read now."""
        try:
            (place,) = self.consumer.committed([TopicPartition(topic, partition)], timeout=WAIT_S)
        except KafkaException:  # A new broker has no coordinator of the group yet.
            return -1
        return place.offset

    def reset(self, topic: str, offset: int) -> None:
        """Reset the job's offset in the first partition, as an operator does."""
        self.consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)

    def _has(self, topic: str) -> bool:
        return topic in self.admin.list_topics(timeout=10).topics

    def produce(self, topic: str, values: Iterable[bytes | None], *, partition: int = 0) -> None:
        producer = Producer({"bootstrap.servers": self.config.kafka_bootstrap, "message.max.bytes": 8_000_000})
        for value in values:
            producer.produce(topic, value, partition=partition)
        assert producer.flush(WAIT_S) == 0

    def orders(self, topic: str, count: int, *, first: int = 0, partition: int = 0) -> None:
        numbers = range(first, first + count)
        self.produce(topic, [json.dumps({"number": number}).encode() for number in numbers], partition=partition)

    def records(self, topic: str) -> list[Message]:
        return list(read_topic(self.config.kafka_bootstrap, topic))

    def events(self, topic_id: str) -> list[tuple[str, bytes | None]]:
        """Return the id and the value of each event of a topic."""
        found = [((message.key() or b"").decode(), message.value()) for message in self.records(EVENT)]
        return [each for each in found if each[0].startswith(f"{topic_id}:")]

    def event_ids(self, topic_id: str) -> list[str]:
        return [each for each, _ in self.events(topic_id)]

    def letters(self, topic: str) -> list[dict[str, bytes]]:
        """Return the headers of the dead letters of a topic."""
        found: list[dict[str, Any]] = [dict(message.headers() or []) for message in self.records(DEAD_LETTER)]
        return [letter for letter in found if letter[SOURCE_TOPIC] == topic.encode()]

    def restart_kafka(self) -> None:
        """Kill the broker, start it again, and wait until it leads its partitions."""
        self.stack.kill("kafka")
        self.stack.restart("kafka")

        def answers() -> bool:
            try:
                return bool(self.records(EVENT))
            except KafkaException:
                return False

        wait_until("the broker", answers)

    def await_more_events(self, topic_id: str, count: int, job: JobProcess) -> None:
        """Wait until the topic has this many events more than now."""
        seen = len(self.event_ids(topic_id))
        wait_until(f"{count} events", lambda: len(self.event_ids(topic_id)) >= seen + count, job)

    def await_events(self, topic_id: str, count: int, job: JobProcess | None = None, *, partition: int = 0) -> None:
        """Wait until the first records of a partition are events."""
        expected = ids_of(topic_id, count, partition=partition)
        wait_until(f"{count} events", lambda: expected <= set(self.event_ids(topic_id)), job)

    def kill_jobs(self) -> None:
        for job in self.jobs:
            if job.process.poll() is None:
                job.kill()


def ids_of(topic_id: str, count: int, *, partition: int = 0) -> set[str]:
    """Return the ids of the events of the first records of a partition."""
    return {event_id(topic_id, partition, offset) for offset in range(count)}


@contextmanager
def events_bench(folder: Path) -> Iterator[EventsBench]:
    """Start the servers; stop them, and kill the jobs that still run, at the end."""
    sources = folder / "sources.yaml"
    sources.write_text(yaml.safe_dump(SOURCES))
    config = replace(StackConfig.on_free_ports(folder / "stack"), event_sources=sources)
    with Stack(config, ["kafka", "registry"], discard=True) as stack:
        create_topics(config.kafka_bootstrap, chain_topics())
        register_schemas(config.registry_url, chain_topics())
        # Without a log: a line for each attempt to reach a killed broker.
        client = {"bootstrap.servers": config.kafka_bootstrap, "log_level": 0}
        consumer = Consumer({**client, "group.id": GROUP, "enable.auto.commit": False})
        bench = EventsBench(config, stack, folder, KafkaAdmin(client), consumer)
        try:
            yield bench
        finally:
            bench.kill_jobs()
            bench.kafka.close()
            consumer.close()
