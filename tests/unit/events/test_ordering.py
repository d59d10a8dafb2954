"""The messages of an ordered endpoint with the same key are sent one after the other."""

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Any

import pytest

from functions.webhook_sender import ordering
from functions.webhook_sender.messages import Message, posts_of
from masscomm.channels.guarded_http import Answer, NoAnswer
from masscomm.domain.ids import event_message_id
from masscomm.domain.records import EventOccurred, WebhookRequested
from masscomm.domain.time_limits import ENDPOINTS_CACHED_S, ORDER_LOST_S
from masscomm.domain.webhooks import MAX_ATTEMPTS
from masscomm.errors import Retry
from masscomm.kafka import topics
from masscomm.stores.delayed_records.port import MINUTE_MS
from masscomm.stores.key_queues.port import KeyQueue, Ordering
from tests.support.harness.chain import NOW
from tests.support.harness.events import Killed, ScriptedAsyncHttp, WebhookSender, occurred
from tests.support.harness.webhooks import KEY, answer


@dataclass
class Receiver(ScriptedAsyncHttp):
    """Answers 200, or for an event what the test sets: answers in order, the last one for ever."""

    scripts: dict[str, list[Answer | Exception]] = field(default_factory=dict)
    # The accepted events, each as often as it was accepted.
    accepted: list[str] = field(default_factory=list)

    async def post(self, url: str, *, body: bytes, headers: Mapping[str, str], **rest: Any) -> Answer:
        await super().post(url, body=body, headers=headers, **rest)
        parsed = json.loads(body)
        events = [each["event_id"] for each in (parsed if isinstance(parsed, list) else [parsed])]
        for event in events:
            script = self.scripts.get(event, [answer(200)])
            found = script.pop(0) if len(script) > 1 else script[0]
            if isinstance(found, Exception):
                raise found
            if found.status != 200:
                return found
        self.accepted += events
        return answer(200)


class OrderedSender(WebhookSender):
    """The sender with an ordered endpoint."""

    def __init__(self, *, max_count: int = 1, **settings: Any) -> None:
        super().__init__(**settings)
        self.receiver = self.http = Receiver()
        self.records = 0
        self.use_case = replace(self.use_case, gateway=replace(self.use_case.gateway, http=self.receiver))
        self.endpoint(ordered_since_ms=NOW, max_count=max_count)

    def arrive(self, *events: str, key: str | None = "k") -> list[int]:
        """Process new events in a record; return the offsets to be redelivered."""
        return self.send(self.request([occurred(each, key=key) for each in events]))

    def release(self, *, reverse: bool = False) -> None:
        """Process each of the waiting records in a batch of its own, when all are due."""
        waiting = self._delayed(topics.WEBHOOK_SLOW)
        self.clock.advance(max(0.0, max(each.due_ms for each in waiting) - self.clock.now_ms()) / 1000 + 1)
        for each in waiting:
            self.delayed.done(each)
        for each in reversed(waiting) if reverse else waiting:
            assert self.send(self._requested(each), topic=topics.WEBHOOK_SLOW) == []

    def queued(self) -> list[tuple[str, ...]]:
        return [queue.ids for queue, _ in self.queues.stored.values()]

    def waiting_events(self) -> list[str]:
        return sorted(event.event_id for each in self.waiting() for event in each.events)


def message_ids(*events: str) -> tuple[str, ...]:
    return tuple(event_message_id(7, each, KEY.id) for each in events)


@pytest.mark.guarantee("events.order_of_a_key")
@pytest.mark.kills(guard="events.order_of_a_key")
@pytest.mark.parametrize("reverse", [False, True])
def test_later_messages_of_a_key_wait_for_the_first(reverse: bool) -> None:
    """They wait in whichever order they are released; other keys and messages without a key do not."""
    sender = OrderedSender()
    sender.receiver.scripts = {"e1": [answer(500), answer(500), answer(200)]}
    sender.arrive("e1", "e2")
    sender.arrive("o1", "o2", key="o")
    sender.arrive("n1", key=None)
    sender.arrive("e3")
    assert sender.receiver.accepted == ["o1", "o2", "n1"]
    assert sender.queued() == [message_ids("e1", "e2", "e3")]
    assert set(sender.due_ms()) == {sender.due_ms()[0]}
    for _ in range(5):
        if sender.waiting():
            sender.release(reverse=reverse)
    assert sender.receiver.accepted == ["o1", "o2", "n1", "e1", "e2", "e3"]
    assert sender.queued() == []
    assert sender.waiting() == []


def test_a_given_up_message_releases_the_later_ones() -> None:
    sender = OrderedSender()
    sender.receiver.scripts = {"e1": [answer(404)]}
    sender.arrive("e1", "e2", "e3")
    for _ in range(MAX_ATTEMPTS):
        assert sender.receiver.accepted == []
        sender.retry()
    assert sender.receiver.accepted == ["e2", "e3"]
    assert [each.event.event_id for each in sender.given_up.stored.values()] == ["e1"]
    assert (sender.queued(), sender.waiting()) == ([], [])


def test_different_keys_are_sent_concurrently() -> None:
    sender = OrderedSender()
    events = [occurred(f"{key}{number}", key=key) for number in range(3) for key in "abc"]
    sender.send(sender.request(events))
    assert list(sender.receiver.most.values()) == [3]
    for key in "abc":
        assert [each for each in sender.receiver.accepted if each[0] == key] == [f"{key}{n}" for n in range(3)]


def test_a_batched_endpoint_keeps_the_order_of_requests() -> None:
    """A later request waits, also for one whose keys it shares with another waiting one."""
    sender = OrderedSender(max_count=2)
    sender.receiver.scripts = {"a1": [answer(500), answer(200)]}
    events = [("a1", "a"), ("b1", "b"), ("b2", "b"), ("c1", "c"), ("c2", "c"), ("d1", "d"), ("e1", "e"), ("e2", "e")]
    sender.send(sender.request([occurred(event, key=key) for event, key in events]))
    assert sender.receiver.accepted == ["e1", "e2"]
    first = sender.http.ids()[0]
    while sender.waiting():
        sender.release()
    for earlier, later in (("b1", "b2"), ("c1", "c2")):
        assert sender.receiver.accepted.index(earlier) < sender.receiver.accepted.index(later)
    assert sorted(sender.receiver.accepted) == sorted(event for event, _ in events)
    assert sender.http.ids().count(first) == 2


def test_a_failing_endpoint_gets_its_messages_in_order() -> None:
    sender = OrderedSender()
    sender.receiver.scripts = {"e1": [NoAnswer("no answer"), NoAnswer("no answer"), answer(200)]}
    sender.arrive("e1", "e2")
    sender.arrive("e3")
    while sender.waiting():
        sender.retry()
    assert sender.receiver.accepted == ["e1", "e2", "e3"]
    assert sender.queued() == []


@pytest.mark.parametrize("store", ["delayed", "queues"])
def test_messages_that_cannot_be_stored_are_redelivered(store: str) -> None:
    """A full or unreachable store loses no message, and changes no order."""
    sender = OrderedSender()
    sender.receiver.scripts = {"e1": [answer(500), answer(500), answer(200)]}
    getattr(sender, store).failing = {"put": Retry("full"), "replace": Retry("down")}
    assert sender.arrive("e1", "e2") == [0]
    getattr(sender, store).failing = None
    assert sender.arrive("e1", "e2") == []
    assert sender.queued() == [message_ids("e1", "e2")]
    sender.retry()
    assert sender.receiver.accepted == ["e1", "e2"]


def test_a_message_recorded_before_a_kill_leaves_its_queue() -> None:
    """Otherwise the later ones would wait for ever."""
    sender = OrderedSender(unrecorded=1)
    sender.receiver.scripts = {"e1": [answer(500), answer(200)]}
    sender.arrive("e1", "e2", "e3")
    (waiting,) = [each for each in sender.waiting() if each.attempt == 1]
    both = replace(waiting, events=[*waiting.events, occurred("n1"), occurred("n2")], offsets=[0, 1, 2])
    both = replace(both, produced_at=[NOW] * 3, event_index=[0, 1, 2], endpoint_index=[0] * 3)
    sender.delayed.items = {key: each for key, each in sender.delayed.items.items() if each.id != waiting.record_id}
    sender.http.killed_after = 3
    with pytest.raises(Killed):
        sender.send(both, topic=topics.WEBHOOK_SLOW)
    sender.http.killed_after = None
    assert sender.receiver.accepted[0] == "e1"
    assert sender.send(both, topic=topics.WEBHOOK_SLOW) == []
    assert sender.receiver.accepted.count("e1") == 1
    assert sender.queued() == [message_ids("e2", "e3")]
    sender.retry()
    assert sender.receiver.accepted[-2:] == ["e2", "e3"]
    assert sender.queued() == []


@pytest.mark.kills(guard="events.lost_message")
def test_messages_do_not_wait_for_a_lost_one() -> None:
    """Erasure may remove the first message of a key from the delay store."""
    sender = OrderedSender()
    sender.receiver.scripts = {"e1": [answer(500)]}
    sender.arrive("e1", "e2", "e3")
    (lost,) = [each for each in sender._delayed(topics.WEBHOOK_SLOW) if sender._requested(each).attempt == 1]
    sender.delayed.done(lost)
    sender.release()
    assert sender.receiver.accepted == []
    sender.clock.advance(ORDER_LOST_S)
    sender.release()
    assert sender.receiver.accepted == []
    sender.release()
    assert sender.receiver.accepted == ["e2", "e3"]
    assert sender.queued() == []


@pytest.mark.kills(guard="events.queue_of_a_key")
def test_messages_beyond_the_queue_of_a_key_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordering, "MAX_QUEUED", 2)
    sender = OrderedSender()
    sender.receiver.scripts = {"e1": [answer(500), answer(200)]}
    sender.arrive("e1", "e2")
    sender.arrive("e3")
    (letter,) = sender.given_up.stored.values()
    assert (letter.event.event_id, letter.reason, letter.attempts) == ("e3", "too many messages of its key wait", 0)
    sender.retry()
    assert sender.receiver.accepted == ["e1", "e2"]


def test_a_disabled_endpoint_empties_its_queues() -> None:
    sender = OrderedSender()
    sender.receiver.scripts = {"e1": [answer(500)]}
    sender.arrive("e1", "e2")
    sender.endpoint(ordered_since_ms=NOW, enabled=False)
    sender.clock.advance(ENDPOINTS_CACHED_S)
    sender.retry()
    assert len(sender.given_up.stored) == 2
    assert sender.queued() == []


def test_an_endpoint_that_is_ordered_anew_has_no_old_queue() -> None:
    sender = OrderedSender()
    sender.receiver.scripts = {"e1": [answer(500)]}
    sender.arrive("e1")
    sender.endpoint(ordered_since_ms=NOW + 1)
    sender.clock.advance(ENDPOINTS_CACHED_S)
    sender.arrive("e2")
    assert sender.receiver.accepted == ["e2"]


def test_a_queue_that_another_function_changes_is_read_again() -> None:
    """The first message is settled there, and another one waits, while a later one arrives here."""
    sender = OrderedSender()
    sender.receiver.scripts = {"e1": [answer(500), answer(200)]}
    sender.arrive("e1")
    change = sender.queues.replace

    def changed_first(ordering: Ordering, key: str, old: KeyQueue | None, new: KeyQueue | None, at_s: int) -> bool:
        sender.queues.replace = change  # type: ignore[method-assign]
        assert change(ordering, key, old, KeyQueue(message_ids("x1"), NOW), at_s)
        return change(ordering, key, old, new, at_s)

    sender.queues.replace = changed_first  # type: ignore[method-assign]
    assert sender.arrive("e2") == []
    assert sender.queued() == [message_ids("x1", "e2")]


@pytest.mark.kills(guard="events.one_message_of_a_key")
def test_a_request_to_a_queue_has_one_message_of_each_key() -> None:
    """It may refuse one message, and accept a later one of the same request."""
    sender = OrderedSender()
    events = [occurred("a1", key="a"), occurred("b1", key="b"), occurred("n1"), occurred("n2"), occurred("a2", key="a")]
    arn, role = "arn:aws:sqs:eu-central-1:123456789012:q", "arn:aws:iam::123456789012:role/masscomm-q"
    endpoint = sender.endpoint(url=arn, role_arn=role, ordered_since_ms=NOW)
    request = sender.request(events)
    messages = [Message(_Item(request), place, place, KEY) for place in range(len(events))]  # type: ignore[arg-type]
    posts = [[each.event.event_id for each in post.messages] for post in posts_of(endpoint, messages)]
    assert posts == [["a1", "b1", "n1", "n2"], ["a2"]]


@dataclass
class _Item:
    value: Any


@pytest.mark.parametrize("max_count", [1, 3])
@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(3, 60))])
def test_no_message_is_accepted_before_an_earlier_one_of_its_key(seed: int, max_count: int) -> None:
    """Whatever fails, is killed, and is released in whichever order: each message is accepted or given up, and first
    accepted after those before it.
    """
    random = Random(seed)  # noqa: S311 - no secret
    sender = OrderedSender(max_count=max_count, unrecorded=5)
    events = [occurred(f"e{number}", key=random.choice(["a", "b", None])) for number in range(40)]
    for event in random.sample(events, 12):
        failures = random.choice([1, 2, MAX_ATTEMPTS])
        kinds: list[Answer | Exception] = [
            answer(500),
            answer(404),
            NoAnswer("no answer"),
            answer(429, retry_after="60"),
        ]
        sender.receiver.scripts[event.event_id] = [*random.choices(kinds, k=failures), answer(200)]
    arriving = list(events)
    while arriving or sender.waiting():
        if arriving and random.random() < 0.6:
            count = random.randint(1, 6)
            _invoke(sender, random, sender.request(arriving[:count]))
            del arriving[:count]
        elif sender.waiting():
            due = [each for each in sender._delayed(topics.WEBHOOK_SLOW) if each.due_ms <= sender.clock.now_ms()]
            random.shuffle(due)
            for item in sorted(due, key=lambda each: each.due_ms // MINUTE_MS):
                sender.delayed.done(item)
                _invoke(sender, random, sender._requested(item), topic=topics.WEBHOOK_SLOW)
        sender.clock.advance(random.choice([1, 60, 3_600]))
    _check(sender, events)


def _invoke(sender: OrderedSender, random: Random, record: WebhookRequested, topic: str = topics.WEBHOOK) -> None:
    """Process a record again after kills and failed writes, until it succeeds."""
    sender.records += 1
    call = partial(sender.send, record, topic=topic, timestamp=NOW + sender.records)
    for fault in random.choices(["none", "kill", "delayed", "queues"], weights=[7, 1, 1, 1], k=3):
        if fault == "kill":
            sender.http.killed_after = len(sender.http.requests) + random.randint(0, 3)
        elif fault != "none":
            getattr(sender, fault).failing = {"put": Retry("full"), "replace": Retry("down")}
        try:
            failed = call()
        except Killed:
            failed = [0]
        sender.http.killed_after, sender.delayed.failing, sender.queues.failing = None, None, None
        if not failed:
            return
    assert call() == []


def _check(sender: OrderedSender, events: list[EventOccurred]) -> None:
    given_up = {each.event.event_id for each in sender.given_up.stored.values()}
    first = {event: place for place, event in reversed(list(enumerate(sender.receiver.accepted)))}
    assert first.keys() | given_up == {each.event_id for each in events}
    by_key: defaultdict[str, list[str]] = defaultdict(list)
    for each in events:
        if each.key is not None:
            by_key[each.key].append(each.event_id)
    for ids in by_key.values():
        places = [first[each] for each in ids if each in first and each not in given_up]
        assert places == sorted(places)
    assert sender.queued() == []
