"""The overview: each part by its own scope and for the caller's clubs, and without the servers of other parts."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from functions.operations_handler.routes.alarms import AlarmsRoute
from functions.operations_handler.routes.dead_letters import DeadLettersRoute
from functions.operations_handler.routes.overview import CLUBS, READ, ROWS, OverviewRoute
from masscomm.clock import FixedClock
from masscomm.domain.grains import Grain
from masscomm.domain.sends import Send, SendKey, Source
from masscomm.errors import Retry
from masscomm.http.problem import Problem
from masscomm.http.scopes import ALL_SCOPES, Scope
from masscomm.http.tenant import ALL_CLUBS, Clubs
from masscomm.kafka.avro import Codec
from masscomm.operations.alarms import Alarm, AlarmState, InMemoryAlarms
from masscomm.operations.dead_letter_store import InMemoryDeadLetters
from masscomm.operations.health import DirectoryAge, InMemoryHealth, Lag
from masscomm.operations.send_lists import SendLists
from masscomm.stores.metrics.in_memory import InMemoryMetricsStore, StoredCount
from masscomm.stores.metrics.port import Bounds, ChannelTotals, SendTotals
from masscomm.stores.sends.in_memory import InMemorySends
from masscomm.texts import Text
from tests.support.harness.operations_api import LETTERS_AT, letter, registry, webhooks_route

NOON = datetime(2026, 11, 21, 12, 30, tzinfo=UTC)
CLOCK = FixedClock(round(NOON.timestamp() * 1000))
OWN = Clubs(frozenset({1}))
READER = frozenset({Scope.READ})


def a_send(send_id: str, minutes_ago: int, club_id: int = 1, **by_status: int) -> SendTotals:
    return SendTotals(
        send_id=send_id,
        club_id=club_id,
        type="news",
        requested_at=NOON - timedelta(minutes=minutes_ago),
        chunk_count=1,
        chunks=1,
        channels={"push": ChannelTotals(10, 0, 10, {status: {"": number} for status, number in by_status.items()})},
        watermark=NOON,
    )


def a_count(measure: str, number: int, *, hours_ago: int = 1, club_id: int = 1) -> StoredCount:
    bucket = NOON.replace(minute=0) - timedelta(hours=hours_ago)
    return StoredCount(
        granularity=Grain.HOUR,
        bucket=bucket,
        club_id=club_id,
        type="news",
        channel="push",
        measure=measure,
        count_total=number,
    )


def an_alarm(name: str, state: AlarmState) -> Alarm:
    return Alarm(name=name, state=state, since_ms=CLOCK.now_ms(), description="", runbook=None)


@dataclass
class Overview:
    """The route over stores in memory, which a test changes."""

    store: InMemoryMetricsStore = field(default_factory=lambda: InMemoryMetricsStore(watermark=NOON))
    register: InMemorySends = field(default_factory=lambda: InMemorySends(CLOCK))
    letters_of: tuple[int, ...] = (1, 1, 2)
    alarms: tuple[Alarm, ...] | None = (an_alarm("lag", AlarmState.ALARM), an_alarm("rate", AlarmState.OK))
    health: Any = field(
        default_factory=lambda: InMemoryHealth(
            [Lag(function="builder", topic="build", records=1), Lag(function="delivery", topic="delivery", records=5)],
            [DirectoryAge(generation="g1", heartbeat_at_ms=CLOCK.now_ms() - 1_500)],
        )
    )
    decoding: Callable[[], AbstractContextManager[None]] = nullcontext

    def __post_init__(self) -> None:
        self.webhooks = webhooks_route(CLOCK, 1, Codec(registry()))

    def answer(self, clubs: Clubs = OWN, scopes: frozenset[Scope] = ALL_SCOPES, **parameters: str) -> Mapping[str, Any]:
        codec = Codec(registry())
        letters = [letter(codec, club_id=club, offset=offset) for offset, club in enumerate(self.letters_of)]
        store = InMemoryDeadLetters(letters, allowed=frozenset(), now=LETTERS_AT)
        route = OverviewRoute(
            lists=SendLists(self.store, self.register),
            alarms=AlarmsRoute(InMemoryAlarms(self.alarms), CLOCK),
            dead_letters=DeadLettersRoute(store, codec),
            webhooks=self.webhooks,
            health=self.health,
            clock=CLOCK,
        )
        asked = {name: value.split("|") for name, value in parameters.items()}
        return route.answer(asked, clubs, scopes, self.decoding)

    def disable(self, reason: str) -> None:
        endpoints = self.webhooks.endpoints
        (endpoint,) = endpoints.of_club(1)
        changed = replace(endpoint, enabled=False, disabled_reason=reason, revision=endpoint.revision + 1)
        assert endpoints.replace(changed)


class Down:
    """A server that does not answer."""

    def __getattr__(self, name: str) -> Any:
        def fails(*_: Any, **__: Any) -> Any:
            raise Retry("the server is down")

        return fails


def test_sends_that_have_not_ended_are_listed_first() -> None:
    overview = Overview()
    ended = {f"e{number}": a_send(f"e{number}", number, sent=10) for number in range(ROWS)}
    overview.store.sends = {**ended, "moving": a_send("moving", 90, sent=3, failed=2, suppressed=1)}
    rows = overview.answer()["sends"]
    assert [row["send_id"] for row in rows] == ["moving", *list(ended)[: ROWS - 1]]
    assert {name: rows[0][name] for name in ("published", "suppressed", "failed", "in_flight")} == {
        "published": 3,
        "suppressed": 1,
        "failed": 2,
        "in_flight": 4,
    }


def test_counts_are_those_of_the_last_hours() -> None:
    overview = Overview()
    overview.store.stored = [a_count("sent", 5), a_count("failed", 2), a_count("sent", 100, hours_ago=13)]
    today = overview.answer()["today"]
    assert today == {
        "since": "2026-11-21T00:00:00Z",
        "requested": 0,
        "sent": 5,
        "delivered": 0,
        "suppressed": 0,
        "failed": 2,
        "bounced": 0,
    }
    assert overview.answer(hours="14")["today"]["sent"] == 105
    assert overview.answer(hours="1")["today"]["sent"] == 0


@pytest.mark.kills(guard="scopes.overview")
def test_reader_sees_sends_and_counts_alone() -> None:
    body = Overview().answer(scopes=READER)
    assert body["today"] is not None
    assert [body[name] for name in ("dead_letters", "alarms", "health", "webhooks")] == [None] * 4
    assert body["unavailable"] == []


def test_operator_sees_letters_ringing_alarms_and_health() -> None:
    body = Overview().answer(ALL_CLUBS)
    assert body["dead_letters"] == 3
    assert [each["name"] for each in body["alarms"]] == ["lag"]
    assert body["health"] == {"lag_total": 6, "staleness_s": 1.5}
    assert Overview(alarms=None).answer()["alarms"] is None


@pytest.mark.kills(guard="tenancy.overview")
def test_caller_sees_the_rows_and_counts_of_its_clubs_only() -> None:
    overview = Overview(letters_of=(1, 2, 2, 3))
    overview.store.sends = {str(club): a_send(str(club), club, club) for club in (1, 2, 3)}
    overview.store.stored = [a_count("sent", 10**club, club_id=club) for club in (1, 2, 3)]
    overview.disable("gone")
    body = overview.answer(Clubs(frozenset({2})))
    assert ([row["send_id"] for row in body["sends"]], body["today"]["sent"]) == (["2"], 100)
    assert (body["dead_letters"], body["webhooks"]) == (2, [])
    with pytest.raises(Problem) as raised:
        overview.answer(OWN, club_id="1|2")
    assert raised.value.status == 403
    assert overview.answer(ALL_CLUBS, club_id="3")["dead_letters"] == 1


def test_caller_of_every_club_sees_the_sends_of_the_busiest() -> None:
    overview = Overview()
    quiet = CLUBS + 1
    overview.store.sends = {str(club): a_send(str(club), 1, club) for club in (1, quiet)}
    overview.store.stored = [a_count("requested", 100 - club, club_id=club) for club in range(1, CLUBS + 2)]
    assert [row["send_id"] for row in overview.answer(ALL_CLUBS)["sends"]] == ["1"]
    many = Clubs(frozenset(range(1, CLUBS + 2)))
    assert [row["send_id"] for row in overview.answer(many)["sends"]] == ["1"]


def test_endpoint_is_listed_if_masscomm_disabled_it() -> None:
    overview = Overview()
    assert overview.answer()["webhooks"] == []
    overview.disable("")
    assert overview.answer()["webhooks"] == []
    overview.disable("the server answered 410")
    (row,) = overview.answer()["webhooks"]
    assert (row["club_id"], row["disabled_reason"]) == (1, "the server answered 410")


def test_sends_are_listed_without_the_metrics_database() -> None:
    overview = Overview(store=Down())  # type: ignore[arg-type]  # no store in memory is down
    key = SendKey(1, "large")
    overview.register.put(
        Send(key=key, source=Source.REST, type="news", users=500, channels=("push",), requested_at_ms=CLOCK.now_ms())
    )
    body = overview.answer()
    assert [(row["send_id"], row["published"]) for row in body["sends"]] == [("large", None)]
    assert (body["counts_known"], body["today"], body["unavailable"]) == (False, None, ["today"])
    assert body["dead_letters"] == 2


def test_failed_part_leaves_the_others() -> None:
    overview = Overview(health=Down())
    overview.webhooks = replace(overview.webhooks, endpoints=Down())
    overview.register.failing = Retry("the register is down")
    body = overview.answer()
    assert body["unavailable"] == ["sends", "webhooks", "health"]
    assert (body["sends"], body["health"], body["webhooks"]) == ([], None, None)
    assert (body["dead_letters"], body["today"] is None) == (2, False)


def test_counts_that_are_too_many_are_unavailable() -> None:
    overview = Overview()
    overview.store.bounds = Bounds(read=0)
    overview.store.stored = [a_count("sent", 5)]
    assert overview.answer()["unavailable"] == ["today"]


@pytest.mark.kills(guard="costly_requests.overview")
def test_letters_are_not_decoded_without_a_slot() -> None:
    def refused() -> AbstractContextManager[None]:
        raise Problem(429, Text.REQUESTS_RUNNING.filled(requests=2))

    overview = Overview(decoding=refused)
    assert overview.answer()["unavailable"] == ["dead_letters"]
    # All of them are counted without decoding one.
    assert overview.answer(ALL_CLUBS)["dead_letters"] == 3


def test_letters_of_clubs_are_sought_among_the_latest() -> None:
    assert Overview(letters_of=(1, *[2] * READ)).answer()["dead_letters"] == 0


def test_wrong_parameters_are_refused() -> None:
    for name, value in (("hours", "49"), ("club_id", "x"), ("since", "now")):
        with pytest.raises(Problem) as raised:
            Overview().answer(OWN, ALL_SCOPES, **{name: value})
        assert raised.value.status == 400
