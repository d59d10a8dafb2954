"""The long poll over a store in memory and a clock that moves when it is slept on."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from functions.metrics_handler.in_memory_store import InMemoryMetricsStore, StoredCount
from functions.metrics_handler.metrics_store import Granularity
from functions.metrics_handler.query_metrics import QueryMetrics
from functions.metrics_handler.watch_metrics import RESERVED_S, WatchMetrics
from masscomm.clock import FixedClock
from masscomm.errors import Retry
from masscomm.problem import Problem
from masscomm.tenant import ALL_CLUBS

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
ASKED = {"granularity": ["hour"], "start": ["2026-11-21T12:00:00Z"], "end": ["2026-11-21T13:00:00Z"]}


class World(FixedClock):
    """A clock with a stream: what is planned happens when its time has come."""

    def __init__(self) -> None:
        super().__init__(int(NOON.timestamp() * 1000))
        self.store = InMemoryMetricsStore(watermark=NOON, batch_id=7, finished_at=NOON)
        self.slept = 0.0
        self.planned: list[tuple[float, Callable[[], None]]] = []
        self.watch = WatchMetrics(self.store, self, QueryMetrics(self.store, self, timedelta(seconds=5)))

    def sleep(self, seconds: float) -> None:
        self.slept += seconds
        self.advance(seconds)
        for when, happen in list(self.planned):
            if self.slept >= when:
                self.planned.remove((when, happen))
                happen()

    def count(self) -> None:
        self.store.stored.append(
            StoredCount(
                granularity=Granularity.HOUR,
                bucket=NOON,
                club_id=1,
                type="news",
                channel="push",
                measure="sent",
                count_total=1,
            )
        )
        self.store.batch_id = (self.store.batch_id or 0) + 1
        self.store.finished_at = datetime.fromtimestamp(self.now_ms() / 1000, UTC)

    def move(self, watermark: datetime) -> None:
        self.store.watermark = watermark

    def ask(
        self, since: str | None = None, more: dict[str, list[str]] | None = None, *, remaining_s: float = 29.0
    ) -> dict[str, Any]:
        parameters = (more or {}) | ({} if since is None else {"since": [since]})
        return self.watch.answer(parameters, ALL_CLUBS, remaining_s=remaining_s)


@pytest.fixture
def world() -> World:
    return World()


def test_without_a_cursor_the_answer_comes_at_once(world: World) -> None:
    answer = world.ask(None, ASKED)
    assert (answer["changed"], world.slept, answer["metrics"]["rows"]) == (True, 0.0, [])


def test_what_was_counted_meanwhile_is_answered_at_once(world: World) -> None:
    before = world.ask()["cursor"]
    world.count()
    answer = world.ask(before, ASKED)
    assert (answer["changed"], world.slept) == (True, 0)
    assert [row["count_total"] for row in answer["metrics"]["rows"]] == [1]


def test_what_is_counted_while_it_waits_ends_the_waiting(world: World) -> None:
    before = world.ask()["cursor"]
    world.planned.append((6.0, world.count))
    answer = world.ask(before)
    assert (answer["changed"], world.slept, answer["metrics"]) == (True, 6.0, None)
    assert answer["cursor"] != before


def test_where_nothing_is_counted_the_same_cursor_comes_back(world: World) -> None:
    before = world.ask()["cursor"]
    # An idle stream's watermark goes on, within its minute.
    world.planned.append((3.0, lambda: world.move(NOON + timedelta(seconds=3))))
    answer = world.ask(before, ASKED)
    assert (answer["changed"], answer["cursor"], answer["metrics"], world.slept) == (False, before, None, 20)
    assert answer["watermark"] == "2026-11-21T12:00:03Z"
    assert world.ask(before, {"wait": ["2"]})["cursor"] == before
    assert world.slept == 22


def test_another_complete_minute_ends_the_waiting(world: World) -> None:
    before = world.ask()["cursor"]
    world.planned.append((4.0, lambda: world.move(NOON + timedelta(seconds=5))))
    answer = world.ask(before)
    assert (answer["changed"], world.slept) == (True, 4.0)


def test_a_batch_id_that_begins_anew_is_news(world: World) -> None:
    """A lost checkpoint numbers its batches from 0 again."""
    before = world.ask()["cursor"]
    world.store.batch_id = 0
    assert world.ask(before)["changed"]


def test_complete_says_that_every_minute_that_is_over_is_counted(world: World) -> None:
    assert world.ask()["complete"]
    world.advance(64)
    world.move(NOON + timedelta(seconds=4))
    assert not world.ask()["complete"]
    world.move(NOON + timedelta(seconds=64))
    assert world.ask()["complete"]


def test_an_invocation_that_must_end_waits_no_longer(world: World) -> None:
    before = world.ask()["cursor"]
    world.ask(before, remaining_s=RESERVED_S + 3)
    assert world.slept == 3
    world.ask(before, remaining_s=1)
    assert world.slept == 3


def test_nothing_was_ever_counted(world: World) -> None:
    world.store.watermark = world.store.batch_id = world.store.finished_at = None
    answer = world.ask()
    assert (answer["watermark"], answer["complete"]) == (None, False)
    assert not world.ask(answer["cursor"])["changed"]


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"since": ["x"]}, "since"),
        ({"wait": ["21"]}, "wait"),
        ({"wait": ["-1"]}, "wait"),
        ({"granularity": ["week"]}, "granularity"),
        ({"colour": ["red"]}, "colour"),
    ],
)
def test_what_cannot_be_used_is_named_before_anything_is_waited_for(
    world: World, wrong: dict[str, list[str]], field: str
) -> None:
    parameters = {"since": [world.ask()["cursor"]]} | wrong
    with pytest.raises(Problem) as raised:
        world.watch.answer(parameters, ALL_CLUBS)
    assert (raised.value.status, raised.value.errors[0].field, world.slept) == (400, field, 0)


def test_a_store_that_goes_away_ends_the_waiting(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    before = world.ask()["cursor"]

    def away() -> None:
        raise Retry("away")

    world.planned.append((1.0, lambda: monkeypatch.setattr(world.store, "position", away)))
    with pytest.raises(Retry):
        world.ask(before)
    assert world.slept == 1.0
