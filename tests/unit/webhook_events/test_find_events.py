"""The changes of sends become events, each once, for the endpoints of the send's club."""

import json
from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from functions.webhook_events.find_events import FindEvents
from functions.webhook_events.send_counts import Changes, CountedSend
from masscomm.domain.send_states import SendCounts
from masscomm.domain.time_limits import CHANGED_SENDS_SETTLE_S
from masscomm.stores.changed_sends import ChangedSend, InMemoryChangedSends, Position
from masscomm.stores.expansions import Expansion, InMemoryExpansions
from masscomm.stores.send_controls import Cancellation, InMemorySendControls, SendControl, SendKey
from tests.support.harness.webhooks import KEY, Webhooks, key

SEND = SendKey(7, "8a6e0804-2bd0-4672-b79d-d97027f9071a")


def counted(send: SendKey = SEND, *, changed: int = 10, requested: int = 4, **by_status: int) -> CountedSend:
    return CountedSend(
        send=send,
        type="news",
        requested_at=datetime(2023, 11, 14, 22, tzinfo=UTC),
        duplicates=1,
        counts=SendCounts(chunk_count=1, chunks=1, requested=requested, queued=requested, by_status=by_status),
        changed=changed,
    )


def place(each: CountedSend) -> Position:
    return Position(each.changed, each.send.send_id)


class Counts:
    """Counted sends in memory, in the order of their changes."""

    def __init__(self) -> None:
        self.sends: dict[SendKey, CountedSend] = {}

    def since(self, position: Position | None, clubs: Collection[int], *, limit: int) -> Changes:
        end = Position(max((each.changed for each in self.sends.values()), default=0) + 1, "")
        if position is None:
            return Changes(sends=[], position=end, more=False)
        found = sorted(
            (each for each in self.sends.values() if place(each) > position and each.send.club_id in clubs), key=place
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
        self.counts, self.changed = Counts(), InMemoryChangedSends()
        self.controls, self.expansions = InMemorySendControls(), InMemoryExpansions()
        self.use_case = self.restarted()
        self.use_case.sweep()

    def restarted(self) -> FindEvents:
        return FindEvents(
            counts=self.counts,
            changed=self.changed,
            controls=self.controls,
            expansions=self.expansions,
            endpoints=self.webhooks.endpoints,
            deliveries=self.webhooks.deliveries,
            clock=self.clock,
        )

    def count(self, each: CountedSend) -> None:
        self.counts.sends[each.send] = each

    def control(self, **fields: Any) -> None:
        self.changed.put(ChangedSend(send=SEND, changed_at_ms=self.clock.now_ms()))
        self.controls.controls[SEND] = SendControl(send=SEND, revision=1, **fields)

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(event.body) for event in self.webhooks.deliveries.events.values()]

    def types(self) -> list[str]:
        return [event["type"] for event in self.events()]


@pytest.fixture
def setting() -> Setting:
    return Setting()


def test_a_send_is_accepted_and_completed_once(setting: Setting) -> None:
    setting.count(counted())
    assert setting.use_case.sweep() == {"sends": 1, "deliveries": 1}
    setting.count(counted(changed=11, sent=2))
    setting.use_case.sweep()
    assert setting.types() == ["send.accepted"]
    setting.count(counted(changed=12, sent=3, failed=1))
    setting.use_case.sweep()
    setting.count(counted(changed=13, sent=1, delivered=2, failed=1))
    setting.use_case.sweep()
    assert setting.types() == ["send.accepted", "send.completed"]
    assert setting.events()[1]["data"] == {
        "send_id": SEND.send_id,
        "club_id": 7,
        "type": "news",
        "status": "ended",
        "requested_at": "2023-11-14T22:00:00Z",
        "requested": 4,
        "duplicates": 1,
        "totals": {"failed": 1, "sent": 3},
    }
    setting.webhooks.sweep()
    assert len(setting.webhooks.http.requests) == 2


def test_a_cancelled_send_has_one_end(setting: Setting) -> None:
    setting.count(counted(sent=1, cancelled=3))
    setting.use_case.sweep()
    assert setting.types() == ["send.accepted", "send.cancelled"]


def test_a_crash_repeats_and_loses_no_event(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    setting.count(counted())
    other = SendKey(7, "other")
    setting.count(counted(other, changed=11))
    add = setting.webhooks.deliveries.add
    added: list[Any] = []

    def killed(delivery: Any) -> Any:
        if added:
            raise KeyboardInterrupt
        added.append(add(delivery))
        return added[0]

    with monkeypatch.context() as patched:
        patched.setattr(setting.webhooks.deliveries, "add", killed)
        with pytest.raises(KeyboardInterrupt):
            setting.use_case.sweep()
    setting.clock.advance(5)
    setting.restarted().sweep()
    assert sorted(event["data"]["send_id"] for event in setting.events()) == sorted([SEND.send_id, "other"])
    assert len(setting.webhooks.deliveries.stored) == 2
    setting.restarted().sweep()
    assert len(setting.webhooks.deliveries.stored) == 2


def test_events_of_a_send_reach_its_club_alone(setting: Setting) -> None:
    setting.webhooks.endpoint(key(8))
    setting.webhooks.endpoint(key(7, "b"), event_types=("send.completed",))
    setting.webhooks.endpoint(key(7, "c"), enabled=False)
    setting.count(counted(sent=4))
    setting.use_case.sweep()
    reached = [(each.endpoint, each.event_type) for each in setting.webhooks.deliveries.stored.values()]
    assert sorted(reached) == sorted([(KEY, "send.accepted"), (KEY, "send.completed"), (key(7, "b"), "send.completed")])


def test_sends_of_clubs_without_endpoints_are_not_examined(setting: Setting) -> None:
    setting.count(counted(SendKey(9, "s"), sent=4))
    assert setting.use_case.sweep() == {"sends": 0, "deliveries": 0}
    assert setting.events() == []


def test_pauses_are_events_of_their_own(setting: Setting) -> None:
    setting.count(counted())
    setting.control(paused_at_ms=1_700_000_000_000)
    setting.use_case.sweep()
    setting.control(resumed_at_ms=1_700_000_060_000)
    setting.use_case.sweep()
    setting.control(paused_at_ms=1_700_000_120_000, resumed_at_ms=1_700_000_060_000)
    setting.use_case.sweep()
    assert setting.types() == ["send.accepted", "send.paused", "send.resumed", "send.paused"]
    assert [event["data"]["status"] for event in setting.events()[1:]] == ["paused", "in_progress", "paused"]


def test_a_control_that_is_stored_late_is_an_event(setting: Setting) -> None:
    """The request has recorded that it will change the send, and stores the control later."""
    setting.count(counted())
    setting.changed.put(ChangedSend(send=SEND, changed_at_ms=setting.clock.now_ms()))
    setting.use_case.sweep()
    setting.controls.controls[SEND] = SendControl(send=SEND, revision=1, paused_at_ms=1_700_000_000_000)
    setting.clock.advance(CHANGED_SENDS_SETTLE_S + 1)
    setting.use_case.sweep()
    assert setting.types() == ["send.accepted", "send.paused"]
    assert setting.changed.stored == {}


def test_a_cancelled_send_that_is_not_counted_is_cancelling(setting: Setting) -> None:
    setting.controls.record(Cancellation(send=SEND, requested_at_ms=1, published_before=0))
    setting.changed.put(ChangedSend(send=SEND, changed_at_ms=setting.clock.now_ms()))
    setting.use_case.sweep()
    assert [event["data"]["status"] for event in setting.events()] == ["cancelling"]


@pytest.mark.parametrize(
    ("expansion", "types"),
    [
        (Expansion(send=SEND, chunks=1, users=3, requested=6), ["send.accepted", "send.expanded"]),
        (Expansion(send=SEND, chunks=0, users=0, requested=0), ["send.accepted", "send.expanded", "send.completed"]),
        (Expansion(send=SEND, chunks=0, users=0, requested=0, error="x"), ["send.accepted", "send.failed"]),
    ],
)
def test_an_expansion_is_an_event(setting: Setting, expansion: Expansion, types: list[str]) -> None:
    setting.expansions.end(expansion, now_ms=1)
    setting.changed.put(ChangedSend(send=SEND, changed_at_ms=setting.clock.now_ms()))
    setting.use_case.sweep()
    assert setting.types() == types
    assert setting.events()[1]["data"]["requested"] == expansion.requested


def test_many_changes_are_read_in_pages(setting: Setting) -> None:
    for number in range(450):
        setting.count(counted(SendKey(7, f"s-{number:03d}"), changed=10 + number // 300))
    assert setting.use_case.sweep() == {"sends": 450, "deliveries": 450}
    assert setting.use_case.sweep()["sends"] <= 1


def test_a_new_installation_begins_with_the_present(setting: Setting) -> None:
    setting.count(counted(sent=4))
    setting.changed = InMemoryChangedSends()
    setting.restarted().sweep()
    assert setting.events() == []
    setting.count(replace(counted(sent=4), changed=99))
    setting.restarted().sweep()
    assert setting.types() == ["send.accepted", "send.completed"]
