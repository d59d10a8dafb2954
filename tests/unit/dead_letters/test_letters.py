"""Dead letters are selected by their headers, and a replay keeps the producer's headers."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from masscomm.errors import DeadLetter as Bad
from masscomm.kafka.avro import KNOWN_SUBJECT, Codec, InMemorySchemaRegistry, own_schema
from masscomm.kafka.dead_letters import REPLAYED, dead_letter_headers, original_position, replay_headers
from masscomm.kafka.event import KafkaRecord
from masscomm.kafka.payloads import payload_of
from masscomm.kafka.topics import cdc_topic
from masscomm.operations.dead_letter_replays import sources
from masscomm.operations.dead_letters import DeadLetter, Filter
from tests.support.harness.chain import send

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
LETTER = DeadLetter(
    position="0@17",
    dead_at=NOW.isoformat(),
    topic="send.monolith",
    partition="3",
    offset="41",
    timestamp=NOW.isoformat(),
    reason="undecodable",
    error="bad",
    function="preference_checker",
    replayed="",
    key=b"k",
    value=b"\0\0",
    headers=(),
)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"positions": ("0@17", "0@18")}, {"positions": ("0@18",)}),
        ({"topic": "send.monolith"}, {"topic": "build"}),
        ({"reason": "undecodable"}, {"reason": "invalid"}),
        ({"function": "preference_checker"}, {"function": "builder"}),
        ({"partition": 3}, {"partition": 0}),
        ({"offset": 41}, {"offset": 4}),
        ({"since": NOW}, {"since": NOW + timedelta(seconds=1)}),
        ({"until": NOW + timedelta(seconds=1)}, {"until": NOW}),
    ],
)
def test_each_filter_includes_and_excludes(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert Filter(**one).takes(LETTER)
    assert not Filter(**other).takes(LETTER)
    assert Filter(**one).chooses
    assert not Filter().chooses


def test_replay_keeps_first_position_and_the_producers_headers() -> None:
    """A header of the replayed record contains the position of its dead letter."""
    record = KafkaRecord(topic="send.api", partition=2, offset=9, timestamp_ms=77, headers=(("trace", b"\xff"),))
    dead = dead_letter_headers(record, Bad("invalid", "bad"), "preference_checker")
    replayed = replay_headers(dead, "dead-letter-0@17")
    repeat = KafkaRecord(topic="send.api", partition=0, offset=500, timestamp_ms=88, headers=tuple(replayed))
    assert original_position(repeat) == ("send.api", 2, 9, 77)
    assert [name for name, _ in replayed if "source" not in name] == ["trace", REPLAYED]
    twice = replay_headers(dead_letter_headers(repeat, Bad("invalid", "bad"), "builder"), "dead-letter-0@30")
    assert [value for name, value in twice if name == REPLAYED] == [b"dead-letter-0@30"]
    assert original_position(repeat._replace(headers=tuple(twice))) == ("send.api", 2, 9, 77)


def test_a_payload_is_decoded_once_its_schema_is_known() -> None:
    registry = InMemorySchemaRegistry()
    registry.register("send.monolith-value", own_schema("SendRequested"))
    value = Codec(registry).encode("send.monolith", "SendRequested", send([1, 2]).to_avro())
    payload = payload_of(LETTER.topic, value, Codec(registry))
    assert payload.value is not None
    assert payload.value["to_users"] == [1, 2]
    other = InMemorySchemaRegistry()
    other.register(KNOWN_SUBJECT, own_schema("NotificationOutcome"))
    unknown = payload_of(LETTER.topic, value.replace(b"\0\0\0\0\x01", b"\0\0\0\0\x09", 1), Codec(other))
    assert unknown.value is None
    assert "no schema with id" in str(unknown.error)
    assert unknown.base64


def test_a_change_event_is_json() -> None:
    letter = replace(LETTER, topic="cdc.g1.public.users", value=b'{"op": "u"}')
    assert payload_of(letter.topic, letter.value, Codec(InMemorySchemaRegistry())).value == {"op": "u"}


def test_only_topics_that_functions_read_can_be_written_to() -> None:
    allowed = sources("g1")
    assert {"send.monolith", "send.api.critical", "build", "delivery", "on-failure"} <= allowed
    assert not {"outcome", "dead-letter", "dead-letter-status"} & allowed


@pytest.mark.kills(guard="cdc.replayed_row")
def test_a_row_is_not_replayed_to_its_changelog() -> None:
    """Compaction keeps the last record of a row: a replayed one would replace a later version."""
    assert "cdc.g1.public.users" not in sources("g1")
    assert cdc_topic("outbox", "g1") in sources("g1")
