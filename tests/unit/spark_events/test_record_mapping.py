"""Each record of the organisation's own topics becomes an event, or a dead letter with the reason."""

import json
import pickle
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from masscomm.domain.event_mapping import EventMapping
from masscomm.domain.records import EventOccurred
from masscomm.errors import Retry
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec, HttpSchemaRegistry, own_schema
from masscomm.kafka.dead_letters import ERROR, REASON, SOURCE_OFFSET, SOURCE_TOPIC
from masscomm.kafka.event_sources import EventSources, event_sources
from masscomm.operations.dead_letter_replays import sources as replayed_topics
from spark_events.record_mapping import Output, RecordMapper, event_id
from tests.support.inputs.hostile_records import hostile_records
from tests.support.servers.registry_server import ConfluentRegistry, RegistryServer, serving

AT_MS = 1_700_000_000_000
FIELDS = {"type": {"path": "kind"}, "club_id": {"path": "headers.club"}, "key": {"path": "id"}}
AVRO_FIELDS = {"type": {"value": "requested.before"}, "club_id": {"path": "club_id"}}
SOURCES = {
    "sources": [
        {"name": "orders", "topics": ["orders.*"], "mapping": FIELDS},
        {"name": "sends", "topics": ["sent.*"], "format": "avro", "mapping": AVRO_FIELDS},
    ]
}
IDS = {"orders.a": "topic/a+", "sent.b": "topicB"}
HEADERS = [("Club", b"7"), ("empty", None)]


@pytest.fixture(scope="module")
def registry() -> Iterator[RegistryServer]:
    answers = ConfluentRegistry()
    for name in ("EventOccurred", "SendRequested"):
        answers.register(f"{'event' if name == 'EventOccurred' else 'send.api'}-value", own_schema(name))
    answers.register("outcome-value", own_schema("NotificationOutcome"))
    with serving(answers) as server:
        yield server


@pytest.fixture
def mapper(registry: RegistryServer) -> RecordMapper:
    return RecordMapper(sources=event_sources(SOURCES), topic_ids=IDS, registry_url=registry.url)


def mapped(mapper: RecordMapper, value: bytes | None, *, topic: str = "orders.a", headers: Any = HEADERS) -> Output:
    return mapper(topic, 3, 12, AT_MS, b"k", value, headers)


def header(output: Output, name: str) -> str:
    assert output.headers is not None
    (found,) = (value for key, value in output.headers if key == name)
    return found.decode()


def test_event_has_the_id_of_the_records_position(mapper: RecordMapper, registry: RegistryServer) -> None:
    document = {"kind": "order.paid", "id": 4711, "name": "Zoë"}
    output = mapped(mapper, json.dumps(document).encode())
    assert (output.topic, output.key, output.headers) == (topics.EVENT, b"topic/a+:3:12", None)
    event = EventOccurred.from_avro(Codec(HttpSchemaRegistry(registry.url)).decode("EventOccurred", output.value))
    assert event == EventOccurred(
        event_id="topic/a+:3:12",
        type="order.paid",
        club_id=7,
        key="4711",
        occurred_at=AT_MS,
        data=json.dumps(document, ensure_ascii=False, separators=(",", ":")),
    )


@pytest.mark.kills(guard="own_topics.event_id_of_recreated_topic")
def test_topic_that_was_created_again_has_other_event_ids() -> None:
    ids = {event_id(topic, partition, offset) for topic in ("a", "b") for partition in (1, 11) for offset in (1, 11)}
    assert len(ids) == 8


def test_avro_record_is_decoded_with_its_writers_schema(mapper: RecordMapper, registry: RegistryServer) -> None:
    codec = Codec(HttpSchemaRegistry(registry.url))
    send = {"type": "news", "club_id": 5, "timestamp": AT_MS, "to_users": [1]}
    output = mapped(mapper, codec.encode("send.api", "SendRequested", send), topic="sent.b")
    event = EventOccurred.from_avro(codec.decode("EventOccurred", output.value))
    assert (event.type, event.club_id, json.loads(event.data)["timestamp"]) == (
        "requested.before",
        5,
        "2023-11-14T22:13:20+00:00",
    )


@pytest.mark.parametrize(
    ("topic", "value", "reason", "error"),
    [
        ("orders.a", None, "undecodable", "no value"),
        ("orders.a", b"", "undecodable", "no value"),
        ("orders.a", b"{", "undecodable", "not JSON"),
        ("orders.a", b'{"kind": NaN}', "undecodable", "not JSON"),
        ("orders.a", b"[" * 100_000, "undecodable", "not JSON"),
        ("orders.a", b"[1]", "invalid", "no event of orders: type"),
        ("orders.a", b"{}", "invalid", "no event of orders: type"),
        ("orders.a", b'{"kind": "Order Paid"}', "invalid", "no event of orders: type"),
        ("orders.a", b'{"kind": "webhook.disabled"}', "invalid", "no event of orders: type"),
        ("orders.a", json.dumps({"kind": "a", "x": "x" * 65_536}).encode(), "invalid", "no event of orders: data"),
        ("sent.b", b"{}", "undecodable", "does not begin with a zero byte"),
        ("sent.b", b"\0\0\0\0\x09x", "unknown_schema", "no schema with id 9"),
    ],
)
def test_record_without_an_event_is_dead_lettered(
    topic: str, value: bytes | None, reason: str, error: str, mapper: RecordMapper
) -> None:
    output = mapped(mapper, value, topic=topic)
    assert (output.topic, output.key, output.value) == (topics.DEAD_LETTER, b"k", value)
    assert header(output, REASON) == reason
    assert error in header(output, ERROR)
    assert (header(output, SOURCE_TOPIC), header(output, SOURCE_OFFSET)) == (topic, "12")
    assert header(output, "Club") == "7"


@pytest.mark.kills(guard="own_topics.headers_of_masscomm")
def test_dead_letter_is_not_replayed_to_a_topic_of_its_headers(mapper: RecordMapper) -> None:
    """With the headers of a replayed record, its bytes would be produced to a topic of masscomm."""
    position = [
        ("masscomm.source.topic", b"send.api"),
        ("masscomm.source.partition", b"0"),
        ("masscomm.source.offset", b"0"),
        ("masscomm.source.timestamp", b"0"),
    ]
    output = mapped(mapper, b"{", headers=position)
    assert header(output, SOURCE_TOPIC) == "orders.a"
    assert not {"orders.a", "sent.b"} & replayed_topics("g1")


@pytest.mark.kills(guard="own_topics.size_of_dead_letter")
@pytest.mark.parametrize("part", ["value", "headers"])
def test_record_that_is_too_large_leaves_a_letter_without_it(part: str, mapper: RecordMapper) -> None:
    large = b"{" + b"x" * 5_300_000
    output = mapped(mapper, large if part == "value" else b"{", headers=[("h", large)] if part == "headers" else [])
    assert (output.topic, output.key, output.value) == (topics.DEAD_LETTER, None, None)
    assert header(output, REASON) == "too_large"
    assert (header(output, SOURCE_TOPIC), header(output, SOURCE_OFFSET)) == ("orders.a", "12")


class FaultyMapping(EventMapping):
    """A mapping with a fault that some records reveal."""

    def event(self, document: Any, *_: Any, **__: Any) -> EventOccurred:
        raise KeyError(document["kind"])


@pytest.mark.kills(guard="own_topics.unlisted_error")
def test_fault_that_a_record_reveals_stops_no_other(mapper: RecordMapper) -> None:
    (source, _) = mapper.sources.sources
    faulty = replace(source, mapping=FaultyMapping(fields=source.mapping.fields))
    output = mapped(replace(mapper, sources=EventSources(sources=(faulty,))), b'{"kind": "order.paid"}')
    assert (output.topic, output.value) == (topics.DEAD_LETTER, b'{"kind": "order.paid"}')
    assert (header(output, REASON), header(output, ERROR)) == (
        "unlisted",
        "an error that is in no table: KeyError('order.paid')",
    )


def test_unavailable_registry_makes_no_dead_letter(mapper: RecordMapper) -> None:
    with serving(lambda *_: (503, {}, b"")) as away:
        there = RecordMapper(sources=event_sources(SOURCES), topic_ids=IDS, registry_url=away.url)
        with pytest.raises(Retry):
            mapped(there, b'{"kind": "order.paid"}')
        with pytest.raises(Retry):
            mapped(there, b"\0\0\0\0\1x", topic="sent.b")


def test_other_registry_has_the_schemas_of_the_records(registry: RegistryServer) -> None:
    with serving(own := ConfluentRegistry()) as server:
        own.register("shop-value", {"type": "record", "name": "Shop", "fields": [{"name": "club_id", "type": "long"}]})
        sources = event_sources({**SOURCES, "registry": {"url": server.url, "known_subject": "shop-value"}})
        mapper = RecordMapper(sources=sources, topic_ids=IDS, registry_url=registry.url)
        assert mapped(mapper, b"\0\0\0\0\1\x08", topic="sent.b").topic == topics.EVENT
        assert header(mapped(mapper, b"\0\0\0\0\2\x08", topic="sent.b"), REASON) == "unknown_schema"


def test_mapper_is_sent_to_executors(mapper: RecordMapper) -> None:
    copy = pickle.loads(pickle.dumps(mapper))  # noqa: S301
    assert mapped(copy, b'{"kind": "order.paid"}') == mapped(mapper, b'{"kind": "order.paid"}')


def test_hostile_record_is_an_event_or_a_dead_letter(
    mapper: RecordMapper, registry: RegistryServer, pytestconfig: pytest.Config
) -> None:
    count = 20_000 if pytestconfig.getoption("--flood") == "full" else 300
    codec = Codec(HttpSchemaRegistry(registry.url))
    found: Counter[tuple[str, str]] = Counter()
    for source, topic in ((topics.SEND_API, "sent.b"), (topics.cdc_topic("users", "g1"), "orders.a")):
        for record in hostile_records(source, count, codec=codec):
            headers = [*record.headers, ("club", b"7")]
            output = mapper(topic, 0, 0, AT_MS, record.key, record.value, headers)
            found[topic, output.topic] += 1
            assert (output.topic == topics.DEAD_LETTER) is (output.headers is not None)
    assert found.total() == 2 * count
    assert found["sent.b", topics.EVENT]
    assert found["sent.b", topics.DEAD_LETTER]
    assert found["orders.a", topics.DEAD_LETTER]
