"""The monolith's outbox: inserted rows, as Debezium captures them, are events."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from masscomm.cdc.outbox import event_in
from masscomm.domain.lanes import Lane
from masscomm.domain.records import EventOccurred
from masscomm.errors import DeadLetter
from masscomm.kafka import topics
from masscomm.kafka.event import KafkaRecord
from tests.support.harness.chain import NOW, entry
from tests.support.harness.events import GOAL, EventMatcher, occurred, subscribed

TOPIC = topics.cdc_topic(topics.OUTBOX, "g1")
ROW: dict[str, Any] = {
    "club_id": 7,
    "event_id": "e1",
    "type": GOAL,
    "unit": "100/7",
    "key": "match-4711",
    "occurred_at": "2023-11-14T22:13:20.123456Z",
    "data": '{"minute": 90}',
}


def change(operation: str = "c", **fields: Any) -> dict[str, Any]:
    row = ROW | fields
    before, after = (row, None) if operation == "d" else (None, row)
    return {"op": operation, "before": before, "after": after, "source": {"lsn": 7, "ts_ms": NOW}, "ts_ms": NOW}


def record(value: Any) -> KafkaRecord:
    text = None if value is None else value if isinstance(value, bytes) else json.dumps(value).encode()
    return KafkaRecord(topic=TOPIC, partition=1, offset=3, timestamp_ms=NOW, key=b"{}", value=text)


class Matcher(EventMatcher):
    def __init__(self) -> None:
        super().__init__()
        self.subscribe(subscribed())

    def capture(self, *values: Any, topic: str = TOPIC) -> list[int]:
        """Process records of the outbox's topic. Return the offsets to be redelivered."""
        made = [
            entry(record(value).value, topic=topic, offset=offset, timestamp=NOW) for offset, value in enumerate(values)
        ]
        return self.run(self.use_case, *made)

    def sent(self) -> list[str]:
        return [event for _, event, _ in self.messages()]

    def reasons(self) -> list[str]:
        return [
            dict(headers)["masscomm.error"].decode()
            for topic, _, _, headers in self.producer.produced
            if topic == topics.DEAD_LETTER
        ]


def test_an_inserted_row_is_an_event() -> None:
    assert event_in(record(change())) == EventOccurred(
        event_id="e1",
        type=GOAL,
        club_id=7,
        unit="100/7",
        key="match-4711",
        occurred_at=1_700_000_000_123,
        data='{"minute": 90}',
    )
    numbers = event_in(record(change(event_id=4711, unit=None, key=9, occurred_at="2023-11-14T23:13:20.123+01:00")))
    assert numbers is not None
    assert (numbers.event_id, numbers.unit, numbers.key) == ("4711", None, "9")
    assert numbers.occurred_at == 1_700_000_000_123


@pytest.mark.kills(guard="outbox.inserts_alone")
def test_other_changes_are_no_events() -> None:
    """Rows of a snapshot, changed, deleted and truncated rows, and the tombstone after a deletion."""
    matcher = Matcher()
    changes = [change("r"), change("u"), change("d"), change("t"), None, change(event_id="e2")]
    assert matcher.capture(*changes) == []
    assert matcher.sent() == ["e2"]
    assert matcher.values(topics.DEAD_LETTER) == []


def test_rows_and_records_have_ids_of_their_own() -> None:
    """A partition of each topic has an offset 0: the ids of the records for both differ."""
    matcher = Matcher()
    matcher.capture(change())
    matcher.match(occurred("e1", data=ROW["data"]), partition=0)
    (first, *one), (second, *other) = matcher.messages()
    assert one == other
    assert first != second


@pytest.mark.kills(guard="outbox.time_with_zone")
@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"club_id": None}, "club_id"),
        ({"club_id": "7"}, "club_id"),
        ({"club_id": True}, "club_id"),
        ({"club_id": -1}, "club_id"),
        ({"event_id": None}, "event_id"),
        ({"event_id": "x" * 129}, "event_id"),
        ({"type": None}, "type"),
        ({"type": "match.unknown"}, "there is no event type"),
        ({"unit": "100//7"}, "unit"),
        ({"unit": "100/../7"}, "unit"),
        ({"unit": {}}, "unit"),
        ({"key": ""}, "key"),
        ({"occurred_at": None}, "occurred_at"),
        ({"occurred_at": 1_700_000_000}, "occurred_at"),
        ({"occurred_at": 1_700_000_000_123_456}, "occurred_at"),
        ({"occurred_at": "2023-11-14T22:13:20"}, "occurred_at"),
        ({"occurred_at": "infinity"}, "occurred_at"),
        ({"occurred_at": "+292278994-08-16T23:00:00Z"}, "occurred_at"),
        ({"occurred_at": "1969-12-31T23:59:59Z"}, "occurred_at"),
        ({"data": None}, "data"),
        ({"data": {"minute": 90}}, "data"),
        ({"data": "[1]"}, "data must be a JSON object"),
        ({"data": "{"}, "data is not JSON"),
        ({"data": '{"a": 1, "a": 2}'}, "data is not JSON"),
        ({"data": '{"a": 1e999}'}, "data is not JSON"),
        ({"data": '{"a": ' + "9" * 5_000 + "}"}, "data is not JSON"),
        ({"data": '{"a": "' + "x" * 65_529 + '"'}, "has 65537 bytes"),
        ({"data": '{"a": "\\ud800"}'}, "data is not JSON"),
    ],
)
def test_a_malformed_row_stops_no_other(fields: dict[str, Any], reason: str) -> None:
    matcher = Matcher()
    bad = change(**fields)
    assert matcher.capture(bad, change(event_id="good")) == []
    assert matcher.sent() == ["good"]
    assert matcher.values(topics.DEAD_LETTER) == [record(bad).value]
    (found,) = matcher.reasons()
    assert reason in found


@pytest.mark.parametrize(
    "value", [b"", b"{", b"[]", b"null", b'{"op":"c"}', b'{"op":"c","after":[]}', b'{"op":"x"}', b"\0"]
)
def test_another_value_is_undecodable(value: bytes) -> None:
    matcher = Matcher()
    assert matcher.capture(value, change(event_id="good")) == []
    assert (matcher.sent(), matcher.values(topics.DEAD_LETTER)) == (["good"], [value])


JSON = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats() | some.text(),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)


@given(
    fields=some.dictionaries(some.sampled_from(list(ROW)), JSON | some.text()), operation=some.sampled_from("crudtm")
)
def test_any_row_is_an_event_or_a_dead_letter(fields: dict[str, Any], operation: str) -> None:
    """No other error: it would hold the partition."""
    with suppress(DeadLetter):
        found = event_in(record(change(operation, **fields)))
        assert found is None or isinstance(found, EventOccurred)


@pytest.mark.kills(guard="outbox.one_generation")
def test_the_outbox_of_the_oldest_generation_is_read() -> None:
    """A row that is inserted while a new generation is made is in the topic of each one."""
    assert topics.resolve("cdc.outbox", lane=Lane.BULK, generation="g1,g2") == [TOPIC]
    assert TOPIC not in topics.resolve(topics.ALL_OF_CDC, lane=Lane.BULK, generation="g1,g2")
    (topic,) = [each for each in topics.cdc_topics("g1") if each.name == TOPIC]
    assert (topic.consumers, topic.cleanup) == (("event_matcher",), "delete")


@pytest.mark.kills(guard="events.own_type")
def test_a_row_is_no_event_of_masscomm() -> None:
    matcher = Matcher()
    matcher.subscribe(subscribed(2, types=("send.*",)))
    matcher.capture(change(type="send.completed"))
    assert matcher.sent() == []
    assert [each["masscomm.reason"] for each in matcher.dead_letters()] == ["unknown_type"]
