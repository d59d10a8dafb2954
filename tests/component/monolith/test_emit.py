"""The monolith's emitter on a real broker and registry; the functions' decoder reads its records."""

from collections.abc import Iterator
from uuid import UUID, uuid4

import httpx
import pytest
from confluent_kafka import Consumer, Message, TopicPartition

from examples.monolith.emit import Emitter
from local.devstack.config import StackConfig
from local.devstack.provision import create_topics, register_schemas
from masscomm.kafka.avro import Codec, HttpSchemaRegistry
from masscomm.kafka.topics import Topic


class Sends:
    """A topic of sends in both lanes, with the deployed settings, and an emitter that produces to it."""

    def __init__(self, config: StackConfig) -> None:
        self.config = config
        self.name = f"send.{uuid4()}"
        self.topics = [_topic(self.name), _topic(f"{self.name}.critical")]
        create_topics(config.kafka_bootstrap, self.topics)
        self.ids = register_schemas(config.registry_url, self.topics)
        self.emitter = Emitter(config.kafka_bootstrap, config.registry_url, topic=self.name)
        self._codec = Codec(HttpSchemaRegistry(config.registry_url))

    def messages(self, count: int, *, critical: bool = False) -> list[Message]:
        """The first records of a lane, in their order."""
        consumer = Consumer({"bootstrap.servers": self.config.kafka_bootstrap, "group.id": self.name})
        try:
            consumer.assign([TopicPartition(self.topics[critical].name, 0, 0)])
            return list(consumer.consume(count, 10))
        finally:
            consumer.close()

    def records(self, count: int, *, critical: bool = False) -> list[dict[str, object]]:
        return [
            self._codec.decode("SendRequested", message.value()) for message in self.messages(count, critical=critical)
        ]


def _topic(name: str) -> Topic:
    return Topic(
        name=name,
        description="",
        owner="monolith",
        schema="SendRequested",
        partitions=1,
        retention_hours=1,
        cleanup="delete",
        max_message_bytes=1_048_576,
        timestamp_ahead_ms=3_600_000,
        replication_factor=1,
        producers=(),
        consumers=(),
    )


@pytest.fixture
def sends(kafka: StackConfig, registry: StackConfig) -> Iterator[Sends]:
    each = Sends(kafka)
    with each.emitter:
        yield each


def test_a_send_is_one_record_that_the_functions_read(sends: Sends) -> None:
    send_id = sends.emitter.send("news", 7, [1, 2, 2], channels=["push"], data={"headline": "We won"})

    [record] = sends.records(1)
    assert UUID(send_id)
    assert record["send_id"] == send_id
    assert (record["type"], record["club_id"], record["to_users"]) == ("news", 7, [1, 2, 2])
    assert (record["channels"], record["data"]) == (["push"], {"headline": "We won"})
    assert (record["chunk_index"], record["chunk_count"], record["priority"]) == (0, 1, None)


def test_long_send_is_split_into_chunks_with_one_id(sends: Sends) -> None:
    send_id = sends.emitter.send("news", 7, range(1, 11), chunk_size=4)

    records = sends.records(3)
    assert [record["to_users"] for record in records] == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10]]
    assert [(record["chunk_index"], record["chunk_count"]) for record in records] == [(0, 3), (1, 3), (2, 3)]
    assert {record["send_id"] for record in records} == {send_id}


def test_a_critical_send_goes_to_its_own_lane(sends: Sends) -> None:
    send_id = sends.emitter.send("one_time_password", 7, [1], critical=True)

    [record] = sends.records(1, critical=True)
    assert (record["send_id"], record["priority"]) == (send_id, "critical")


def test_record_with_the_four_required_fields_is_decoded(sends: Sends) -> None:
    written = sends.emitter.send_minimal("news", 7, [1, 2])

    [record] = sends.records(1)
    assert (record["type"], record["club_id"], record["to_users"]) == ("news", 7, [1, 2])
    assert (record["send_id"], record["channels"], record["chunk_count"]) == (None, [], 1)
    [message] = sends.messages(1)
    assert (written.topic, written.partition, written.offset) == (sends.name, 0, 0)
    assert written.timestamp == message.timestamp()[1]


def test_registered_schema_is_used_without_a_new_version(sends: Sends) -> None:
    sends.emitter.send("news", 7, [1])

    [message] = sends.messages(1)
    assert int.from_bytes((message.value() or b"")[1:5], "big") == sends.ids[f"{sends.name}-value"]
    versions = httpx.get(f"{sends.config.registry_url}/subjects/{sends.name}-value/versions").json()
    assert versions == [1]


def test_a_field_that_the_schema_does_not_have_is_refused(sends: Sends) -> None:
    with pytest.raises(ValueError, match="colour"):
        sends.emitter.send("news", 7, [1], colour="red")
