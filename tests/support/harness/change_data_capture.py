"""A snapshot generation on the real Debezium for one test: database, topics, indices, connector, consumer.

The consumer replaces Lambda's event source mapping: it makes aws:kafka events of polled records, invokes the use case
and commits only successful batches.
"""

import base64
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

import httpx
import psycopg
from confluent_kafka import Consumer, Message, TopicPartition
from psycopg.sql import SQL, Identifier

from functions.cdc_consumer.apply_changes import ApplyChanges
from functions.cdc_consumer.generation import Generation
from local.devstack.config import StackConfig
from local.devstack.provision import (
    MONOLITH_MIGRATION,
    await_connector,
    connector_config,
    create_indices,
    create_topics,
)
from masscomm.cdc.captured_tables import captured_tables
from masscomm.cdc.change_events import ChangeDecoder
from masscomm.cdc.progress import KafkaCdcProgress
from masscomm.chain.batch import BatchDriver
from masscomm.clock import SystemClock
from masscomm.directory.opensearch import OpenSearchDirectory
from masscomm.kafka.avro import Codec, InMemorySchemaRegistry
from masscomm.kafka.event import KafkaRecord
from masscomm.kafka.producer import InMemoryProducer
from masscomm.kafka.topics import cdc_topics
from tests.support.servers.opensearch_client import TestClient

OFFSETS_TOPIC = "connect.offsets"


class Context:
    """A Lambda context with unlimited time."""

    def get_remaining_time_in_millis(self) -> int:
        return 60_000


def event_of(records: Sequence[KafkaRecord]) -> dict[str, Any]:
    """Return the aws:kafka event that Lambda's event source mapping makes of records."""
    partitions: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        partitions.setdefault(f"{record.topic}-{record.partition}", []).append(
            {
                "topic": record.topic,
                "partition": record.partition,
                "offset": record.offset,
                "timestamp": record.timestamp_ms,
                "timestampType": "CREATE_TIME",
                "key": base64.b64encode(record.key).decode() if record.key is not None else None,
                "value": base64.b64encode(record.value).decode() if record.value is not None else None,
                "headers": [],
            }
        )
    return {"eventSource": "aws:kafka", "bootstrapServers": "", "records": partitions}


def record_of(message: Message) -> KafkaRecord:
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None
    assert partition is not None
    assert offset is not None
    key, value = message.key(), message.value()
    return KafkaRecord(
        topic=topic, partition=partition, offset=offset, timestamp_ms=message.timestamp()[1], key=key, value=value
    )


def driver(producer: InMemoryProducer | None = None) -> BatchDriver:
    """Return a batch driver that appends dead letters to a list."""
    return BatchDriver(
        function="cdc_consumer", codec=Codec(InMemorySchemaRegistry()), producer=producer or InMemoryProducer()
    )


@dataclass
class RunningGeneration:
    """One snapshot generation with its connector and consumer. `records` has all consumed records in order."""

    config: StackConfig
    name: str
    database: str
    client: TestClient
    overrides: Mapping[str, str] = field(default_factory=dict)
    records: list[KafkaRecord] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.producer = InMemoryProducer()
        self.driver = driver(self.producer)
        self._consumer: Consumer | None = None
        self._start_group(f"masscomm.cdc_consumer.{self.name}")

    def _start_group(self, name: str) -> None:
        self.group = name
        self.generation = Generation(self.client, name=self.name, progress=self.progress(), clock=SystemClock())
        self.use_case = ApplyChanges(self.client, self.generation)

    def progress(self) -> KafkaCdcProgress:
        return KafkaCdcProgress(
            self.config.kafka_bootstrap, generation=self.name, group=self.group, offsets_topic=OFFSETS_TOPIC
        )

    def directory(self, *, wait_s: float = 0.0) -> OpenSearchDirectory:
        return OpenSearchDirectory(
            self.client, progress=lambda _: self.progress(), clock=SystemClock(), wait_s=lambda: wait_s
        )

    def sql(self, *, autocommit: bool = True) -> psycopg.Connection:
        """Return a connection to the monolith's database."""
        url = self.config.database_url(self.database)
        return psycopg.connect(url, autocommit=autocommit)

    def start_connector(self) -> None:
        config = connector_config(self.name, self.config.database_url(self.database)) | dict(self.overrides)
        answer = httpx.put(f"{self.config.connect_url}/connectors/{self.name}/config", json=config, timeout=30)
        answer.raise_for_status()

    def await_connector(self) -> None:
        await_connector(self.config.connect_url, self.name)

    def stop_connector(self) -> None:
        httpx.delete(f"{self.config.connect_url}/connectors/{self.name}", timeout=30)

    def consume_until(self, until: Callable[[], bool], timeout_s: float = 40.0) -> None:
        """Consume until the condition is true; fails the test on a time-out."""
        deadline = time.monotonic() + timeout_s
        while not until():
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {timeout_s} s; state {self.state()}; {len(self.records)} records")
            self.step()

    def step(self) -> None:
        """Poll once and apply the records; a failed batch is redelivered before its offsets are committed."""
        if self._consumer is None:
            self._consumer = Consumer(
                {
                    "bootstrap.servers": self.config.kafka_bootstrap,
                    "broker.address.family": "v4",
                    "group.id": self.group,
                    "enable.auto.commit": False,
                    "auto.offset.reset": "earliest",
                }
            )
            mine = [topic.name for topic in cdc_topics(self.name) if "cdc_consumer" in topic.consumers]
            self._consumer.subscribe(mine)
        records = [record_of(message) for message in self._consumer.consume(1_000, 0.05) if message.error() is None]
        if not records:
            return
        event = event_of(records)
        while self.driver.run(event, Context(), self.use_case)["batchItemFailures"]:
            pass
        self.records += records
        ends: dict[tuple[str, int], int] = {}
        for record in records:
            place = record.topic, record.partition
            ends[place] = max(ends.get(place, 0), record.offset + 1)
        self._consumer.commit(
            offsets=[TopicPartition(topic, partition, end) for (topic, partition), end in ends.items()],
            asynchronous=False,
        )

    def start_again(self) -> None:
        """Lose the indices, and continue as a new group, which reads the topics from their beginning."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None
        self.lose_indices()
        self.records = []
        self._start_group(f"{self.group}.again")

    def lose_indices(self) -> None:
        """Make the indices and the generation's state anew."""
        self.client.indices.delete(index=",".join(f"{table}-{self.name}" for table in captured_tables()))
        create_indices(self.config.opensearch_url, self.name)
        for document in (f"generation-{self.name}", f"position-{self.name}"):
            url = f"{self.config.opensearch_url}/directory_state/_doc/{document}"
            httpx.delete(url, timeout=30).raise_for_status()

    def changes(self) -> list[Any]:
        decoder = ChangeDecoder(self.name)
        return [decoder.decode(record) for record in self.records]

    def state(self) -> dict[str, Any]:
        answer = self.client.mget(body={"docs": [{"_index": "directory_state", "_id": f"generation-{self.name}"}]})
        found: dict[str, Any] = answer["docs"][0].get("_source", {})
        return found

    def complete(self) -> bool:
        return bool(self.state().get("complete"))

    def documents(self, table: str) -> dict[str, dict[str, Any]]:
        """Return the documents in the index of a table by id, without deleted ones."""
        index = f"{table}-{self.name}"
        self.client.indices.refresh(index=index)
        answer = self.client.search(index=index, body={"size": 10_000, "query": {"match_all": {}}})
        return {hit["_id"]: hit["_source"] for hit in answer["hits"]["hits"] if not hit["_source"].get("deleted")}

    def rows(self, table: str) -> dict[str, dict[str, Any]]:
        """Return the current rows of a table by id, as JSON."""
        with self.sql() as connection:
            found = connection.execute(SQL("SELECT row_to_json(t) FROM {} t").format(Identifier(table))).fetchall()
        key = "user_id" if table == "user_settings" else "id"
        return {str(row[key]): row for (row,) in found}

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
        self.stop_connector()
        self.client.indices.delete(index=",".join(f"{table}-{self.name}" for table in captured_tables()))

    @classmethod
    @contextmanager
    def made(cls, config: StackConfig, migration: Path = MONOLITH_MIGRATION, /, **overrides: str) -> Iterator[Self]:
        """Yield a generation without a connector, which the test starts itself; at the end everything is removed."""
        name = f"t{uuid4().hex[:8]}"
        # Each test has its own server: replication slots prevent dropping a database, and a test's slot ends with its
        # server.
        with psycopg.connect(config.database_url("monolith"), autocommit=True) as connection:
            connection.execute(SQL("CREATE DATABASE {}").format(Identifier(name)))
        with psycopg.connect(config.database_url(name), autocommit=True) as connection:
            connection.execute(migration.read_bytes())
            if migration == MONOLITH_MIGRATION:
                connection.execute("INSERT INTO clubs VALUES (1, 'one'), (2, 'two')")
        create_topics(config.kafka_bootstrap, cdc_topics(name))
        create_indices(config.opensearch_url, name)
        client = TestClient(config.opensearch_url)
        made = cls(config, name, name, client, overrides)
        try:
            yield made
        finally:
            made.close()
            client.close()


def same_rows(documents: Mapping[str, Mapping[str, Any]], rows: Mapping[str, Mapping[str, Any]]) -> bool:
    """Return whether an index equals its table, apart from the format of times."""

    def plain(row: Mapping[str, Any]) -> str:
        return json.dumps({k: v for k, v in row.items() if not k.endswith(("_at", "changed_at_ms"))}, sort_keys=True)

    return {name: plain(row) for name, row in documents.items()} == {name: plain(row) for name, row in rows.items()}
