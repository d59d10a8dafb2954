"""The long poll for a send's changes over stores in memory, with a clock that sleep() advances."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from functions.sends_api.routes.send import SendRoute
from functions.sends_api.routes.send_events import SendEventsRoute
from masscomm.clock import FixedClock
from masscomm.domain.sends import SendControl, SendKey
from masscomm.domain.time_limits import STREAM_RESERVE_S, STREAM_RETRY_AFTER_S
from masscomm.http.problem import Problem
from masscomm.http.tenant import ALL_CLUBS, Clubs
from masscomm.operations.waiting import Waiting
from masscomm.stores.metrics.in_memory import InMemoryMetricsStore
from masscomm.stores.metrics.port import ChannelTotals, SendTotals
from masscomm.stores.request_slots.in_memory import InMemoryRequestSlots
from masscomm.stores.sends.in_memory import InMemorySends

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


class Send(FixedClock):
    """A send of club 1 to three recipients behind the route; sleep() also runs the planned calls that are due."""

    def __init__(self) -> None:
        super().__init__(int(NOON.timestamp() * 1000))
        self.slots, self.register = InMemoryRequestSlots(), InMemorySends()
        self.store = InMemoryMetricsStore(watermark=NOON)
        self.slept = 0.0
        self.planned: list[tuple[float, Callable[[], None]]] = []
        self.count(0)

    def count(self, sent: int) -> None:
        self.store.sends["s"] = SendTotals(
            send_id="s",
            club_id=1,
            type="news",
            requested_at=NOON,
            chunk_count=1,
            chunks=1,
            channels={"push": ChannelTotals(3, 0, sent, {"sent": {"": sent}})},
            watermark=datetime.fromtimestamp(self.now_ms() / 1000, UTC),
        )

    def pause_send(self) -> None:
        key = SendKey(1, "s")
        self.register.control(SendControl(send=key, paused_at_ms=self.now_ms()))

    def sleep(self, seconds: float) -> None:
        self.slept += seconds
        self.advance(seconds)
        while due := [each for each in self.planned if self.slept >= each[0]]:
            self.planned.remove(due[0])
            due[0][1]()

    def ask(
        self,
        after: str = "",
        more: dict[str, str] | None = None,
        *,
        clubs: Clubs = ALL_CLUBS,
        remaining_s: float = 29.0,
    ) -> Any:
        query = ({"after": after} if after else {}) | (more or {})
        parameters = {name: [value] for name, value in query.items()}
        route = SendEventsRoute(SendRoute(self.store, self.register, self), Waiting(self, self.slots, 2))
        return route.answer("s", parameters, clubs, caller="key", remaining_s=remaining_s)


@pytest.fixture
def send() -> Send:
    return Send()


def test_a_request_without_a_version_returns_at_once(send: Send) -> None:
    answer = send.ask()
    assert (answer["changed"], answer["complete"], answer["send"]["requested"], send.slept) == (True, False, 3, 0)
    assert send.slots.calls == 0


@pytest.mark.parametrize("change", ["count", "pause"])
def test_a_change_ends_the_wait(send: Send, change: str) -> None:
    before = send.ask()["version"]
    send.planned.append((6.0, {"count": lambda: send.count(2), "pause": send.pause_send}[change]))
    answer = send.ask(before)
    assert (answer["changed"], answer["version"] != before, send.slept) == (True, True, 6.0)
    assert answer["send"]["totals"]["sent"] == (2 if change == "count" else 0)
    assert send.slots.taken == {}


def test_counting_without_a_change_does_not_end_the_wait(send: Send) -> None:
    before = send.ask()["version"]
    send.planned.append((3.0, lambda: send.count(0)))
    assert send.ask(before) == {"version": before, "changed": False, "complete": False, "send": None}
    assert send.slept == 20
    send.ask(before, {"wait": "2"})
    assert send.slept == 22


def test_another_process_continues_with_the_same_version(send: Send) -> None:
    assert send.ask()["version"] == Send().ask()["version"]


def test_an_ended_send_is_answered_at_once(send: Send) -> None:
    send.count(3)
    ended = send.ask()
    assert (ended["complete"], ended["send"]["complete"]) == (True, True)
    assert send.ask(ended["version"])["changed"] is False
    assert (send.slept, send.slots.calls) == (0, 0)


def test_a_poll_ends_before_its_invocation(send: Send) -> None:
    before = send.ask()["version"]
    send.ask(before, remaining_s=STREAM_RESERVE_S + 3)
    assert send.slept == 3


def test_the_send_of_another_tenant_is_unknown(send: Send) -> None:
    """An unknown send gets the same answer, and no request waits for one to appear."""
    problems = []
    for found in (send.store.sends, {}):
        send.store.sends = found
        with pytest.raises(Problem) as raised:
            send.ask("version", clubs=Clubs(frozenset({2})))
        problems.append(raised.value.body())
    assert problems[0] == problems[1]
    assert (problems[0]["status"], send.slept) == (404, 0)


def test_a_caller_has_a_bounded_number_of_waits(send: Send) -> None:
    before = send.ask()["version"]
    refused: list[Problem] = []

    def third() -> None:
        with pytest.raises(Problem) as raised:
            send.ask(before)
        refused.append(raised.value)

    send.planned = [(0.5, lambda: send.ask(before, {"wait": "5"})), (1.0, third)]
    send.ask(before)
    assert [(each.status, each.retry_after_s) for each in refused] == [(429, STREAM_RETRY_AFTER_S)]


@pytest.mark.parametrize("wrong", ["wait", "colour"])
def test_an_invalid_parameter_is_named(send: Send, wrong: str) -> None:
    with pytest.raises(Problem) as raised:
        send.ask("", {wrong: "21"})
    assert (raised.value.status, raised.value.errors[0].field) == (400, wrong)
