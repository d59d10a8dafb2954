"""Lambda's Kafka event, and the headers of a dead letter."""

from typing import Any

import pytest

from masscomm.domain.ids import send_id_of_record
from masscomm.errors import DeadLetter
from masscomm.kafka.dead_letters import (
    ERROR,
    FUNCTION,
    REASON,
    SOURCE_OFFSET,
    SOURCE_PARTITION,
    SOURCE_TIMESTAMP,
    SOURCE_TOPIC,
    dead_letter_headers,
    original_position,
)
from masscomm.kafka.event import KafkaRecord, batch_response, parse
from tests.support.harness.chain import NOW, entry, event

RECORD = KafkaRecord(topic="send.monolith", partition=2, offset=41, timestamp_ms=NOW)
BAD = DeadLetter("undecodable", "no value")


def test_a_record_is_read_with_its_place_and_bytes() -> None:
    (record,) = parse(event(entry(b"\0\xff", topic="build", partition=3, offset=8, key=b"k")))
    assert record == KafkaRecord(topic="build", partition=3, offset=8, timestamp_ms=NOW, key=b"k", value=b"\0\xff")
    assert record.source_position == "build-3@8"


def test_a_tombstone_is_read_whether_its_value_is_null_or_absent() -> None:
    null = entry(None) | {"value": None, "key": None}
    absent = entry(None, key=None)
    assert [(record.key, record.value) for record in parse(event(null, absent))] == [(None, None)] * 2


def test_header_bytes_are_signed_as_java_has_them() -> None:
    (record,) = parse(event(entry(b"v", headers=[("name", "Zürich".encode())])))
    assert record.header("name") == "Zürich".encode()


def test_last_of_repeated_headers_wins_and_all_are_kept() -> None:
    (record,) = parse(event(entry(b"v", headers=[("a", b"1"), ("b", b"2"), ("a", b"3")])))
    assert record.header("a") == b"3"
    assert record.header("absent") is None
    assert record.headers == (("a", b"1"), ("b", b"2"), ("a", b"3"))


def test_a_header_without_a_value_is_empty() -> None:
    (record,) = parse(event(entry(b"v") | {"headers": [{"trace": None}, {"other": []}]}))
    assert record.headers == (("trace", b""), ("other", b""))


@pytest.mark.parametrize("headers", [None, []])
def test_a_record_may_have_no_headers(headers: Any) -> None:
    (record,) = parse(event(entry(b"v") | {"headers": headers}))
    assert record.headers == ()


def test_records_keep_the_events_order_over_all_partitions() -> None:
    places = [("build", 0, 1), ("build", 0, 2), ("build", 1, 1)]
    records = parse(event(*(entry(b"", topic=topic, partition=p, offset=o) for topic, p, o in places)))
    assert [(record.topic, record.partition, record.offset) for record in records] == places


@pytest.mark.parametrize(
    "malformed",
    [
        {},
        {"records": None},
        {"records": []},
        {"records": {"t-0": [{}]}},
        {"records": {"t-0": [entry(b"v") | {"value": "not base64!"}]}},
        {"records": {"t-0": [entry(b"v") | {"value": "ä"}]}},
        {"records": {"t-0": [entry(b"v") | {"value": 5}]}},
        {"records": {"t-0": [entry(b"v") | {"headers": [{"a": "text"}]}]}},
        {"records": {"t-0": None}},
    ],
)
def test_malformed_event_is_a_value_error(malformed: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse(malformed)


def test_batch_response_names_topic_partition_and_offset() -> None:
    assert batch_response([RECORD]) == {
        "batchItemFailures": [{"itemIdentifier": {"partition": "send.monolith-2", "offset": 41}}]
    }
    assert batch_response([]) == {"batchItemFailures": []}


def test_dead_letter_headers_have_position_and_reason() -> None:
    assert dict(dead_letter_headers(RECORD, BAD, "builder")) == {
        SOURCE_TOPIC: b"send.monolith",
        SOURCE_PARTITION: b"2",
        SOURCE_OFFSET: b"41",
        SOURCE_TIMESTAMP: str(NOW).encode(),
        REASON: b"undecodable",
        ERROR: b"no value",
        FUNCTION: b"builder",
    }


def _replayed(headers: list[tuple[str, bytes]]) -> KafkaRecord:
    return KafkaRecord(topic="send.api", partition=0, offset=7, timestamp_ms=NOW + 9, headers=tuple(headers))


def test_replayed_record_keeps_its_first_position() -> None:
    again = _replayed(dead_letter_headers(RECORD, BAD, "builder"))
    assert original_position(again) == ("send.monolith", 2, 41, NOW)
    assert send_id_of_record(*original_position(again)) == send_id_of_record(*original_position(RECORD))
    headers = dead_letter_headers(again, DeadLetter("too_large", "again"), "delivery")
    assert dict(headers)[SOURCE_OFFSET] == b"41"
    assert [value for name, value in headers if name == REASON] == [b"too_large"]


def test_a_records_own_headers_are_kept() -> None:
    record = _replayed([("trace", b"1"), ("trace", b"2"), (REASON, b"forged")])
    headers = dead_letter_headers(record, BAD, "builder")
    assert [value for name, value in headers if name == "trace"] == [b"1", b"2"]
    assert [value for name, value in headers if name == REASON] == [b"undecodable"]


@pytest.mark.parametrize(
    "headers",
    [
        [(SOURCE_TOPIC, b"send.monolith")],
        [(SOURCE_TOPIC, b"send.monolith"), (SOURCE_PARTITION, b"x"), (SOURCE_OFFSET, b"1"), (SOURCE_TIMESTAMP, b"1")],
        [(SOURCE_TOPIC, b"\xff"), (SOURCE_PARTITION, b"0"), (SOURCE_OFFSET, b"1"), (SOURCE_TIMESTAMP, b"1")],
        [(SOURCE_TOPIC, b"t"), (SOURCE_PARTITION, b"1_0"), (SOURCE_OFFSET, b"1"), (SOURCE_TIMESTAMP, b"1")],
        [(SOURCE_TOPIC, b"t"), (SOURCE_PARTITION, b"0"), (SOURCE_OFFSET, b" 1"), (SOURCE_TIMESTAMP, b"1")],
        [(SOURCE_TOPIC, b"t"), (SOURCE_PARTITION, b"9" * 5000), (SOURCE_OFFSET, b"1"), (SOURCE_TIMESTAMP, b"1")],
    ],
)
def test_malformed_position_headers_are_replaced_by_the_true_one(
    headers: list[tuple[str, bytes]],
) -> None:
    record = _replayed(headers)
    with pytest.raises(DeadLetter) as caught:
        original_position(record)
    assert caught.value.reason == "invalid"
    kept = dead_letter_headers(record, BAD, "builder")
    assert [value for name, value in kept if name == SOURCE_TOPIC] == [b"send.api"]
    assert dict(kept)[SOURCE_OFFSET] == b"7"


def test_error_with_a_lone_surrogate_is_escaped_in_headers() -> None:
    headers = dead_letter_headers(RECORD, DeadLetter("invalid", "a lone \ud800"), "builder")
    assert dict(headers)[ERROR] == b"a lone \\ud800"


def test_an_endless_error_is_cut_short() -> None:
    headers = dead_letter_headers(RECORD, DeadLetter("invalid", "x " * 10_000), "builder")
    assert len(dict(headers)[ERROR]) == 1_000
