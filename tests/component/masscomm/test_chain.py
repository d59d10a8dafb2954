"""The first step of the chain over the real broker and registry, driven like a Lambda function."""

import json
from uuid import uuid4

import pytest
import urllib3
from confluent_kafka import Message

from functions.preference_checker.check_preferences import CheckPreferences
from local.devstack.config import StackConfig
from masscomm.chain.batch import BatchDriver
from masscomm.clock import FixedClock, SystemClock
from masscomm.directory.in_memory import InMemoryDirectory
from masscomm.domain.records import BuildRequested, NotificationOutcome
from masscomm.domain.users import User, UserSettings
from masscomm.errors import DeadLetter
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec, HttpSchemaRegistry, own_schema
from masscomm.kafka.dead_letters import original_position
from masscomm.kafka.event import parse
from masscomm.kafka.outcome_progress import InMemoryOutcomeProgress
from masscomm.kafka.producer import KafkaProducer
from masscomm.stores.decision_log.in_memory import InMemoryDecisionLog
from masscomm.stores.delayed_records.in_memory import InMemoryDelayStore
from masscomm.stores.digests.in_memory import InMemoryDigests
from masscomm.stores.frequency_caps.in_memory import InMemoryFrequencyCaps
from masscomm.stores.sends.in_memory import InMemorySends
from tests.support.harness.chain import NOW, Context, entry, event, failed_offsets, send
from tests.support.servers.kafka_topics import make_topic, messages_of


@pytest.fixture
def chain(kafka: StackConfig, registry: StackConfig, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The chain's topics under unique names, with their schemas: usual name → unique name."""
    names = {}
    for constant in ("SEND_MONOLITH", "BUILD", "OUTCOME", "DEAD_LETTER"):
        usual = getattr(topics, constant)
        names[usual] = make_topic(kafka.kafka_bootstrap)
        schema = next(topic.schema for topic in topics.chain_topics() if topic.name == usual)
        if schema is not None:
            answer = urllib3.request(
                "POST",
                f"{registry.registry_url}/subjects/{names[usual]}-value/versions",
                body=json.dumps({"schema": json.dumps(own_schema(schema))}),
                headers={"Content-Type": "application/vnd.schemaregistry.v1+json"},
            )
            assert answer.status == 200, answer.data
    monkeypatch.setattr(topics, "in_lane", lambda name, _lane: names.get(name, name))
    monkeypatch.setattr(topics, "OUTCOME", names[topics.OUTCOME])
    monkeypatch.setattr(topics, "DEAD_LETTER", names[topics.DEAD_LETTER])
    return names


def _value(message: Message) -> bytes:
    value = message.value()
    assert isinstance(value, bytes)
    return value


def test_send_becomes_build_record_outcome_and_dead_letter(
    kafka: StackConfig, registry: StackConfig, chain: dict[str, str]
) -> None:
    bootstrap, source = kafka.kafka_bootstrap, chain["send.monolith"]
    codec = Codec(HttpSchemaRegistry(registry.registry_url))
    producer = KafkaProducer(bootstrap)
    errors: list[Exception | None] = []
    record = send([1, 2], send_id=None, timestamp=SystemClock().now_ms())
    for value in (codec.encode(source, "SendRequested", record.to_avro()), b"\0\xff\xff\xff\xff poison"):
        producer.produce(source, str(uuid4()).encode(), value, [("trace", b"\xff")], errors.append)
    producer.flush(20)
    assert errors == [None, None]

    polled = messages_of(bootstrap, source)
    batch = event(
        *(
            entry(
                _value(message),
                topic=source,
                offset=message.offset() or 0,
                timestamp=message.timestamp()[1],
                key=b"k",
                headers=[("trace", b"\xff")],
            )
            for message in polled
        )
    )
    directory = InMemoryDirectory()
    directory.put(User(user_id=1, club_id=7), User(user_id=2, club_id=7))
    directory.put(UserSettings(user_id=1), UserSettings(user_id=2, channels={"push": False}))
    clock = FixedClock(NOW)
    driver = BatchDriver(function="preference_checker", codec=codec, producer=producer)
    use_case = CheckPreferences(
        outcome_progress=InMemoryOutcomeProgress(),
        directory=directory,
        clock=clock,
        delay_store=InMemoryDelayStore(),
        decision_log=InMemoryDecisionLog(),
        frequency_caps=InMemoryFrequencyCaps(),
        digests=InMemoryDigests(),
        sends=InMemorySends(),
    )
    assert failed_offsets(driver.run(batch, Context(clock), use_case)) == []

    (built,) = messages_of(bootstrap, chain["build"])
    build = BuildRequested.from_avro(codec.decode("BuildRequested", _value(built)))
    assert (build.user_ids, build.timestamp) == ([1], record.timestamp)
    (outcome_message,) = messages_of(bootstrap, chain["outcome"])
    outcome = NotificationOutcome.from_avro(codec.decode("NotificationOutcome", _value(outcome_message)))
    assert (outcome.user_ids, outcome.send_id) == ([2], build.send_id)
    (dead,) = messages_of(bootstrap, chain["dead-letter"])
    assert _value(dead).endswith(b"poison")
    raw = dead.headers()
    assert isinstance(raw, list)
    headers = [(name, text) for name, text in raw if isinstance(text, bytes)]
    (replayed,) = parse(event(entry(_value(dead), headers=headers)))
    assert original_position(replayed)[:3] == (source, 0, 1)
    assert replayed.header("trace") == b"\xff"
    with pytest.raises(DeadLetter):
        codec.decode("SendRequested", _value(dead))
