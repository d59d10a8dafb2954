"""The outbox on the real Postgres, Debezium and Kafka: committed rows are events, and nothing else is."""

import json
import time
from collections.abc import Mapping
from typing import Any

import psycopg
import pytest
from confluent_kafka import Consumer

from local.devstack.config import StackConfig
from masscomm.kafka import topics
from masscomm.kafka.event import KafkaRecord
from masscomm.kafka.topics import cdc_topic
from tests.support.harness.chain import entry
from tests.support.harness.change_data_capture import RunningGeneration, record_of
from tests.support.harness.events import GOAL, EventMatcher, subscribed

# A row of the snapshot, four inserted, one changed and four deleted ones, and the tombstones of these.
RECORDS = 1 + 4 + 1 + 4 + 4


class Outbox:
    """The outbox of a generation, and event_matcher, which consumes its topic."""

    def __init__(self, made: RunningGeneration) -> None:
        self.topic = cdc_topic(topics.OUTBOX, made.name)
        self.matcher = EventMatcher()
        self.matcher.subscribe(subscribed(club_ids=None))
        self.records: list[KafkaRecord] = []
        self._consumer = Consumer(
            {
                "bootstrap.servers": made.config.kafka_bootstrap,
                "broker.address.family": "v4",
                "group.id": f"masscomm.event_matcher.{made.name}",
                "auto.offset.reset": "earliest",
            }
        )
        self._consumer.subscribe([self.topic])

    def consume_until(self, count: int) -> None:
        """Process this number of records; fails the test after 60 s."""
        deadline = time.monotonic() + 60
        while len(self.records) < count:
            assert time.monotonic() < deadline, f"{len(self.records)} records: {self.operations()}"
            for message in self._consumer.consume(100, 0.1):
                assert message.error() is None
                self.process(record_of(message))

    def process(self, record: KafkaRecord) -> None:
        self.records.append(record)
        given = entry(
            record.value, topic=record.topic, partition=record.partition, offset=record.offset, key=record.key
        )
        assert self.matcher.run(self.matcher.use_case, given) == []

    def sent(self) -> list[str]:
        return [event for _, event, _ in self.matcher.messages()]

    def operations(self) -> list[str | None]:
        return [None if each.value is None else json.loads(each.value)["op"] for each in self.records]

    def dead_lettered(self) -> list[str]:
        """Return the ids of the rows that are dead-lettered."""
        return [json.loads(value)["after"]["event_id"] for value in self.matcher.values(topics.DEAD_LETTER)]

    def close(self) -> None:
        self._consumer.close()


def insert(connection: psycopg.Connection, event_id: str, **fields: Any) -> None:
    row: Mapping[str, Any] = {
        "club_id": 1,
        "type": GOAL,
        "unit": None,
        "key": None,
        "data": '{"minute": 90.50}',
    } | fields
    connection.execute(
        "INSERT INTO event_outbox (event_id, club_id, type, unit, key, data)"
        " VALUES (%(event_id)s, %(club_id)s, %(type)s, %(unit)s, %(key)s, %(data)s)",
        {"event_id": event_id, **row},
    )


@pytest.mark.guarantee("outbox.event_commits_with_its_rows")
def test_committed_rows_are_events(stack: StackConfig) -> None:
    with RunningGeneration.made(stack) as made, made.sql() as sql:
        insert(sql, "before")  # A row of the snapshot.
        made.start_connector()
        made.consume_until(made.complete)
        outbox = Outbox(made)
        with made.sql(autocommit=False) as other:
            insert(other, "rolled-back")
            other.rollback()
            insert(other, "committed", unit="100/7", key="match-1")
            other.execute("INSERT INTO users (id, club_id, first_name, last_name) VALUES (1, 1, 'x', 'x')")
            row = other.execute(
                "SELECT floor(extract(epoch FROM max(occurred_at)) * 1000) FROM event_outbox"
            ).fetchone()
            other.commit()
        insert(sql, "malformed", unit="100//7")
        insert(sql, "unknown", type="match.unknown")
        sql.execute("UPDATE event_outbox SET key = 'changed' WHERE event_id = 'committed'")
        sql.execute("DELETE FROM event_outbox")
        insert(sql, "last")
        outbox.consume_until(RECORDS)
        assert sorted(outbox.sent()) == ["committed", "last"]
        assert sorted(outbox.dead_lettered()) == ["malformed", "unknown"]
        assert {"r", "c", "u", "d", None} == set(outbox.operations())
        (request,) = [each for each in outbox.matcher.requests() if each.events[0].event_id == "committed"]
        (event,) = request.events
        assert (event.club_id, event.type, event.unit, event.key) == (1, GOAL, "100/7", "match-1")
        assert event.data == '{"minute": 90.50}'
        assert row is not None
        assert event.occurred_at in (row[0], row[0] + 1)
        made.consume_until(lambda: "1" in made.documents("users"))
        outbox.close()


def test_a_row_that_is_no_event_is_refused_by_the_table(stack: StackConfig) -> None:
    """The database refuses it at once, and so also the transaction that causes the event."""
    with RunningGeneration.made(stack) as made, made.sql() as sql:
        for fields in ({"data": "[1]"}, {"data": json.dumps({"a": "x" * 66_000})}):
            with pytest.raises(psycopg.errors.CheckViolation):
                insert(sql, "e1", **fields)
        insert(sql, "e1")
        with pytest.raises(psycopg.errors.UniqueViolation):
            insert(sql, "e1")
