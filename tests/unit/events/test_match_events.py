"""event_matcher: occurred events become messages for the endpoints that subscribe."""

import json
from typing import Any

import pytest

from functions.event_matcher.match_events import MAX_BYTES, MAX_MESSAGES, RANGE_SIZE
from masscomm.domain.events import EventType
from masscomm.domain.records import WebhookRequested
from masscomm.domain.webhooks import EndpointKey, bucket_of
from masscomm.errors import Retry
from masscomm.kafka import topics
from tests.support.harness.events import GOAL, EventMatcher, occurred, subscribed
from tests.support.harness.webhooks import KEY, key

MANY = [key(7, letter) for letter in "abcdefghijklmnopqrstuvwxyz"]


def test_each_subscribed_endpoint_gets_a_message() -> None:
    matcher = EventMatcher()
    matcher.subscribe(*(subscribed(number, endpoint) for number, endpoint in enumerate(MANY)))
    assert matcher.match(occurred("e1"), occurred("e2"), occurred("e3", club_id=8)) == []
    found = {(event, endpoint) for _, event, endpoint in matcher.messages()}
    assert found == {(event, endpoint.id) for event in ("e1", "e2") for endpoint in MANY}
    for request in matcher.requests():
        assert {bucket_of(each) for each in request.endpoints} == {request.bucket}
    keys = {name: key for name, key, _ in matcher.produced()}
    assert keys.keys() == {topics.WEBHOOK}


def test_messages_of_a_batched_endpoint_have_their_own_topic() -> None:
    matcher = EventMatcher()
    matcher.subscribe(subscribed(1), subscribed(2, MANY[1], batched=True))
    matcher.match(occurred("e1"))
    found = {name: matcher._decoded(WebhookRequested, name) for name in (topics.WEBHOOK, topics.WEBHOOK_BATCHED)}
    assert {name: [each.endpoints for each in records] for name, records in found.items()} == {
        topics.WEBHOOK: [[KEY.id]],
        topics.WEBHOOK_BATCHED: [[MANY[1].id]],
    }
    matcher.forget()
    matcher.subscribe(subscribed(2, MANY[1]))
    matcher.match(occurred("e2"))
    assert {name for name, _, _ in matcher.produced()} == {topics.WEBHOOK}


def test_each_message_names_the_fields_of_its_endpoint() -> None:
    matcher = EventMatcher()
    one, two = _of_bucket(7, 2)
    matcher.subscribe(subscribed(1, one, fields=("minute", "player.id")))
    matcher.match(occurred("e1"))
    matcher.subscribe(subscribed(2, two))
    matcher.match(occurred("e2"))
    first, second = matcher.requests()
    assert (first.field_lists, first.field_index) == ([["minute", "player.id"]], [0])
    lists = dict(zip(second.endpoints, (second.field_lists[place] for place in second.field_index), strict=True))
    assert lists == {one.id: ["minute", "player.id"], two.id: []}
    matcher.subscribe(subscribed(1, one))
    matcher.match(occurred("e3"))
    assert (matcher.requests()[-1].field_lists, matcher.requests()[-1].field_index) == ([], [])


@pytest.mark.guarantee("events.record_ids_are_derived")
def test_ids_are_those_of_any_cut_of_the_events() -> None:
    """Invariant 2: a redelivered batch may be cut differently."""
    events = [occurred(f"e{number}") for number in range(20)]
    found = []
    for cut in ([20], [7, 13], [1] * 20):
        matcher = EventMatcher()
        matcher.subscribe(*(subscribed(number, endpoint) for number, endpoint in enumerate(MANY)))
        first = RANGE_SIZE - 10
        for size in cut:
            done = first - (RANGE_SIZE - 10)
            matcher.match(*events[done : done + size], first=first)
            first += size
        found.append(sorted(matcher.messages()))
    assert found[0] == found[1] == found[2]
    other = EventMatcher()
    other.subscribe(*(subscribed(number, endpoint) for number, endpoint in enumerate(MANY)))
    other.match(*events, first=RANGE_SIZE - 10, partition=1)
    assert not {record for record, *_ in other.messages()} & {record for record, *_ in found[0]}


@pytest.mark.kills(guard="events.size_of_record")
@pytest.mark.parametrize(("count", "size"), [(RANGE_SIZE, 10), (40, 60_000)])
def test_a_record_is_bounded(count: int, size: int) -> None:
    matcher = EventMatcher()
    same = _of_bucket(7, 4)
    matcher.subscribe(*(subscribed(number, endpoint) for number, endpoint in enumerate(same)))
    data = json.dumps({"text": "x" * size})
    assert matcher.match(*(occurred(f"e{number}", data=data) for number in range(count))) == []
    assert len(matcher.messages()) == count * len(same)
    values = matcher.values(topics.WEBHOOK)
    assert len(values) > 1
    assert all(len(value) <= MAX_BYTES for value in values)
    assert all(len(request.event_index) <= MAX_MESSAGES for request in matcher.requests())


def _of_bucket(bucket: int, count: int) -> list[EndpointKey]:
    keys = (KEY._replace(id=f"ep_7_{number:020d}") for number in range(10_000))
    return [each for each in keys if bucket_of(each.id) == bucket][:count]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        pytest.param({"unit": "100//7"}, "unit must be", marks=pytest.mark.kills(guard="events.unit_is_a_path")),
        ({"unit": "1/2/3/4/5/6"}, "unit must be"),
        ({"unit": ""}, "unit must be"),
        ({"unit": "../7"}, "unit must be"),
        pytest.param(
            {"occurred_at": 1_700_000_000}, "in seconds", marks=pytest.mark.kills(guard="events.unit_of_time")
        ),
        ({"occurred_at": 1_700_000_000_000_000}, "in microseconds"),
        ({"data": "{"}, "not JSON"),
        ({"data": "[1]"}, "JSON object"),
        pytest.param(
            {"data": json.dumps({"a": "x" * 65_536})}, "bytes", marks=pytest.mark.kills(guard="events.size_of_data")
        ),
        ({"type": "Match Goal"}, "type must be"),
        ({"club_id": 0}, "club"),
        pytest.param({"type": "match.other"}, "no event type", marks=pytest.mark.kills(guard="events.unknown_type")),
    ],
)
def test_a_bad_event_is_dead_lettered_with_the_reason(fields: dict[str, Any], reason: str) -> None:
    matcher = EventMatcher()
    matcher.subscribe(subscribed(types=("*",), club_ids=None))
    assert matcher.match(occurred("bad", **fields), occurred("good")) == []
    (letter,) = matcher.dead_letters()
    assert reason in json.dumps(letter)
    assert [event for _, event, _ in matcher.messages()] == ["good"]


@pytest.mark.kills(guard="events.misfit")
def test_data_that_does_not_fit_is_dead_lettered() -> None:
    matcher = EventMatcher()
    schema = json.dumps({"properties": {"minute": {"type": "integer"}}})
    matcher.types.put(EventType(name=GOAL, description="A goal", schema=schema))
    matcher.subscribe(subscribed())
    assert matcher.match(occurred("bad", data='{"minute": "late"}'), occurred("good")) == []
    (letter,) = matcher.dead_letters()
    assert "at minute" in json.dumps(letter)
    assert "late" not in json.dumps(letter)
    assert [event for _, event, _ in matcher.messages()] == ["good"]


@pytest.mark.parametrize("dependency", ["subscriptions", "types"])
def test_events_wait_while_a_dependency_is_down(dependency: str) -> None:
    matcher = EventMatcher()
    matcher.subscribe(subscribed())
    getattr(matcher, dependency).failing = Retry("down")
    assert matcher.match(occurred("e1"), occurred("e2")) == [0, 1]
    getattr(matcher, dependency).failing = None
    assert matcher.match(occurred("e1"), occurred("e2")) == []
    assert [event for _, event, _ in matcher.messages()] == ["e1", "e2"]


def test_events_of_an_unacknowledged_record_are_redelivered() -> None:
    matcher = EventMatcher()
    matcher.subscribe(subscribed())
    matcher.producer.fail = lambda topic, _: Retry("down") if topic == topics.WEBHOOK else None
    assert matcher.match(occurred("e1"), occurred("e2"), occurred("e3", club_id=8)) == [0, 1]
