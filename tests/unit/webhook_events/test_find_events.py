"""The changes of sends become events, each once, for the endpoints of the send's club."""

from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from functions.webhook_events.find_events import FindEvents
from functions.webhook_events.send_counts import Changes, CountedSend
from masscomm.domain.own_events import OWN_EVENTS
from masscomm.domain.send_states import SendCounts
from masscomm.domain.sends import Expansion, Send, SendControl, SendKey, Source
from masscomm.domain.subscriptions import Subscription
from masscomm.domain.time_limits import WEBHOOK_EVENTS_FOUND_S
from masscomm.domain.webhooks import EndpointKey
from masscomm.errors import Retry
from masscomm.kafka import topics
from masscomm.stores.sends.in_memory import InMemorySends
from masscomm.stores.sends.port import Position
from tests.support.harness.control_api import OWN, ControlApi
from tests.support.harness.own_events import OwnEvents
from tests.support.harness.webhooks import KEY, Webhooks, key

NOW_MS = 1_700_000_000_000
# A time at which the record of an event of NOW_MS may have expired.
LATER_MS = NOW_MS + (WEBHOOK_EVENTS_FOUND_S + 120) * 1000
SEND = SendKey(7, "8a6e0804-2bd0-4672-b79d-d97027f9071a")


REQUESTED = Send(key=SEND, source=Source.REST, requested_at_ms=NOW_MS, type="news")


def counted(send: SendKey = SEND, *, changed: int = 10, requested: int = 4, **by_status: int) -> CountedSend:
    return CountedSend(
        send=send,
        type="news",
        requested_at=datetime(2023, 11, 14, 22, 13, 21, tzinfo=UTC),
        duplicates=1,
        counts=SendCounts(chunk_count=1, chunks=1, requested=requested, queued=requested, by_status=by_status),
        changed=changed,
    )


def expanded(users: int = 2, **values: Any) -> Expansion:
    return Expansion(chunks=1, users=users, requested=2 * users, ended_at_ms=NOW_MS, **values)


def place(each: CountedSend) -> Position:
    return Position(each.changed, each.send.send_id)


class Counts:
    """Counted sends in memory, in the order of their changes."""

    def __init__(self) -> None:
        self.sends: dict[SendKey, CountedSend] = {}
        # An error that every call raises; None: calls succeed.
        self.failing: Exception | None = None

    def end(self) -> Position:
        if self.failing is not None:
            raise self.failing
        return Position(max((each.changed for each in self.sends.values()), default=0) + 1, "")

    def since(self, position: Position | None, end: Position, clubs: Collection[int] | None, *, limit: int) -> Changes:
        if position is None:
            return Changes(sends=[], position=end, more=False)
        found = sorted(
            (
                each
                for each in self.sends.values()
                if position < place(each) < end and (clubs is None or each.send.club_id in clubs)
            ),
            key=place,
        )
        if len(found) > limit:
            return Changes(sends=found[:limit], position=place(found[limit - 1]), more=True)
        return Changes(sends=found, position=max(position, end), more=False)

    def find(self, send: SendKey) -> CountedSend | None:
        return self.sends.get(send)


class Setting:
    def __init__(self) -> None:
        self.webhooks = Webhooks()
        self.clock = self.webhooks.clock
        self.counts, self.register = Counts(), InMemorySends(self.clock)
        self.own = OwnEvents(self.webhooks, self.counts, self.register)
        self.sweep()

    def restarted(self) -> FindEvents:
        self.own.sends = self.register
        return self.own.restarted()

    def sweep(self, use_case: FindEvents | None = None) -> dict[str, int]:
        return (use_case or self.own.use_case).sweep(lambda: 60)

    def count(self, each: CountedSend) -> None:
        self.counts.sends[each.send] = each

    def put(self, **values: Any) -> None:
        """Register the send, and announce it."""
        self.register.put(replace(REQUESTED, **values))
        self.register.announce(SEND)

    def control(self, **fields: Any) -> None:
        self.register.control(SendControl(send=SEND, **fields))
        self.register.announce(SEND)

    def endpoint(self, endpoint: EndpointKey = KEY, **fields: Any) -> None:
        """Create an endpoint by a request."""
        self.webhooks.endpoint(endpoint, **fields)
        self.own.publish(endpoint)

    def events(self) -> list[dict[str, Any]]:
        return self.own.events()

    def types(self) -> list[str]:
        return [event["type"] for event in self.events()]


@pytest.fixture
def setting() -> Setting:
    return Setting()


def test_a_send_is_accepted_and_completed_once(setting: Setting) -> None:
    setting.count(counted())
    assert setting.sweep() == {"sends": 1, "events": 1}
    setting.count(counted(changed=11, sent=2))
    setting.sweep()
    assert setting.types() == ["send.accepted"]
    setting.count(counted(changed=12, sent=3, failed=1))
    setting.sweep()
    setting.count(counted(changed=13, sent=1, delivered=2, failed=1))
    setting.sweep()
    assert setting.types() == ["send.accepted", "send.completed"]
    assert setting.events()[1]["data"] == {
        "send_id": SEND.send_id,
        "club_id": 7,
        "type": "news",
        "reference": None,
        "mode": None,
        "status": "ended",
        "sequence": 4,
        "requested_at": "2023-11-14T22:13:21Z",
        "requested": 4,
        "duplicates": 1,
        "counts_known": True,
        "totals": {"failed": 1, "sent": 3},
        "links": {"self": f"/v1/sends/{SEND.send_id}"},
    }
    (accepted, _) = setting.own.produced_events()
    assert (accepted.club_id, accepted.key, accepted.occurred_at) == (7, SEND.send_id, NOW_MS)
    assert setting.own.received() == [(KEY, "send.accepted"), (KEY, "send.completed")]


def test_a_cancelled_send_has_one_end(setting: Setting) -> None:
    setting.count(counted(sent=1, cancelled=3))
    setting.sweep()
    assert setting.types() == ["send.accepted", "send.cancelled"]


def test_a_crash_repeats_and_loses_no_event(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    """The function is killed after Kafka has taken an event, and before it is recorded."""
    setting.count(counted())
    setting.count(counted(SendKey(7, "other"), changed=11))

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(setting.own.event_ids, "keep", killed)
        with pytest.raises(KeyboardInterrupt):
            setting.sweep()
    setting.clock.advance(5)
    for _ in range(2):
        setting.sweep(setting.restarted())
    produced = [each.event_id for each in setting.own.produced_events()]
    assert len(produced) == 4
    assert len(set(produced)) == 2


@pytest.mark.kills(guard="webhooks.recorded_event")
def test_an_event_that_kafka_refuses_is_produced_later(setting: Setting) -> None:
    setting.count(counted())
    setting.own.producer.fail = lambda topic, _: Retry("no broker answers") if topic == topics.EVENT else None
    with pytest.raises(Retry):
        setting.sweep()
    assert setting.own.event_ids.own == {}
    setting.own.producer.fail = lambda *_: None
    setting.sweep()
    assert setting.types() == ["send.accepted"]


@pytest.mark.guarantee("webhooks.own_tenant_only")
def test_events_of_a_send_reach_its_club_alone(setting: Setting) -> None:
    setting.endpoint(key(8))
    setting.endpoint(key(7, "b"), event_types=("send.completed",))
    setting.endpoint(key(7, "c"), event_types=("webhook.test",))
    setting.count(counted(sent=4))
    setting.sweep()
    reached = setting.own.received()
    assert sorted(reached) == sorted([(KEY, "send.accepted"), (KEY, "send.completed"), (key(7, "b"), "send.completed")])


def test_a_subscription_of_every_club_gets_events_of_sends(setting: Setting) -> None:
    """Another club has no endpoint: its sends are examined for the subscription."""
    explicit = Subscription(id="sub_1", endpoint=key(8), types=("send.completed",), club_ids=None)
    setting.webhooks.endpoint(key(8))
    setting.own.use_case.publishing.publish(setting.own.subscriptions.put(explicit, NOW_MS))
    setting.count(counted(SendKey(9, "s"), sent=4))
    setting.sweep()
    assert setting.own.received() == [(key(8), "send.completed")]


@pytest.mark.kills(guard="subscriptions.implicit")
def test_an_endpoint_of_an_earlier_version_gets_events(setting: Setting) -> None:
    """Nothing has published its subscription. The first sweep of an environment does so before it looks for events."""
    setting.webhooks.endpoint(key(9))
    setting.count(counted(SendKey(9, "s")))
    setting.sweep(setting.restarted())
    assert setting.own.received() == [(key(9), "send.accepted")]


@pytest.mark.kills(guard="subscriptions.endpoint_changed_meanwhile")
def test_an_endpoint_deleted_while_it_is_published_gets_nothing(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request publishes its deletion between the read and the record of the function."""
    of_club, deletions = setting.webhooks.endpoints.of_club, iter([KEY])

    def read(club_id: int) -> Any:
        found = of_club(club_id)
        for endpoint in deletions:
            setting.webhooks.endpoints.delete(endpoint)
            setting.own.publish(endpoint)
        return found

    monkeypatch.setattr(setting.webhooks.endpoints, "of_club", read)
    restarted = setting.restarted()
    setting.sweep(restarted)
    assert len(restarted.subscriptions.current()) == 0


def test_sends_of_clubs_without_endpoints_are_not_examined(setting: Setting) -> None:
    setting.count(counted(SendKey(9, "s"), sent=4))
    assert setting.sweep() == {"sends": 0, "events": 0}
    assert setting.events() == []


def test_pauses_are_events_of_their_own(setting: Setting) -> None:
    setting.count(counted())
    setting.control(paused_at_ms=1_700_000_000_500)
    setting.sweep()
    setting.control(resumed_at_ms=1_700_000_060_000)
    setting.sweep()
    setting.control(paused_at_ms=1_700_000_120_000, resumed_at_ms=1_700_000_060_000)
    setting.sweep()
    assert setting.types() == ["send.accepted", "send.paused", "send.resumed", "send.paused"]
    assert [event["data"]["status"] for event in setting.events()[1:]] == ["paused", "in_progress", "paused"]


def test_a_pause_of_an_uncounted_send_is_an_event(setting: Setting) -> None:
    """A scheduled send has no counts that change during its pause."""
    api = ControlApi()
    api.clock, api.register = setting.clock, setting.register
    api.connect()
    setting.register.put(replace(REQUESTED, send_at_ms=NOW_MS + 3_600_000))
    api.pause_route.answer(SEND.send_id, {}, OWN, None)
    setting.sweep()
    assert setting.types() == ["send.accepted", "send.paused"]


def test_a_cancelled_send_that_is_not_counted_is_cancelling(setting: Setting) -> None:
    setting.put(control=SendControl(send=SEND, cancelled_at_ms=1, revision=1))
    setting.sweep()
    assert [event["data"]["status"] for event in setting.events()] == ["cancelling"]


@pytest.mark.parametrize(
    ("event_type", "values", "control", "by_status"),
    [
        ("send.accepted", {}, {}, None),
        ("send.expanded", {"is_to_audience": True, "expansion": expanded()}, {}, None),
        ("send.paused", {}, {"paused_at_ms": NOW_MS, "revision": 1}, {"sent": 1}),
        ("send.resumed", {}, {"resumed_at_ms": NOW_MS, "revision": 2}, {"sent": 1}),
        ("send.completed", {}, {}, {"sent": 3, "failed": 1}),
        ("send.cancelled", {}, {"cancelled_at_ms": NOW_MS, "revision": 1}, {"sent": 1, "cancelled": 3}),
        ("send.failed", {"is_to_audience": True, "expansion": expanded(0, error="x")}, {}, None),
    ],
)
def test_an_example_is_like_the_produced_event(
    setting: Setting, event_type: str, values: Any, control: Any, by_status: Any
) -> None:
    setting.put(reference="order-4711", control=SendControl(send=SEND, **control), **values)
    if by_status is not None:
        setting.count(counted(**by_status))
    setting.sweep()
    (data,) = (event["data"] for event in setting.events() if event["type"] == event_type)
    example = OWN_EVENTS[event_type].example
    known = ("status", "sequence", "reference", "mode", "type", "links")
    assert data.keys() == example.keys()
    assert {name: data[name] for name in known} == {name: example[name] for name in known}
    assert by_status is None or data["totals"] == example["totals"]


@pytest.mark.parametrize(
    ("users", "error", "types"),
    [
        (3, None, ["send.accepted", "send.expanded"]),
        (0, None, ["send.accepted", "send.expanded", "send.completed"]),
        (0, "x", ["send.accepted", "send.failed"]),
    ],
)
def test_an_expansion_is_an_event(setting: Setting, users: int, error: str | None, types: list[str]) -> None:
    """That of a dead-lettered audience has an error, and can begin again."""
    setting.put(is_to_audience=True, expansion=expanded(users, error=error, can_begin_again=error is not None))
    setting.sweep()
    assert setting.types() == types
    assert setting.events()[1]["data"]["requested"] == 2 * users


def test_many_changes_are_read_in_pages(setting: Setting) -> None:
    for number in range(450):
        setting.count(counted(SendKey(7, f"s-{number:03d}"), changed=10 + number // 300))
    assert setting.sweep() == {"sends": 450, "events": 450}
    assert setting.sweep()["sends"] <= 1


def test_a_new_installation_begins_with_the_present(setting: Setting) -> None:
    setting.count(counted(sent=4))
    setting.register = InMemorySends(setting.clock)
    setting.sweep(setting.restarted())
    assert setting.events() == []
    setting.count(replace(counted(sent=4), changed=99))
    setting.sweep(setting.restarted())
    assert setting.types() == ["send.accepted", "send.completed"]


def test_an_event_has_reference_and_mode(setting: Setting) -> None:
    setting.put(reference="order-4711", is_test=True)
    setting.sweep()
    (event,) = setting.events()
    assert event["type"] == "send.accepted"
    data = event["data"]
    assert (data["reference"], data["mode"], data["type"]) == ("order-4711", "test", "news")
    assert data["requested_at"] == "2023-11-14T22:13:20Z"


@pytest.mark.kills(guard="tenancy.registered_send")
def test_another_tenants_reference_is_not_in_an_event(setting: Setting) -> None:
    setting.register.put(
        Send(key=SendKey(8, SEND.send_id), source=Source.REST, requested_at_ms=NOW_MS, reference="theirs")
    )
    setting.count(counted())
    setting.sweep()
    assert [event["data"]["reference"] for event in setting.events()] == [None]


@pytest.mark.guarantee("webhooks.sequence_follows_states")
def test_sequences_follow_the_states_of_a_send(setting: Setting) -> None:
    """Also those of events that one sweep finds."""
    setting.put(is_to_audience=True, expansion=expanded())
    setting.control(paused_at_ms=NOW_MS + 1)
    setting.sweep()
    setting.clock.advance(60)
    setting.control(resumed_at_ms=NOW_MS + 2, revision=2)
    setting.count(counted(sent=4))
    setting.sweep()
    events = setting.events()
    assert [event["type"] for event in events] == [
        *("send.accepted", "send.expanded", "send.paused", "send.resumed", "send.completed")
    ]
    sequences = [event["data"]["sequence"] for event in events]
    assert sequences == sorted(set(sequences))


def test_a_pause_during_the_end_is_below_the_end(setting: Setting) -> None:
    """The pause was requested while the end was not counted, and is found after the end."""
    setting.count(counted(sent=4))
    setting.sweep()
    setting.control(paused_at_ms=NOW_MS + 1)
    setting.sweep()
    by_type = {event["type"]: event["data"]["sequence"] for event in setting.events()}
    assert by_type["send.paused"] < by_type["send.completed"]


@pytest.mark.kills(guard="webhooks.earlier_event")
@pytest.mark.parametrize("began", ["created", "enabled"])
@pytest.mark.parametrize("recorded", [True, False])
def test_events_before_an_endpoint_are_not_its_own(setting: Setting, began: str, *, recorded: bool) -> None:
    """The send is accepted before an endpoint is created or enabled, and completed afterwards."""
    if recorded:
        setting.endpoint(key(7, "b"))
    setting.webhooks.endpoints.delete(KEY)
    setting.own.publish(KEY)
    setting.count(counted())
    setting.clock.advance(5)
    setting.sweep()
    setting.clock.advance(5)
    now_ms = setting.clock.now_ms()
    setting.endpoint(KEY, **({} if began == "created" else {"enabled_at_ms": now_ms}))
    if began == "enabled":
        setting.webhooks.endpoints.stored[KEY] = replace(setting.webhooks.stored(), created_at_ms=1)
        setting.own.publish(KEY)
    setting.count(counted(changed=20, sent=4))
    setting.sweep(setting.restarted())
    assert [event_type for endpoint, event_type in setting.own.received() if endpoint == KEY] == ["send.completed"]


def test_a_flood_of_changes_delays_no_other_tenants_event(setting: Setting) -> None:
    """One tenant changes more sends than a batch has, all the time."""
    setting.endpoint(key(9))
    for number in range(1_000):
        setting.register.announce(SendKey(7, f"s{number}"))
    other = SendKey(9, "z")
    setting.register.put(Send(key=other, source=Source.REST, requested_at_ms=NOW_MS))
    setting.register.announce(other)
    setting.sweep()
    assert setting.own.received() == [(key(9), "send.accepted")]


def test_a_flood_of_controls_leaves_time_for_counts(setting: Setting) -> None:
    """Controls take the time of half an invocation, and counts are examined then."""
    setting.counts.sends[SEND] = counted(sent=4)
    for number in range(400):
        setting.register.announce(SendKey(7, f"s{number}"))
    seconds = iter([60.0, 31.0, 29.0, 28.0])
    setting.own.use_case.sweep(lambda: next(seconds, 14.0))
    assert len(setting.register.changed) == 200
    assert "send.completed" in setting.types()


def test_an_expansion_of_a_counted_send_is_an_event(setting: Setting) -> None:
    """Its chunks are counted before the send is examined."""
    setting.put(is_to_audience=True, expansion=expanded())
    setting.count(counted(sent=4))
    setting.sweep()
    assert setting.types() == ["send.accepted", "send.expanded", "send.completed"]


def test_an_endpoint_created_during_a_sweep_misses_nothing(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    """A send is counted as ended just after its club's first endpoint was created, while a sweep runs."""
    end = setting.counts.end

    def created_meanwhile() -> Position:
        setting.endpoint(key(9))
        setting.count(counted(SendKey(9, "new"), changed=50, sent=4))
        return end()

    with monkeypatch.context() as patched:
        patched.setattr(setting.counts, "end", created_meanwhile)
        setting.sweep()
    setting.sweep()
    assert [event["data"]["send_id"] for event in setting.events()] == ["new", "new"]


@pytest.mark.kills(guard="webhooks.unreadable_control")
def test_unreadable_control_delays_the_events_of_its_send_alone(setting: Setting) -> None:
    other = SendKey(7, "0b1c2d3e-0000-4000-8000-000000000007")
    setting.control(fault="damaged")
    for send in (SEND, other):
        setting.count(counted(send, changed=10 + (send == other)))
    setting.sweep()
    assert [event["data"]["send_id"] for event in setting.events()] == [other.send_id]
    setting.register.control(SendControl(send=SEND))
    setting.sweep()
    assert {event["data"]["send_id"] for event in setting.events()} == {SEND.send_id, other.send_id}


def test_unreadable_control_of_a_counted_send_loses_no_event(setting: Setting) -> None:
    setting.register.control(SendControl(send=SEND, fault="damaged"))
    setting.count(counted())
    setting.sweep()
    assert setting.events() == []
    setting.register.control(SendControl(send=SEND))
    setting.sweep()
    assert setting.types() == ["send.accepted"]


@pytest.mark.kills(guard="webhooks.expired_event")
@pytest.mark.parametrize("registered", [True, False])
def test_event_with_an_expired_record_is_not_repeated(setting: Setting, *, registered: bool) -> None:
    """The send is paused long after its event was recorded, with other numbers."""
    setting.clock.advance(WEBHOOK_EVENTS_FOUND_S + 60)
    setting.count(counted(sent=1))
    if registered:
        setting.put()
    setting.control(paused_at_ms=setting.clock.now_ms())
    setting.sweep()
    assert setting.types() == ["send.paused"]


@pytest.mark.kills(guard="webhooks.expired_event")
@pytest.mark.parametrize(
    "times",
    [{}, {"send_at_ms": NOW_MS + 60_000}, {"control": SendControl(send=SEND, resumed_at_ms=NOW_MS, revision=2)}],
)
def test_end_with_an_expired_record_is_not_repeated(setting: Setting, times: dict[str, Any]) -> None:
    setting.put(**times)
    setting.clock.advance(WEBHOOK_EVENTS_FOUND_S + 120)
    setting.count(counted(sent=4))
    setting.sweep()
    assert setting.types() == []


@pytest.mark.parametrize(
    "times", [{"send_at_ms": LATER_MS}, {"control": SendControl(send=SEND, resumed_at_ms=LATER_MS, revision=2)}]
)
def test_late_end_of_a_send_is_announced(setting: Setting, times: dict[str, Any]) -> None:
    setting.put(**times)
    setting.clock.advance(WEBHOOK_EVENTS_FOUND_S + 120)
    setting.count(counted(sent=4))
    setting.sweep()
    assert "send.completed" in setting.types()


def test_events_of_the_register_need_no_counts(setting: Setting) -> None:
    setting.count(counted(sent=4))
    setting.put(is_to_audience=True, expansion=expanded(0, error="why"))
    setting.counts.failing = Retry("Postgres does not answer")
    with pytest.raises(Retry):
        setting.sweep()
    assert setting.types() == ["send.accepted", "send.failed"]
    data = setting.events()[1]["data"]
    assert (data["counts_known"], data["totals"], data["duplicates"]) == (False, None, None)


@pytest.mark.kills(guard="webhooks.unknown_send")
def test_a_send_that_only_counts_know_waits_for_them(setting: Setting) -> None:
    setting.count(counted())
    setting.sweep()
    setting.control(paused_at_ms=NOW_MS)
    setting.counts.failing = Retry("Postgres does not answer")
    with pytest.raises(Retry):
        setting.sweep()
    assert setting.types() == ["send.accepted"]
    setting.counts.failing = None
    setting.sweep()
    assert setting.types() == ["send.accepted", "send.paused"]


def test_a_send_of_which_only_the_control_is_left_has_no_event(setting: Setting) -> None:
    setting.control(paused_at_ms=NOW_MS)
    assert setting.sweep()["events"] == 0
    assert setting.register.changed == {}
