"""Kafka compacts the topics of captured rows, and the directory is rebuilt from what it leaves."""

from collections.abc import Iterator
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # not in its __all__
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
)

from local.devstack.config import StackConfig
from local.devstack.provision import create_topics
from masscomm.cdc.captured_tables import captured_tables
from masscomm.cdc.change_events import SnapshotCompleted, SnapshotStarted
from masscomm.cdc.changelogs import MARK, KafkaChangelogs
from masscomm.errors import Retry
from masscomm.kafka.event import KafkaRecord
from masscomm.kafka.topics import DIRECTORY_DOCUMENT, cdc_topic, cdc_topics, chain_topics
from tests.support.harness.change_data_capture import RunningGeneration, record_of, same_rows
from tests.support.until import until

# The broker looks for segments to compact every 15 s (log.cleaner.backoff.ms).
_COMPACTED_S = 90

# As in schemas/topics.yaml, within a second instead of days.
_AT_ONCE = {
    "min.compaction.lag.ms": "0",
    "max.compaction.lag.ms": "1000",
    "segment.ms": "1000",
    "delete.retention.ms": "0",
}


def compact_at_once(bootstrap: str, *topics: str) -> None:
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in _AT_ONCE.items()
    ]
    resources = [ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries) for topic in topics]
    with AdminClient({"bootstrap.servers": bootstrap}) as admin:
        for future in admin.incremental_alter_configs(resources).values():
            future.result(30)


def stored(bootstrap: str, topic: str) -> Iterator[KafkaRecord]:
    """Yield the records that a topic still has, those of each partition in order."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "broker.address.family": "v4",
            "group.id": f"reader.{topic}",
            "enable.auto.commit": False,
        }
    )
    try:
        for partition in consumer.list_topics(topic, timeout=10).topics[topic].partitions:
            place = TopicPartition(topic, partition, 0)
            _, end = consumer.get_watermark_offsets(place, timeout=10)
            consumer.assign([place])
            while consumer.position([place])[0].offset < end:
                message = consumer.poll(10)
                assert message is not None
                yield record_of(message)
    finally:
        consumer.close()


def partitions_of(bootstrap: str, topic: str) -> int:
    with AdminClient({"bootstrap.servers": bootstrap}) as admin:
        return len(admin.list_topics(topic, 10).topics[topic].partitions)


def create_changelogs(bootstrap: str, generation: str) -> None:
    own = [topic for topic in chain_topics() if topic.name == DIRECTORY_DOCUMENT]
    create_topics(bootstrap, [*cdc_topics(generation), *own])


def test_each_partition_of_rows_is_marked(kafka: StackConfig) -> None:
    generation = f"t{uuid4().hex[:8]}"
    create_changelogs(kafka.kafka_bootstrap, generation)
    KafkaChangelogs(kafka.kafka_bootstrap, captured=generation).mark()
    for table in captured_tables():
        topic = cdc_topic(table, generation)
        marks = [(record.partition, record.key, record.value) for record in stored(kafka.kafka_bootstrap, topic)]
        partitions = partitions_of(kafka.kafka_bootstrap, topic)
        assert sorted(marks) == [(partition, MARK, None) for partition in range(partitions)]


def test_marks_of_absent_changelogs_are_repeated(kafka: StackConfig) -> None:
    with pytest.raises(Retry, match="marks"):
        KafkaChangelogs(kafka.kafka_bootstrap, captured=f"t{uuid4().hex[:8]}").mark()


@pytest.mark.nightly
def test_a_deleted_row_is_erased_where_no_other_changes(kafka: StackConfig) -> None:
    """Without marks, its records stay in the last segment of the partition."""
    generation, bootstrap = f"t{uuid4().hex[:8]}", kafka.kafka_bootstrap
    users = cdc_topic("users", generation)
    create_changelogs(bootstrap, generation)
    compact_at_once(bootstrap, users)
    producer = Producer({"bootstrap.servers": bootstrap, "broker.address.family": "v4"})
    for value in (b'{"after": "personal"}', b'{"before": "personal"}', None):
        producer.produce(users, value, b'{"id":1}')
    assert producer.flush(10) == 0
    changelogs = KafkaChangelogs(bootstrap, captured=generation)

    def erased() -> bool:
        changelogs.mark()
        return not any(record.key == b'{"id":1}' and record.value for record in stored(bootstrap, users))

    assert not erased()
    until("the broker has compacted the topic", erased, timeout_s=_COMPACTED_S, every_s=1)


@pytest.mark.nightly
def test_directory_is_rebuilt_from_compacted_topics(stack: StackConfig) -> None:
    """The topics have the last change of each row, and the start and the end of the snapshot."""
    bootstrap = stack.kafka_bootstrap
    with RunningGeneration.made(stack) as made, made.sql() as sql:
        users = cdc_topic("users", made.name)
        notification, heartbeat = cdc_topic("notification", made.name), cdc_topic("heartbeat", made.name)
        for number, name in enumerate(("erased", "renamed", "unchanged"), start=1):
            sql.execute(
                "INSERT INTO users (id, club_id, first_name, last_name) VALUES (%s, 1, %s, 'x')", (number, name)
            )
        made.start_connector()
        made.consume_until(made.complete)
        sql.execute("UPDATE users SET first_name = 'between' WHERE id = 2")
        sql.execute("UPDATE users SET first_name = 'last' WHERE id = 2")
        sql.execute("DELETE FROM users WHERE id = 1")
        made.consume_until(lambda: same_rows(made.documents("users"), made.rows("users")))
        create_changelogs(bootstrap, made.name)
        compact_at_once(bootstrap, users, notification, heartbeat)
        changelogs = KafkaChangelogs(bootstrap, captured=made.name)

        def erased() -> bool:
            changelogs.mark()
            values = [record.value or b"" for record in stored(bootstrap, users)]
            return not any(b"erased" in value or b"renamed" in value for value in values)

        until("the broker has compacted the topic", erased, timeout_s=_COMPACTED_S, every_s=1)
        left = {record.key: record.value or b"" for record in stored(bootstrap, users) if record.value is not None}
        assert left.keys() == {b'{"id":2}', b'{"id":3}'}
        assert b'"last"' in left[b'{"id":2}']
        assert b'"between"' in left[b'{"id":2}'], "the last change of a row has its values before it"

        made.start_again()
        made.consume_until(made.complete)
        assert same_rows(made.documents("users"), made.rows("users"))
        kinds = [type(change) for change in made.changes()]
        assert (kinds.count(SnapshotStarted), kinds.count(SnapshotCompleted)) == (1, 1)
