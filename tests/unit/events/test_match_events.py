"""event_matcher: occurred events become messages for the endpoints that subscribe."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from functions.event_matcher.match_events import MAX_BYTES, MAX_MESSAGES, RANGE_SIZE
from masscomm.domain.events import EventType
from masscomm.domain.ids import notification_id
from masscomm.domain.own_events import OWN_EVENTS
from masscomm.domain.records import NotificationOutcome, Result, WebhookRequested
from masscomm.domain.statuses import Status
from masscomm.domain.subscriptions import Subscription
from masscomm.domain.webhooks import EndpointKey, bucket_of
from masscomm.errors import Retry
from masscomm.kafka import topics
from tests.support.harness.chain import NOW, SEND_ID
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


def _outcome(statuses: Sequence[str], **fields: Any) -> NotificationOutcome:
    """Return an outcome with a user for each status."""
    distinct = list(dict.fromkeys(statuses))
    given: dict[str, Any] = {
        "record_id": "r",
        "parent_id": "p",
        "step": "delivery",
        "send_id": SEND_ID,
        "chunk_index": 0,
        "range_start": 0,
        "range_end": len(statuses),
        "club_id": 7,
        "type": "news",
        "channel": "push",
        "timestamp": NOW,
        "requested_at": NOW,
        "positions": list(range(len(statuses))),
        "user_ids": list(range(1, len(statuses) + 1)),
        "results": [Result(status=each, reason=None, count=statuses.count(each)) for each in distinct],
        "result_index": [distinct.index(each) for each in statuses],
    }
    return NotificationOutcome(**given | fields)


def _to_notifications(*types: str, **fields: Any) -> Subscription:
    return subscribed(types=types or ("notification.*",), **fields)


def test_an_outcome_of_500_is_a_record_of_500_messages() -> None:
    matcher = EventMatcher()
    matcher.subscribe(_to_notifications())
    outcome = matcher.encoded(_outcome(["sent"] * 500), topics.OUTCOME, offset=3)
    assert matcher.run(matcher.use_case, outcome) == []
    (request,) = matcher.requests()
    assert len(request.event_index) == len(request.events) == 500
    assert set(request.offsets) == {3}
    first = request.events[0]
    notification = notification_id(SEND_ID, 1, "push")
    assert (first.type, first.club_id, first.key, first.occurred_at) == ("notification.sent", 7, notification, NOW)
    assert json.loads(first.data) == {
        "notification_id": notification,
        "send_id": SEND_ID,
        "user_id": 1,
        "channel": "push",
        "type": "news",
        "status": "sent",
        "reason": None,
    }
    (value,) = matcher.values(topics.WEBHOOK)
    assert len(value) < MAX_BYTES
    # A redelivered outcome has the same messages.
    before = matcher.messages()
    matcher.forget()
    matcher.run(matcher.use_case, outcome)
    assert matcher.messages() == before


def test_events_of_notifications_are_those_of_final_statuses() -> None:
    matcher = EventMatcher()
    matcher.subscribe(_to_notifications())
    statuses = [str(each) for each in Status]
    matcher.run(matcher.use_case, matcher.encoded(_outcome(statuses), topics.OUTCOME))
    events = [event for request in matcher.requests() for event in request.events]
    assert sorted(event.type for event in events) == [
        *("notification.bounced", "notification.delivered", "notification.failed"),
        *("notification.sent", "notification.suppressed"),
    ]
    for event in events:
        data, example = json.loads(event.data), OWN_EVENTS[event.type].example
        assert (data.keys(), data["status"]) == (example.keys(), example["status"])


def test_a_filter_applies_to_each_recipient() -> None:
    matcher = EventMatcher()
    matcher.subscribe(
        _to_notifications("notification.failed"),
        _to_notifications(number=2, endpoint=MANY[1], filter={"user_id": [2]}),
    )
    matcher.run(matcher.use_case, matcher.encoded(_outcome(["sent", "failed", "failed"]), topics.OUTCOME))
    events = {event.event_id: event for request in matcher.requests() for event in request.events}
    found = sorted((endpoint, json.loads(events[event].data)["user_id"]) for _, event, endpoint in matcher.messages())
    assert found == [(KEY.id, 2), (KEY.id, 3), (MANY[1].id, 2)]


@pytest.mark.kills(guard="events.subscribed_outcomes")
def test_outcomes_of_other_clubs_are_not_decoded() -> None:
    """The columns of the record are malformed: nobody reads them."""
    matcher = EventMatcher()
    matcher.subscribe(_to_notifications(club_ids=(8,)), subscribed(2))
    broken = matcher.encoded(_outcome(["sent"], result_index=[9]), topics.OUTCOME)
    assert matcher.run(matcher.use_case, broken) == []
    assert matcher.produced() == []
    matcher.subscribe(_to_notifications(number=3, club_ids=None))
    assert matcher.run(matcher.use_case, broken) == []
    assert [each["masscomm.reason"] for each in matcher.dead_letters()] == ["invalid"]


def test_an_own_event_needs_no_described_type() -> None:
    matcher = EventMatcher()
    matcher.subscribe(subscribed(types=("send.*",)))
    matcher.match(occurred("e1", type="send.completed"), occurred("e2", type="send.unknown"))
    assert [event for _, event, _ in matcher.messages()] == ["e1"]
    assert [each["masscomm.reason"] for each in matcher.dead_letters()] == ["unknown_type"]
