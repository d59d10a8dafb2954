"""webhook_sender: messages are posted to their endpoints, and the others wait or become dead letters."""

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from functions.webhook_sender.storing import Storing
from masscomm.channels.guarded_http import NoAnswer
from masscomm.domain.ids import event_message_id
from masscomm.domain.own_events import OWN_EVENTS
from masscomm.domain.time_limits import (
    ENDPOINTS_CACHED_S,
    EVENT_ATTEMPT_S,
    EVENT_BATCH_S,
    EVENT_SENDER_RESERVE_S,
    WEBHOOK_ATTEMPT_S,
    WEBHOOK_DISABLED_AFTER_S,
    WEBHOOK_RETRY_DELAYS_S,
)
from masscomm.domain.webhook_signatures import secret_of
from masscomm.domain.webhooks import MAX_ATTEMPTS, Attempt, BodyFormat, Endpoint, bucket_of
from masscomm.errors import Retry
from masscomm.kafka import topics
from masscomm.stores.delayed_records.port import MINUTE_MS
from masscomm.stores.sent_messages.port import RecordPosition
from masscomm.stores.webhook_dead_letters.in_memory import InMemoryWebhookDeadLetters
from masscomm.stores.webhook_dead_letters.port import Bound
from tests.support.harness.chain import NOW
from tests.support.harness.events import EventMatcher, Killed, WebhookSender, occurred, subscribed
from tests.support.harness.webhook_receiver import Received
from tests.support.harness.webhooks import KEY, answer, key, url_of


def message_id(event_id: str = "e1", endpoint_id: str = KEY.id) -> str:
    return event_message_id(7, event_id, endpoint_id)


def test_an_accepted_message_is_signed_and_not_stored() -> None:
    sender = WebhookSender()
    assert sender.send(sender.request([occurred(unit="100/7")])) == []
    ((url, headers, body),) = sender.http.requests
    assert url == url_of(KEY)
    secret = secret_of(sender.use_case.gateway.keys.now(), key_id="1", endpoint_id=KEY.id, version=1)
    content = b".".join((headers["webhook-id"].encode(), headers["webhook-timestamp"].encode(), body))
    assert Received(headers, body).event == {
        "id": message_id(),
        "type": "match.goal",
        "api_version": "v1",
        "timestamp": "2023-11-14T22:13:20Z",
        "event_id": "e1",
        "club_id": 7,
        "unit": "100/7",
        "data": {"minute": 90},
    }
    assert headers["webhook-id"] == message_id()
    assert headers["webhook-signature"] == _signature(secret, content)
    assert sender.waiting() == []
    assert sender.results() == [("e1", "delivered", 1, 200)]


@pytest.mark.parametrize(
    ("fields", "data"),
    [
        (["minute"], {"minute": 90}),
        (["player.id", "none", "player.none", "minute.id", "goals.0"], {"player": {"id": 5}}),
        (["player", "player.id"], {"player": {"id": 5, "name": None}}),
        (["player.id", "player"], {"player": {"id": 5, "name": None}}),
        (["player.name"], {"player": {"name": None}}),
        (["none"], {}),
    ],
)
def test_an_endpoint_receives_its_fields_alone(fields: list[str], data: Any) -> None:
    sender = WebhookSender()
    event = occurred(data='{"minute": 90, "goals": [2, 1], "player": {"id": 5, "name": null}}')
    assert sender.send(sender.request([event], field_lists=[[], fields], field_index=[1])) == []
    assert sender.bodies()[0]["data"] == data
    assert sender.send(sender.request([event], field_lists=[[], fields], field_index=[0])) == []
    assert sender.bodies()[1]["data"].keys() == {"minute", "goals", "player"}


def _signature(secret: str, content: bytes) -> str:
    import base64
    import hashlib
    import hmac

    digest = hmac.digest(base64.b64decode(secret.removeprefix("whsec_")), content, hashlib.sha256)
    return f"v1,{base64.b64encode(digest).decode()}"


def test_ids_differ_by_endpoint_event_and_club() -> None:
    ids = {event_message_id(club, event, endpoint) for club in (7, 8) for event in "ab" for endpoint in ("x", "y")}
    assert len(ids) == 8


@pytest.mark.parametrize(
    ("refusal", "status"), [(answer(500, body="no"), 500), (NoAnswer("no answer within 3 s"), None)]
)
def test_a_refused_message_waits_for_its_schedule(refusal: Exception, status: int | None) -> None:
    sender = WebhookSender()
    sender.http.answers[url_of(KEY)] = [refusal, answer(200)]
    assert sender.send(sender.request([occurred()])) == []
    (waiting,), (due_ms,) = sender.waiting(), sender.due_ms()
    assert (waiting.attempt, waiting.endpoints, waiting.first_tried_at) == (1, [KEY.id], NOW)
    assert 0 <= due_ms - NOW - WEBHOOK_RETRY_DELAYS_S[0] * 1000 <= WEBHOOK_RETRY_DELAYS_S[0] * 100
    assert sender.results() == [("e1", "retried", 1, status)]
    assert sender.retry() == []
    assert sender.http.ids() == [message_id()] * 2
    assert sender.http.requests[0][2] == sender.http.requests[1][2]
    assert sender.http.timeouts == {EVENT_ATTEMPT_S, WEBHOOK_ATTEMPT_S}
    assert sender.results() == [("e1", "delivered", 2, 200), ("e1", "retried", 1, status)]
    assert sender.waiting() == []


@pytest.mark.guarantee("events.dead_letter_after_the_schedule")
@pytest.mark.kills(guard="events.end_of_the_schedule")
def test_a_message_is_given_up_after_its_schedule() -> None:
    sender = WebhookSender()
    sender.http.answers[url_of(KEY)] = [answer(404)]
    sender.send(sender.request([occurred()]))
    while sender.waiting():
        sender.retry()
    assert len(sender.http.requests) == MAX_ATTEMPTS
    assert sender.results()[-1] == ("e1", "retried", 7, 404)
    assert ("e1", "given_up", 8, 404) in sender.results()
    (letter,) = sender.given_up.stored.values()
    assert (letter.message_id, letter.attempts, letter.status) == (message_id(), MAX_ATTEMPTS, 404)
    assert sender.clock.now_ms() - NOW >= sum(WEBHOOK_RETRY_DELAYS_S) * 1000


def test_retry_after_is_honoured() -> None:
    sender = WebhookSender()
    sender.http.answers[url_of(KEY)] = [answer(429, retry_after="7200")]
    sender.send(sender.request([occurred("e1"), occurred("e2")]))
    assert all(due >= NOW + 7_200_000 for due in sender.due_ms())
    assert sum(len(each.event_index) for each in sender.waiting()) == 2


@pytest.mark.guarantee("events.failing_endpoint_delays_no_other")
@pytest.mark.kills(guard="events.after_a_failure")
def test_messages_after_no_answer_wait_for_the_probe() -> None:
    sender = WebhookSender()
    other = sender.endpoint(key(8))
    sender.http.answers[url_of(KEY)] = [NoAnswer("no answer within 3 s")]
    events = [occurred(f"e{number}") for number in range(40)]
    assert sender.send(sender.request(events, [KEY, other.key])) == []
    assert 1 <= len(sender.http.ids()) <= 8
    assert len(sender.http.ids(other.key)) == 40
    waiting = sender.waiting()
    assert sum(len(each.event_index) for each in waiting) == 40
    assert {each.attempt for each in waiting} == {0, 1}
    stored = sender.endpoints.stored[KEY]
    assert stored.failing_since_ms == NOW
    assert stored.probe_at_ms is not None
    unattempted = next(due for due, each in zip(sender.due_ms(), waiting, strict=True) if each.attempt == 0)
    assert unattempted == stored.probe_at_ms


def test_a_single_refused_message_does_not_stop_the_others() -> None:
    """A message that its receiver cannot process says nothing about the following ones."""
    sender = WebhookSender()
    sender.endpoint(max_concurrency=1)
    sender.http.answers[url_of(KEY)] = [answer(500), answer(500), answer(200)]
    sender.send(sender.request([occurred(f"e{number}") for number in range(10)]))
    assert len(sender.http.ids()) == 10
    assert sender.endpoints.stored[KEY].failing_since_ms is None
    assert sum(len(each.event_index) for each in sender.waiting()) == 2


@pytest.mark.guarantee("events.failing_endpoint_delays_no_other")
@pytest.mark.kills(guard="events.failing_endpoint")
@pytest.mark.parametrize("fields", [{"failing_since_ms": NOW - 1, "probe_at_ms": NOW + 60_000}, {"is_slow": True}])
def test_a_failing_or_slow_endpoint_gets_no_first_attempt(fields: dict[str, Any]) -> None:
    sender = WebhookSender()
    sender.endpoint(**fields)
    assert sender.send(sender.request([occurred()])) == []
    assert sender.http.requests == []
    assert [each.attempt for each in sender.waiting()] == [0]
    assert sender.due_ms() == [fields.get("probe_at_ms", NOW)]
    assert sender.results() == []


@pytest.mark.kills(guard="events.one_probe")
def test_one_message_probes_a_failing_endpoint() -> None:
    """The others wait without an attempt, until it succeeds."""
    sender = WebhookSender()
    sender.endpoint(failing_since_ms=NOW - 1, probe_at_ms=NOW, failed_probes=1)
    sender.http.answers[url_of(KEY)] = [answer(500), answer(200)]
    sender.send(sender.request([occurred(f"e{number}") for number in range(30)]))
    assert sender.retry() == []
    assert len(sender.http.requests) == 1
    assert sum(len(each.event_index) for each in sender.waiting()) == 30
    stored = sender.endpoints.stored[KEY]
    assert stored.failed_probes == 2
    assert stored.probe_at_ms is not None
    # Another environment finds that the next probe is not due.
    early = [each for each in sender.waiting() if each.attempt == 0]
    assert sender.send(*early, topic=topics.WEBHOOK_SLOW) == []
    assert len(sender.http.requests) == 1
    assert sender.retry() == []
    assert len(set(sender.http.ids())) == 30
    assert sender.waiting() == []
    assert sender.endpoints.stored[KEY].failing_since_ms is None


def test_an_endpoint_that_fails_after_its_probe_fails_anew() -> None:
    """Its outage has ended: the days after which it is disabled count from the new failure."""
    sender = WebhookSender()
    sender.endpoint(failing_since_ms=NOW - 86_400_000, probe_at_ms=NOW, failed_probes=5, max_concurrency=1)
    sender.http.answers[url_of(KEY)] = [answer(200), NoAnswer("no answer within 15 s")]
    sender.send(sender.request([occurred(f"e{number}") for number in range(5)]), topic=topics.WEBHOOK_SLOW)
    stored = sender.endpoints.stored[KEY]
    assert (stored.failing_since_ms, stored.failed_probes) == (NOW, 1)
    assert sum(len(each.event_index) for each in sender.waiting()) == 4


def test_an_endpoint_that_is_disabled_leaves_dead_letters() -> None:
    sender = WebhookSender()
    sender.endpoint(failing_since_ms=NOW - WEBHOOK_DISABLED_AFTER_S * 1000, probe_at_ms=NOW)
    sender.http.answers[url_of(KEY)] = [answer(500)]
    waited = sender.request([occurred(f"e{number}") for number in range(5)], first_tried_at=NOW - 86_400_000)
    sender.send(waited, topic=topics.WEBHOOK_SLOW)
    assert not sender.endpoints.stored[KEY].enabled
    assert len(sender.given_up.stored) == 5
    assert sorted(each.attempts for each in sender.given_up.stored.values()) == [0, 0, 0, 0, 1]
    assert sender.waiting() == []


@pytest.mark.kills(guard="events.announced_endpoint")
@pytest.mark.parametrize("contact", [None, 42])
def test_a_disabled_endpoint_is_announced_once(contact: int | None) -> None:
    """Another endpoint learns of it, and the endpoint's contact: a repetition after a crash is the same event."""
    sender = WebhookSender()
    sender.endpoint(contact_user_id=contact)
    sender.http.answers[url_of(KEY)] = [answer(410)]
    sender.endpoints.failing = {"replace": Retry("down")}
    assert sender.send(sender.request([occurred()])) == [0]
    sender.endpoints.failing = None
    sender.clock.advance(1)
    assert sender.send(sender.request([occurred()])) == []
    (first, *others) = sender.own_events()
    assert [each.event_id for each in others] == [first.event_id]
    assert (first.type, first.club_id, first.key) == ("webhook.disabled", KEY.club_id, KEY.id)
    data = json.loads(first.data)
    assert (data["endpoint_id"], data["reason"]) == (KEY.id, "The endpoint answered 410 Gone.")
    assert data.get("contact_user_id") == contact
    assert contact is None or data.keys() == OWN_EVENTS[first.type].example.keys()
    matcher = EventMatcher()
    matcher.subscribe(subscribed(1, key(7, "b"), types=("webhook.*",)))
    assert matcher.match(first) == []
    assert [event for _, event, _ in matcher.messages()] == [first.event_id]
    assert [each.to_users for each in matcher.sends()] == ([] if contact is None else [[contact]])
    assert all((each.type, each.channels) == ("webhook_disabled", ["email"]) for each in matcher.sends())


def test_the_oldest_dead_letters_beyond_the_bound_go() -> None:
    sender = WebhookSender()
    sender.given_up = InMemoryWebhookDeadLetters(Bound(sampled_in=1, samples=3))
    sender.use_case = replace(sender.use_case, storing=Storing.of(sender.delayed, sender.given_up, sender.clock))
    sender.endpoint(enabled=False)
    sender.send(sender.request([occurred("e0"), occurred("e1")]))
    sender.clock.advance(1)
    sender.given_up.failing = {"remove_oldest": Retry("down")}
    assert sender.send(sender.request([occurred(f"e{number}") for number in range(2, 5)])) == []
    assert len(sender.given_up.stored) == 5
    sender.given_up.failing = None
    sender.clock.advance(1)
    sender.send(sender.request([occurred("e5")]))
    left = sorted(each.event.event_id for each in sender.given_up.stored.values())
    assert len(left) == 3
    assert not {"e0", "e1"} & set(left)


@pytest.mark.kills(guard="events.schedule_of_probes")
def test_the_probes_of_an_endpoint_have_the_schedule() -> None:
    """A failure that is no probe, such as one that was under way, makes no delay longer."""
    failing = Endpoint(key=KEY, url=url_of(KEY), created_at_ms=1, key_id="1")
    delays = []
    for _ in range(MAX_ATTEMPTS):
        at_ms = failing.probe_at_ms or NOW
        failing = failing.after(Attempt(at_ms=at_ms, duration_ms=1, status=500), tried_since_ms=at_ms, is_probe=True)
        other = failing.after(Attempt(at_ms=at_ms + 1, duration_ms=1, status=500), tried_since_ms=at_ms)
        assert other.probe_at_ms == failing.probe_at_ms
        delays.append(((failing.probe_at_ms or 0) - at_ms) / 1000)
    expected = [*WEBHOOK_RETRY_DELAYS_S, WEBHOOK_RETRY_DELAYS_S[-1]]
    assert all(usual <= delay <= 1.1 * usual for usual, delay in zip(expected, delays, strict=True))


def test_an_endpoint_that_answers_late_is_slow_until_it_is_fast() -> None:
    late = Attempt(at_ms=NOW, duration_ms=3000, error="no answer within 3 s")
    slow = Endpoint(key=KEY, url=url_of(KEY), created_at_ms=1, key_id="1").after(late, tried_since_ms=NOW)
    assert slow.is_slow
    still = slow.after(Attempt(at_ms=NOW, duration_ms=5000, status=200), tried_since_ms=NOW)
    assert (still.is_slow, still.failing_since_ms) == (True, None)
    assert not still.after(Attempt(at_ms=NOW, duration_ms=100, status=200), tried_since_ms=NOW).is_slow


@pytest.mark.kills(guard="events.slow_endpoint")
def test_an_endpoint_that_accepts_slowly_becomes_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may answer 200 at once, and then byte by byte."""
    sender = WebhookSender()
    sender.http.takes_s, sender.http.clock = EVENT_ATTEMPT_S, sender.clock
    monkeypatch.setattr("functions.webhook_sender.gateway.time.monotonic", sender.clock.monotonic)
    sender.send(sender.request([occurred()]))
    assert sender.endpoints.stored[KEY].is_slow
    assert sender.results() == [("e1", "delivered", 1, 200)]


@pytest.mark.guarantee("webhooks.deleted_endpoint_receives_nothing")
def test_a_message_of_a_deleted_endpoint_is_dropped() -> None:
    sender = WebhookSender()
    sender.endpoints.delete(KEY)
    assert sender.send(sender.request([occurred()])) == []
    assert (sender.http.requests, sender.waiting(), sender.given_up.stored) == ([], [], {})


@pytest.mark.guarantee("webhooks.deleted_endpoint_receives_nothing")
@pytest.mark.parametrize("topic", [topics.WEBHOOK, topics.WEBHOOK_SLOW])
def test_a_message_of_a_disabled_endpoint_is_a_dead_letter(topic: str) -> None:
    sender = WebhookSender()
    sender.endpoint(enabled=False)
    assert sender.send(sender.request([occurred()]), topic=topic) == []
    assert (sender.http.requests, sender.waiting()) == ([], [])
    (letter,) = sender.given_up.stored.values()
    assert (letter.event, letter.attempts, letter.reason) == (occurred(), 0, "the endpoint is disabled")
    assert sender.results() == [("e1", "given_up", 1, None)]


def test_a_gone_endpoint_is_disabled() -> None:
    sender = WebhookSender()
    sender.http.answers[url_of(KEY)] = [answer(410)]
    sender.send(sender.request([occurred()]))
    assert not sender.endpoints.stored[KEY].enabled
    (letter,) = sender.given_up.stored.values()
    assert (letter.status, letter.attempts, letter.reason) == (410, 1, "the endpoint answered 410")
    assert sender.results() == [("e1", "given_up", 1, 410)]


def test_a_redelivered_record_has_results_of_the_same_ids() -> None:
    sender = WebhookSender()
    request = sender.request([occurred(f"e{number}") for number in range(5)])
    sender.send(request)
    first = set(sender.delayed.items)
    sender.send(request)
    assert set(sender.delayed.items) == first
    assert len(sender.results()) == 5


@pytest.mark.parametrize("limit", [1, 3, 8])
def test_an_endpoint_has_its_concurrent_calls(limit: int) -> None:
    sender = WebhookSender()
    sender.endpoint(max_concurrency=limit)
    sender.send(sender.request([occurred(f"e{number}") for number in range(100)]))
    assert sender.http.most == {url_of(KEY): limit}
    assert sorted(sender.http.ids()) == sorted(message_id(f"e{number}") for number in range(100))


@pytest.mark.kills(guard="events.rate_of_an_endpoint")
def test_messages_beyond_the_rate_wait_for_the_next_minutes() -> None:
    sender = WebhookSender()
    sender.endpoint(rate_per_s=1)
    sender.send(sender.request([occurred(f"e{number}") for number in range(50)]))
    sent = len(sender.http.requests)
    assert 1 <= sent <= 2
    assert sum(len(each.event_index) for each in sender.waiting()) == 50 - sent
    assert len(sender.due_ms()) == 3
    assert sender.due_ms()[0] == NOW
    assert sender.endpoints.stored[KEY].failing_since_ms is None


@pytest.mark.kills(guard="events.time_for_an_attempt")
def test_messages_without_time_wait() -> None:
    sender = WebhookSender()
    assert sender.send(sender.request([occurred()]), seconds=EVENT_ATTEMPT_S + EVENT_SENDER_RESERVE_S) == []
    assert sender.http.requests == []
    assert [each.attempt for each in sender.waiting()] == [0]


@pytest.mark.kills(guard="events.time_of_a_batch")
def test_a_busy_endpoint_delays_the_others_for_seconds() -> None:
    sender = WebhookSender()
    sender.endpoint(max_concurrency=1)
    sender.http.takes_s, sender.http.clock = 1.0, sender.clock
    assert sender.send(sender.request([occurred(f"e{number}") for number in range(20)])) == []
    assert len(sender.http.requests) == EVENT_BATCH_S
    assert sum(len(each.event_index) for each in sender.waiting()) == 20 - EVENT_BATCH_S


def test_records_wait_while_the_endpoints_cannot_be_read() -> None:
    sender = WebhookSender()
    sender.endpoints.failing = Retry("down")
    assert sender.send(sender.request([occurred("e1")]), sender.request([occurred("e2")])) == [0, 1]
    assert sender.http.requests == []


def test_a_failed_write_redelivers_the_records() -> None:
    sender = WebhookSender()
    other = sender.endpoint(key(8))
    sender.http.answers[url_of(KEY)] = [answer(500)]
    sender.delayed.failing = Retry("down")
    assert sender.send(sender.request([occurred()]), sender.request([occurred()], [other.key])) == [0, 1]


@pytest.mark.kills(guard="events.unrecorded_messages")
@pytest.mark.kills(guard="events.sent_before_a_kill")
@pytest.mark.parametrize("killed_after", [1, 19, 20, 21, 55, 99])
@pytest.mark.parametrize("max_count", [1, 7, 50])
def test_a_killed_batch_repeats_the_unrecorded_messages(killed_after: int, max_count: int) -> None:
    """The batch is cut anew before it is processed again."""
    sender = WebhookSender(unrecorded=20)
    sender.endpoint(max_count=max_count)
    sender.endpoint(key(8), max_count=max_count)
    requests = [
        sender.request([occurred(f"e{number}") for number in range(start, start + 25)], [KEY, key(8)])
        for start in (0, 25, 50, 75)
    ]
    sender.http.killed_after = killed_after // max_count
    with pytest.raises(Killed):
        sender.send(*requests)
    sender.http.killed_after = None
    assert sender.send(*requests[:2]) == []
    assert sender.send(*requests) == []
    counts = Counter(
        (url, each["event_id"])
        for url, _, body in sender.http.requests
        for parsed in [json.loads(body)]
        for each in (parsed if isinstance(parsed, list) else [parsed])
    )
    assert len(counts) == 200
    repeated = counts.total() - 200
    assert repeated <= 2 * max(20, max_count)
    assert len(sender.results()) <= counts.total()
    assert {event for event, _, _, _ in sender.results()} == {f"e{number}" for number in range(100)}


def test_a_small_batch_is_recorded_by_one_write() -> None:
    sender = WebhookSender()
    for first in (0, 500):
        before = sender.sent.calls
        assert sender.send(sender.request([occurred(f"e{first + number}") for number in range(500)])) == []
        assert sender.sent.calls - before == 2  # It is read once, too.
    ((sent, _),) = sender.sent.stored.values()
    assert list(sent.settled) == [RecordPosition(1, NOW)], "earlier records do not come again"


def test_sent_messages_of_a_topic_made_anew_are_unknown() -> None:
    sender = WebhookSender(unrecorded=1)
    request = sender.request([occurred(f"e{number}") for number in range(5)])
    sender.send(request)
    assert sender.sent.stored
    assert sender.send(request, timestamp=NOW + 1) == []
    assert len(sender.http.requests) == 10


def test_messages_are_kept_while_they_cannot_be_recorded() -> None:
    sender = WebhookSender(unrecorded=3)
    sender.sent.failing = {"record": Retry("down")}
    request = sender.request([occurred(f"e{number}") for number in range(50)])
    assert sender.send(request) == [0]
    assert len(sender.http.requests) == 3
    sender.sent.failing = None
    assert sender.send(request) == []
    assert {each["event_id"] for each in sender.bodies()} == {f"e{number}" for number in range(50)}


def test_a_batch_has_its_messages_in_one_request() -> None:
    sender = WebhookSender()
    sender.endpoint(max_count=100)
    sender.send(sender.request([occurred(f"e{number}") for number in range(250)]), topic=topics.WEBHOOK_BATCHED)
    assert [len(body) for body in sender.bodies()] == [100, 100, 50]
    assert [each["id"] for body in sender.bodies() for each in body] == [message_id(f"e{n}") for n in range(250)]
    assert all(id_.startswith("bat_") for id_ in sender.http.ids())
    assert len(sender.results()) == 250


@pytest.mark.kills(guard="events.max_wait")
@pytest.mark.parametrize("max_wait_s", [60, 61, 90, 300, 3_600])
def test_a_message_waits_for_others_as_long_as_permitted(max_wait_s: int) -> None:
    """A sweep within a minute releases all that arrived meanwhile; a full request does not wait."""
    sender = WebhookSender()
    sender.endpoint(max_count=10, max_wait_s=max_wait_s)
    assert sender.send(sender.request([occurred(f"a{number}") for number in range(24)])) == []
    assert [len(body) for body in sender.bodies()] == [10, 10]
    arrived_ms, (due_ms,) = sender.clock.now_ms(), sender.due_ms()
    assert arrived_ms <= due_ms <= arrived_ms + max_wait_s * 1000 - MINUTE_MS
    sender.clock.advance((due_ms - arrived_ms) / 2000)
    assert sender.send(sender.request([occurred(f"b{number}") for number in range(3)])) == []
    assert set(sender.due_ms()) == {due_ms} or max_wait_s == 60
    assert sender.retry() == []
    assert [len(body) for body in sender.bodies()] == [10, 10, 7]
    assert sender.waiting() == []


def test_waiting_messages_of_a_killed_batch_are_stored_once() -> None:
    sender = WebhookSender()
    sender.endpoint(max_count=10, max_wait_s=300)
    request = sender.request([occurred(f"e{number}") for number in range(3)])
    for _ in range(2):
        assert sender.send(request) == []
        sender.clock.advance(0.001)
    assert [len(each.events) for each in sender.waiting()] == [3]


@pytest.mark.parametrize("max_wait_s", [1, 300])
def test_gathered_messages_of_a_failing_endpoint_await_its_probe(max_wait_s: int) -> None:
    sender = WebhookSender()
    sender.endpoint(max_count=10, max_wait_s=max_wait_s, failing_since_ms=NOW - 1, probe_at_ms=NOW + 7_200_000)
    sender.send(sender.request([occurred(f"e{number}") for number in range(13)]))
    assert sender.http.requests == []
    assert sender.due_ms() == [NOW + 7_200_000]
    sender.endpoint(max_count=10, max_wait_s=max_wait_s, enabled=False)
    sender.clock.advance(ENDPOINTS_CACHED_S)
    sender.send(sender.request([occurred(f"e{number}") for number in range(13)]))
    assert len(sender.given_up.stored) == 13


@pytest.mark.kills(guard="events.size_of_batch")
def test_a_batch_has_at_most_max_bytes() -> None:
    """A larger message goes alone."""
    sender = WebhookSender()
    sender.endpoint(max_count=1_000, max_bytes=5_000)
    data = json.dumps({"text": "x" * 1_000})
    large = json.dumps({"text": "x" * 9_000})
    events = [occurred(f"e{number}", data=large if number == 5 else data) for number in range(20)]
    sender.send(sender.request(events), topic=topics.WEBHOOK_BATCHED)
    sizes = [(len(body), len(json.loads(body))) for _, _, body in sender.http.requests]
    assert sum(count for _, count in sizes) == 20
    assert all(size <= 5_000 or count == 1 for size, count in sizes)
    assert max(count for _, count in sizes) == 4


def test_a_batch_of_cloud_events_keeps_its_fields_and_form() -> None:
    """The messages that wait have no other data."""
    sender = WebhookSender()
    sender.endpoint(max_count=100, format=BodyFormat.CLOUD_EVENTS)
    sender.http.answers[url_of(KEY)] = [answer(500), answer(200)]
    events = [occurred(f"e{number}", data='{"minute": 90, "secret": 1}') for number in range(3)]
    request = sender.request(events, field_lists=[["minute"]], field_index=[0, 0, 0])
    sender.send(request, topic=topics.WEBHOOK_BATCHED)
    (waiting,) = sender.waiting()
    assert {each.data for each in waiting.events} == {'{"minute":90}'}
    sender.retry()
    assert len(sender.bodies()) == 2
    for body, (_, headers, _) in zip(sender.bodies(), sender.http.requests, strict=True):
        assert headers["content-type"] == "application/cloudevents-batch+json"
        assert [(each["id"], each["data"]) for each in body] == [(f"e{n}", {"minute": 90}) for n in range(3)]


@pytest.mark.kills(guard="events.repeated_batch")
def test_a_repeated_batch_keeps_its_id_and_body() -> None:
    sender = WebhookSender()
    sender.endpoint(max_count=100)
    sender.http.answers[url_of(KEY)] = [answer(500), answer(500), answer(200)]
    for start in (0, 30):
        events = [occurred(f"e{number}") for number in range(start, start + 30)]
        sender.send(sender.request(events), topic=topics.WEBHOOK_BATCHED)
    sender.retry()
    first, repeated = sender.http.requests[:2], sender.http.requests[2:]
    assert sorted(body for _, _, body in first) == sorted(body for _, _, body in repeated)
    assert sorted(sender.http.ids()[:2]) == sorted(sender.http.ids()[2:])


@pytest.mark.kills(guard="events.size_of_waiting_record")
def test_waiting_messages_are_packed_into_bounded_records() -> None:
    sender = WebhookSender()
    sender.endpoint(failing_since_ms=NOW - 1, probe_at_ms=NOW + 60_000)
    data = json.dumps({"text": "x" * 20_000})
    sender.send(sender.request([occurred(f"e{number}", data=data) for number in range(30)]))
    assert [len(each.event_index) for each in sender.waiting()] != []
    assert sum(len(each.event_index) for each in sender.waiting()) == 30
    assert len(sender.waiting()) == 3
    assert all(item.record_key == str(bucket_of(KEY.id)) for item in sender.delayed.items.values())


@pytest.mark.kills(guard="events.faults_of_messages")
def test_a_record_with_an_invalid_event_is_dead_lettered() -> None:
    sender = WebhookSender()
    assert sender.send(sender.request([occurred(occurred_at=2**62)])) == []
    assert [each["masscomm.reason"] for each in sender.dead_letters()] == ["invalid"]


@pytest.mark.parametrize(
    "fields", [{"event_index": [1]}, {"endpoint_index": [0, 0]}, {"offsets": []}, {"endpoints": ["nobody"]}]
)
def test_a_malformed_record_is_dead_lettered(fields: dict[str, Any]) -> None:
    sender = WebhookSender()
    assert sender.send(sender.request([occurred()], **fields)) == []
    assert [each["masscomm.reason"] for each in sender.dead_letters()] == ["invalid"]


@pytest.mark.kills(guard="registry.bundled_schema")
def test_a_record_of_another_version_waits() -> None:
    sender = WebhookSender()
    request = sender.request([occurred()])
    entry = sender.encoded(request, "webhook", headers=[("masscomm.schema", b"another")])
    assert sender.run(sender.use_case, entry) == [0]
    assert sender.http.requests == []
    assert sender.hostile(b"\0\0\0\0\1junk") == []
    assert [each["masscomm.reason"] for each in sender.dead_letters()] == ["undecodable"]
