"""Sends without counts: metrics have not counted them yet, or the metrics database does not answer."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from functions.sends_api.routes.sends import SendsRoute
from functions.webhook_events.send_counts import Changes, CountedSend
from masscomm.domain.send_states import FINAL, SendState
from masscomm.domain.sends import Expansion, Send, SendControl, SendKey, Source
from masscomm.errors import Retry
from masscomm.http.parameters import time_of_ms
from masscomm.http.problem import Problem
from masscomm.http.tenant import ALL_CLUBS, Clubs
from masscomm.stores.metrics.in_memory import InMemoryMetricsStore
from masscomm.stores.sends.port import Position
from tests.support.harness.control_api import OWN, ControlApi
from tests.support.harness.own_events import OwnEvents
from tests.support.harness.webhooks import Webhooks

KEY, OTHER = SendKey(7, "s"), Clubs(frozenset({8}))
HOUR = 3_600_000


class Unanswering(InMemoryMetricsStore):
    """A metrics store that does not answer."""

    def __getattribute__(self, name: str) -> Any:
        if name in ("send", "counted", "list_sends", "position", "published_since"):
            raise Retry("Postgres does not answer")
        return super().__getattribute__(name)


class Api(ControlApi):
    """The routes of send `s` in the register, which is counted or not, or whose counts are unknown."""

    def __init__(self, counts: str = "unknown", **values: Any) -> None:
        super().__init__()
        if counts == "unknown":
            self.store = Unanswering()
        elif counts == "none":
            self.store.sends.clear()
        self.connect()
        self.put(**values)

    def put(self, **values: Any) -> None:
        send = Send(key=KEY, source=Source.REST, requested_at_ms=self.clock.now_ms(), type="news", users=200)
        self.register.put(replace(send, **{"channels": ("push",)} | values))

    def get(self, send_id: str = "s", clubs: Clubs = OWN) -> Any:
        return self.send_route.answer(send_id, {}, clubs)

    def listed(self, clubs: Clubs = OWN) -> Any:
        return SendsRoute(self.store, self.register, self.clock).answer({}, clubs)

    def pause(self, send_id: str = "s", clubs: Clubs = OWN) -> Any:
        return self.pause_route.answer(send_id, {}, clubs, None)

    def resume(self, send_id: str = "s", clubs: Clubs = OWN) -> Any:
        return self.resume_route.answer(send_id, {}, clubs, None)

    def move(self, send_id: str = "s", clubs: Clubs = OWN) -> Any:
        content = f'{{"send_at": "{time_of_ms(self.clock.now_ms() + 2 * HOUR)}"}}'
        return self.reschedule_route.answer(send_id, {}, clubs, content)

    def routes(self, send_id: str = "s", clubs: Clubs = OWN) -> Mapping[str, Callable[[], Any]]:
        return {
            "get": lambda: self.get(send_id, clubs),
            "cancel": lambda: self.cancel(send_id, clubs=clubs),
            "pause": lambda: self.pause(send_id, clubs),
            "resume": lambda: self.resume(send_id, clubs),
            "move": lambda: self.move(send_id, clubs),
        }

    def later(self, **changes: Any) -> None:
        """Change the registered send."""
        self.register.put(replace(self.register.sends["s"], **changes))


def status_of(call: Callable[[], Any]) -> int:
    """Return the status of a response; 0 of one that succeeds, 503 of one that is repeated."""
    try:
        call()
    except Problem as problem:
        return problem.status
    except Retry:
        return 503
    return 0


def ended(requested: int = 0, error: str | None = None) -> Expansion:
    return Expansion(chunks=0, users=requested, requested=requested, ended_at_ms=1, error=error)


def test_list_of_every_club_notes_that_sends_are_missing() -> None:
    body = Api().listed(ALL_CLUBS)
    assert (body["rows"], body["counts_known"], body["registered_listed"]) == ([], False, False)


@pytest.mark.guarantee("cancelling.needs_no_counts")
def test_sends_are_shown_and_controlled_without_counts() -> None:
    api = Api()
    api.later(send_at_ms=api.clock.now_ms() + HOUR)
    body = api.get()
    assert (body["status"], body["requested"], body["counts_known"]) == ("scheduled", 200, False)
    for name in ("duplicates", "channels", "totals", "conservation", "watermark"):
        assert body[name] is None
    assert body["chunks"] == {"expected": None, "counted": None}
    assert api.move()["status"] == "scheduled"
    assert api.pause()["published_before"] is None
    assert api.get()["status"] == "paused"
    api.resume()
    assert api.cancel()["published_before"] is None
    cancellation = api.get()["cancellation"]
    assert (cancellation["published_before"], cancellation["published_since"]) == (None, None)
    (row,) = api.listed()["rows"]
    assert (row["status"], row["published"], row["cancelled"], row["in_flight"]) == ("cancelling", None, None, None)


def test_the_number_of_requested_notifications_may_be_unknown() -> None:
    """Of a send by Kafka in several chunks, no record has the number of users."""
    api = Api(source=Source.KAFKA, users=None, channels=(), chunks=4)
    assert (api.get()["requested"], api.listed()["rows"][0]["requested"]) == (None, None)


def test_the_list_has_the_listed_sends_without_counts() -> None:
    api = Api()
    api.register.put(Send(key=SendKey(7, "small"), source=Source.REST, requested_at_ms=api.clock.now_ms(), users=1))
    body = api.listed()
    assert ([row["send_id"] for row in body["rows"]], body["counts_known"]) == (["s"], False)
    assert (body["watermark"], body["truncated"]) == (None, False)


def test_a_send_that_only_counts_know_is_a_503_without_them() -> None:
    api = Api()
    api.register.sends.clear()
    assert {status_of(each) for each in api.routes().values()} == {503}
    api.register.control(SendControl(send=KEY, paused_at_ms=1))
    assert {status_of(each) for each in api.routes().values()} == {503}


def test_an_uncounted_send_by_kafka_is_cancelled() -> None:
    api = Api("none", source=Source.KAFKA, users=None, channels=(), chunks=3)
    assert api.cancel()["published_before"] == 0
    assert api.get()["status"] == "cancelling"


@pytest.mark.parametrize("counts", ["none", "unknown"])
@pytest.mark.parametrize("error", [None, "the query is invalid"])
def test_failed_and_empty_audiences_are_not_controlled(counts: str, error: str | None) -> None:
    api = Api(counts, is_to_audience=True, users=None, expansion=ended(error=error))
    statuses = {name: status_of(call) for name, call in api.routes().items()}
    assert statuses == {"get": 0, "cancel": 409, "pause": 409, "resume": 409, "move": 409}
    assert api.register.changed == {}


@pytest.mark.parametrize("registered", [None, "control", "send"])
@pytest.mark.parametrize("counts", ["counted", "none", "unknown"])
def test_another_tenants_send_is_a_404(registered: str | None, counts: str) -> None:
    """Also if the counts have the id for another tenant than the register. An unknown send has the same response."""
    api = Api(counts)
    if registered != "send":
        api.register.sends.clear()
    if registered == "control":
        api.register.control(SendControl(send=KEY, paused_at_ms=1))
    unregistered = registered != "send" and counts == "unknown"
    expected = {503} if unregistered else {404}
    assert {status_of(each) for each in api.routes(clubs=OTHER).values()} == expected
    assert {status_of(each) for each in api.routes("unknown").values()} == ({503} if counts == "unknown" else {404})
    assert api.listed(OTHER)["rows"] == []


# --- one state everywhere ---------------------------------------------------------------------------------------------

COUNTED: Mapping[str, dict[str, int]] = {
    "accepted": {},
    "scheduled": {"scheduled": 100},
    "in_progress": {"sent": 40},
    "ended": {"sent": 100},
    "cancelled": {"sent": 40, "cancelled": 60},
}
CONTROLS: Mapping[str, dict[str, Any]] = {
    "none": {},
    "paused": {"paused_at_ms": 1_700_000_000_000},
    "resumed": {"resumed_at_ms": 1_700_000_000_000},
    "cancelled": {"cancelled_at_ms": 1_700_000_000_000},
    "moved": {"send_at_ms": 1_700_000_000_000 + 5 * HOUR},
}
REGISTERED: Mapping[str, dict[str, Any]] = {
    "whole": {},
    "scheduled": {"send_at_ms": 1_700_000_000_000 + HOUR},
    "expanding": {"is_to_audience": True},
    "expanded": {"is_to_audience": True, "expansion": ended(100)},
    "empty": {"is_to_audience": True, "expansion": ended()},
    "failed": {"is_to_audience": True, "expansion": ended(error="why")},
}


class Counts:
    """The counts of the store, as the events of webhooks read them."""

    def __init__(self, api: Api) -> None:
        self.api = api

    def end(self) -> Position:
        self.find(KEY)
        return Position(1, "")

    def since(self, position: Position | None, end: Position, clubs: Collection[int] | None, *, limit: int) -> Changes:
        return Changes(sends=[], position=position or end, more=False)

    def find(self, send: SendKey) -> CountedSend | None:
        found = self.api.store.send(send.send_id)
        if found is None:
            return None
        return CountedSend(
            send=send, type="news", requested_at=found.requested_at, duplicates=0, counts=found.counts, changed=1
        )


def states(api: Api) -> Iterator[str]:
    """Yield the state that each reader of a send reports. The list has it also by status."""
    body = api.get()
    yield body["status"]
    yield from (row["status"] for row in api.listed()["rows"])
    status = body["status"]
    for name in SendState:
        found = SendsRoute(api.store, api.register, api.clock).answer({"status": [name]}, OWN)["rows"]
        assert [row["status"] for row in found] == ([name] if name == status else [])
    webhooks = Webhooks()
    webhooks.clock = api.clock
    own = OwnEvents(webhooks, Counts(api), api.register)
    api.register.announce(KEY)
    with suppress(Retry):  # It is raised after the events of the register are produced.
        own.use_case.sweep(lambda: 60)
    for event in own.events():
        yield event["data"]["status"]
    control = api.register.sends["s"].control
    if not control.cancelled:
        assert status_of(api.pause) == (409 if body["status"] in FINAL else 0)


@pytest.mark.parametrize("registered", REGISTERED)
def test_every_reader_of_a_send_reports_one_state(registered: str) -> None:
    for counts, control in product(["none", "unknown", *COUNTED], CONTROLS):
        api = Api("none" if counts in COUNTED else counts, **REGISTERED[registered])
        if counts in COUNTED:
            api.count(**COUNTED[counts])
        if CONTROLS[control]:
            api.register.control(SendControl(send=KEY, **CONTROLS[control]))
        assert len(set(states(api))) == 1, (registered, counts, control)
