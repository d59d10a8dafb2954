"""Dead letters on the real broker and registry: listed, read, replayed once, and closed without a replay."""

import json
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
import urllib3
from confluent_kafka import KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from functions.preference_checker.check_preferences import CheckPreferences
from local.devstack.config import StackConfig
from local.devstack.provision import create_topics, register_schemas
from masscomm.chain.batch import BatchDriver
from masscomm.clock import FixedClock
from masscomm.directory.in_memory import InMemoryDirectory
from masscomm.domain.ids import send_id_of_record
from masscomm.domain.records import BuildRequested, SendRequested
from masscomm.domain.users import User, UserSettings
from masscomm.errors import DeadLetter as Bad
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec, HttpSchemaRegistry, InMemorySchemaRegistry, own_schema
from masscomm.kafka.dead_letters import REPLAYED, dead_letter_headers
from masscomm.kafka.denied_ids import DeniedIds
from masscomm.kafka.event import KafkaRecord
from masscomm.kafka.outcome_progress import InMemoryOutcomeProgress
from masscomm.kafka.payloads import payload_of
from masscomm.kafka.producer import KafkaProducer
from masscomm.kafka.topic_reading import read_topic
from masscomm.operations.dead_letter_marks import MarkKind, read_marks
from masscomm.operations.dead_letter_replays import Desk
from masscomm.operations.dead_letters import DeadLetter, Filter, read_letters
from masscomm.stores.decision_log.in_memory import InMemoryDecisionLog
from masscomm.stores.delayed_records.in_memory import InMemoryDelayStore
from masscomm.stores.digests.in_memory import InMemoryDigests
from masscomm.stores.frequency_caps.in_memory import InMemoryFrequencyCaps
from masscomm.stores.sends.in_memory import InMemorySends
from tests.support.harness.chain import NOW, Chain, Context, entry, event, failed_offsets, send


@dataclass
class DeadLetterTopics:
    bootstrap: str
    source: str
    dead: str
    status: str

    def desk(self) -> Desk:
        return Desk(
            self.bootstrap,
            operator="ada",
            allowed=frozenset({self.source}),
            status_topic=self.status,
            now=lambda: datetime.fromtimestamp(NOW / 1000, UTC),
        )

    def letters(self) -> list[DeadLetter]:
        return list(read_letters(self.bootstrap, Filter(), topic=self.dead))

    def replayed(self) -> list[Message]:
        return list(read_topic(self.bootstrap, self.source))

    def dead_letter(self, *values: bytes, source: str | None = None) -> None:
        """Produce dead letters of records at offsets 0, 1, … of partition 3."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "broker.address.family": "v4"})
        for offset, value in enumerate(values):
            record = KafkaRecord(
                topic=source or self.source, partition=3, offset=offset, timestamp_ms=NOW, headers=(("trace", b"\xff"),)
            )
            headers = dead_letter_headers(record, Bad("invalid", "bad"), "preference_checker")
            producer.produce(self.dead, value, b"key", headers=list(headers))
        assert producer.flush(20) == 0


@pytest.fixture
def dead_letter_topics(kafka: StackConfig) -> DeadLetterTopics:
    name = f"test.{uuid4()}"
    made = DeadLetterTopics(kafka.kafka_bootstrap, f"{name}.source", f"{name}.dead", f"{name}.status")
    new = [NewTopic(topic, 1, 1) for topic in (made.source, made.dead, made.status)]
    with AdminClient({"bootstrap.servers": kafka.kafka_bootstrap}) as admin:
        for future in admin.create_topics(new).values():
            future.result(20)
    return made


def test_record_is_replayed_once_with_bytes_key_and_position(dead_letter_topics: DeadLetterTopics) -> None:
    dead_letter_topics.dead_letter(b"one", b"two")
    (first, _) = dead_letter_topics.letters()
    assert [done.message for done in dead_letter_topics.desk().replay([first])] == ["replayed"]
    (repeat,) = dead_letter_topics.desk().replay([first])
    assert not repeat.ok
    assert "already replayed" in repeat.message
    (message,) = dead_letter_topics.replayed()
    headers: Any = message.headers()
    assert (message.value(), message.key()) == (b"one", b"key")
    assert dict(headers) == {
        "trace": b"\xff",
        "masscomm.source.topic": dead_letter_topics.source.encode(),
        "masscomm.source.partition": b"3",
        "masscomm.source.offset": b"0",
        "masscomm.source.timestamp": str(NOW).encode(),
        REPLAYED: b"dead-letter-0@0",
    }


def test_repeat_option_replays_again_and_keeps_the_history(dead_letter_topics: DeadLetterTopics) -> None:
    dead_letter_topics.dead_letter(b"one")
    letters = dead_letter_topics.letters()
    dead_letter_topics.desk().discard(letters, "a test's own")
    assert not dead_letter_topics.desk().replay(letters)[0].ok
    assert dead_letter_topics.desk().replay(letters, repeat=True)[0].ok
    assert not dead_letter_topics.desk().discard(letters, "too late")[0].ok
    (mark,) = read_marks(dead_letter_topics.bootstrap, dead_letter_topics.status).values()
    assert mark.kind is MarkKind.REPLAYED
    assert [entry["status"] for entry in mark.history] == ["discarded", "replayed"]
    assert mark.history[0]["why"] == "a test's own"
    assert len(dead_letter_topics.replayed()) == 1


def test_a_letter_is_not_discarded_without_a_reason(dead_letter_topics: DeadLetterTopics) -> None:
    dead_letter_topics.dead_letter(b"one")
    with pytest.raises(ValueError, match="reason"):
        dead_letter_topics.desk().discard(dead_letter_topics.letters(), " ")
    assert read_marks(dead_letter_topics.bootstrap, dead_letter_topics.status) == {}


def test_earlier_of_two_replay_producers_is_fenced(dead_letter_topics: DeadLetterTopics) -> None:
    dead_letter_topics.dead_letter(b"one")
    letters = dead_letter_topics.letters()
    first, second = dead_letter_topics.desk(), dead_letter_topics.desk()
    assert second.replay(letters)[0].ok
    with pytest.raises(KafkaException):
        first.replay(letters)
    assert len(dead_letter_topics.replayed()) == 1


def test_replay_to_a_topic_without_a_function_is_refused(dead_letter_topics: DeadLetterTopics) -> None:
    dead_letter_topics.dead_letter(b"one", source=dead_letter_topics.status)
    (done,) = dead_letter_topics.desk().replay(dead_letter_topics.letters())
    assert not done.ok
    assert read_marks(dead_letter_topics.bootstrap, dead_letter_topics.status) == {}


def test_replayed_record_is_checked_once_its_schema_exists(
    dead_letter_topics: DeadLetterTopics, registry: StackConfig
) -> None:
    bootstrap, url = dead_letter_topics.bootstrap, registry.registry_url
    create_topics(bootstrap, topics.chain_topics())
    register_schemas(url, topics.chain_topics())
    dead_letter_topics.source = topics.SEND_MONOLITH
    codec = Codec(HttpSchemaRegistry(url))
    directory = InMemoryDirectory()
    directory.put(User(user_id=1, club_id=7), UserSettings(user_id=1))
    use_case = CheckPreferences(
        outcome_progress=InMemoryOutcomeProgress(),
        directory=directory,
        clock=FixedClock(NOW),
        delay_store=InMemoryDelayStore(),
        decision_log=InMemoryDecisionLog(),
        frequency_caps=InMemoryFrequencyCaps(),
        digests=InMemoryDigests(),
        sends=InMemorySends(),
    )

    def dead_letter(coming: int) -> DeadLetter:
        """Make a dead letter by a schema that the registry does not have yet: ours with one more field."""
        value = (
            b"\0"
            + struct.pack(">I", coming)
            + _body(send([1], send_id=None, timestamp=time.time_ns() // 1_000_000))
            + b"\0"
        )
        place = entry(value, topic=topics.SEND_MONOLITH, partition=3, offset=41)
        driver = BatchDriver(
            function="preference_checker",
            codec=codec,
            producer=KafkaProducer(bootstrap),
            denied_ids=DeniedIds(retry_s=0),
        )
        assert failed_offsets(driver.run(event(place), Context(), use_case)) == []
        return list(read_letters(bootstrap, Filter(reason="unknown_schema", partition=3, offset=41)))[-1]

    letter = _dead_letter_with_id_to_come(url, dead_letter)
    codec = Codec(HttpSchemaRegistry(url))  # an earlier client may have cached the denial of the id
    payload = payload_of(letter.topic, letter.value, codec).value
    assert payload is not None
    assert payload["to_users"] == [1]
    assert dead_letter_topics.desk().replay([letter])[0].ok
    message = list(read_topic(bootstrap, topics.SEND_MONOLITH))[-1]
    headers: Any = message.headers() or []
    value = message.value()
    assert isinstance(value, bytes)
    replayed = entry(
        value,
        topic=topics.SEND_MONOLITH,
        partition=message.partition() or 0,
        offset=message.offset() or 0,
        timestamp=message.timestamp()[1],
        headers=headers,
    )
    # The replayed record's outputs stay in memory, because other tests use the same topics.
    chain = Chain()
    chain.driver = BatchDriver(function="preference_checker", codec=codec, producer=chain.producer)
    assert chain.run(use_case, replayed) == []
    (built,) = chain.values(topics.BUILD)
    build = BuildRequested.from_avro(codec.decode("BuildRequested", built))
    assert build.send_id == send_id_of_record(topics.SEND_MONOLITH, 3, 41, NOW)
    assert build.user_ids == [1]


def _dead_letter_with_id_to_come(url: str, dead_letter: Callable[[int], DeadLetter]) -> DeadLetter:
    """Guess the registry's next schema id until a guess is right, because other tests also register schemas."""
    known = _register(url)
    for _ in range(10):
        before, known = known, _register(url)
        coming = 2 * known - before
        letter = dead_letter(coming)
        known = _register(url)
        if known == coming:
            return letter
    raise AssertionError("no id could be guessed")


def _body(record: SendRequested) -> bytes:
    ahead = InMemorySchemaRegistry()
    ahead.register("send.monolith-value", own_schema("SendRequested"))
    return Codec(ahead).encode(topics.SEND_MONOLITH, "SendRequested", record.to_avro())[5:]


def _register(url: str) -> int:
    """Register a new schema, ours with a unique field. Returns its id."""
    ours = own_schema("SendRequested")
    schema = {**ours, "fields": [*ours["fields"], {"name": f"f{uuid4().hex}", "type": "int", "default": 0}]}
    answer = urllib3.request(
        "POST",
        f"{url}/subjects/test.{uuid4()}-value/versions",
        body=json.dumps({"schema": json.dumps(schema)}),
        headers={"Content-Type": "application/vnd.schemaregistry.v1+json"},
    )
    assert answer.status == 200, answer.data
    return int(answer.json()["id"])
