"""A record whose schema is registered after the job has read it is produced again, once, and counted then."""

from collections.abc import Iterator

import pytest

from masscomm.domain.time_limits import LATE_SCHEMA_S
from masscomm.errors import DeadLetter, Retry
from masscomm.kafka.avro import KNOWN_SUBJECT, InMemorySchemaRegistry, own_schema
from masscomm.kafka.dead_letters import SOURCE_OFFSET, SOURCE_PARTITION, SOURCE_TIMESTAMP, SOURCE_TOPIC
from masscomm.kafka.event import KafkaRecord
from masscomm.kafka.producer import InMemoryProducer
from masscomm.kafka.source_records import InMemorySourceRecords
from spark_metrics.common.sources import all_sources
from spark_metrics.counting.late_schemas import LateSchemas, written_topics
from spark_metrics.counting.problems import Problem
from spark_metrics.counting.sink import PostgresSink
from spark_metrics.counting.writers import KnownWriters

_NOW = 1_790_000_000_000


class Late:
    """The object under test, with its database, registry, topics and producer."""

    def __init__(self, database: str) -> None:
        self.sink = PostgresSink(database)
        self.registry = InMemorySchemaRegistry()
        self.registry.register(KNOWN_SUBJECT, own_schema("NotificationOutcome"))
        self.source, self.producer = InMemorySourceRecords(), InMemoryProducer()
        self.late = self.restarted()

    def restarted(self) -> LateSchemas:
        writers = KnownWriters(self.registry, lambda _: True, quiet=True)
        return LateSchemas(self.sink, writers, self.source, lambda: self.producer)

    def quarantine(self, offset: int, schema_id: int, *, age_s: int = 0, value: bytes = b"value") -> None:
        self.sink.connected().execute(
            "insert into quarantine"
            " values ('send.api', 0, %s, 'unknown_schema', %s, now() - make_interval(secs => %s))",
            [offset, schema_id, age_s],
        )
        place = "send.api", 0, offset
        self.source.records[place] = KafkaRecord(*place, _NOW, b"key", value, (("own", b"1"),))

    def register(self) -> int:
        return self.registry.register("send.api-value", own_schema("SendRequested"))

    def reasons(self) -> dict[int, str]:
        return dict(self.sink.connected().execute("select kafka_offset, reason from quarantine").fetchall())

    def offsets(self) -> list[bytes]:
        return [dict(headers)[SOURCE_OFFSET] for _, _, _, headers in self.producer.produced]


@pytest.fixture
def late(database: str) -> Iterator[Late]:
    made = Late(database)
    yield made
    made.sink.close()


@pytest.mark.guarantee("metrics_job.late_schema_is_counted")
def test_record_of_a_late_schema_is_produced_again_once(late: Late) -> None:
    late.quarantine(7, 2)
    assert late.late.produce_next() == 0
    assert late.reasons() == {7: Problem.UNKNOWN_SCHEMA}
    assert late.register() == 2
    assert [late.late.produce_next() for _ in range(3)] == [1, 0, 0]
    ((topic, key, value, headers),) = late.producer.produced
    assert (topic, key, value) == ("send.api", b"key", b"value")
    position = {SOURCE_TOPIC: b"send.api", SOURCE_PARTITION: b"0", SOURCE_OFFSET: b"7"}
    assert dict(headers) == {"own": b"1", SOURCE_TIMESTAMP: str(_NOW).encode()} | position
    assert late.reasons() == {7: Problem.LATE_SCHEMA}


def test_run_that_ends_looks_up_each_waiting_schema(late: Late) -> None:
    for offset, schema_id in ((6, 1_000), (7, 2), (8, 3)):
        late.quarantine(offset, schema_id)
    late.register()
    late.registry.register("send.api-value", own_schema("SendRequested") | {"doc": "another version"})
    late.late.produce_all()
    assert late.reasons() == {6: Problem.UNKNOWN_SCHEMA, 7: Problem.LATE_SCHEMA, 8: Problem.LATE_SCHEMA}


def test_job_that_starts_again_continues(late: Late) -> None:
    late.quarantine(7, 2)
    late.late.produce_next()
    late.register()
    assert late.restarted().produce_next() == 1


@pytest.mark.kills(guard="metrics.late_schema_is_not_too_late")
def test_record_is_not_produced_again_hours_later(late: Late) -> None:
    """Its dead letter is an operator's then."""
    late.quarantine(7, 2, age_s=LATE_SCHEMA_S + 60)
    late.register()
    assert late.late.produce_next() == 0
    assert late.producer.produced == []


@pytest.mark.kills(guard="metrics.unacknowledged_late_record")
def test_unacknowledged_record_is_produced_again_later(late: Late) -> None:
    late.quarantine(7, 2)
    late.register()
    late.producer.fail = lambda *_: Retry("down")
    assert late.late.produce_next() == 0
    late.producer.fail = lambda *_: None
    assert late.late.produce_next() == 1


def test_refused_and_deleted_records_stop_no_other(late: Late) -> None:
    for offset, value in ((6, b"large"), (7, b"value"), (8, b"value"), (9, b"value")):
        late.quarantine(offset, 2, value=value)
    del late.source.records["send.api", 0, 8]
    late.producer.fail = lambda _, value: DeadLetter("too_large", "") if value == b"large" else None
    late.register()
    assert late.late.produce_next() == 2
    assert late.offsets() == [b"7", b"9"]
    assert late.late.produce_next() == 0


def test_each_unknown_id_has_its_turn(late: Late) -> None:
    """One request a call: random ids cost the registry no more."""
    for offset, schema_id in enumerate((50, 2, 60)):
        late.quarantine(offset, schema_id)
    late.late.produce_next()
    late.register()
    assert [late.late.produce_next() for _ in range(3)] == [0, 0, 1]


def test_registry_that_is_down_changes_nothing(late: Late) -> None:
    late.quarantine(7, 2)
    late.registry._subjects.clear()
    with pytest.raises(Retry):
        late.late.produce_next()
    assert late.reasons() == {7: Problem.UNKNOWN_SCHEMA}


def test_job_writes_to_each_chain_topic_that_it_reads() -> None:
    """Other sources' topics belong to others: their records stay in the quarantine."""
    assert set(written_topics()) == {topic for source in all_sources() for topic in source.topics()}
