"""The long poll over a store in memory, with a clock that sleep() advances."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from functions.metrics_handler.routes.metrics import MetricsRoute
from functions.metrics_handler.routes.stream import StreamRoute
from masscomm.clock import FixedClock
from masscomm.domain.grains import Grain
from masscomm.domain.time_limits import STREAM_RESERVE_S, STREAM_RETRY_AFTER_S
from masscomm.errors import Retry, Stop
from masscomm.http.problem import Problem
from masscomm.http.tenant import ALL_CLUBS
from masscomm.observability import metrics
from masscomm.observability.metric_names import POLLS_UNCOUNTED
from masscomm.operations.waiting import Waiting
from masscomm.stores.metrics.in_memory import InMemoryMetricsStore, StoredCount
from masscomm.stores.metrics.port import StreamPosition
from masscomm.stores.request_slots.in_memory import InMemoryRequestSlots
from masscomm.stores.request_slots.port import Kind

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
ASKED = {"granularity": ["hour"], "start": ["2026-11-21T12:00:00Z"], "end": ["2026-11-21T13:00:00Z"]}


class StreamClock(FixedClock):
    """A clock that owns the stream route; sleep() also runs the planned calls that are due."""

    def __init__(self) -> None:
        super().__init__(int(NOON.timestamp() * 1000))
        self.store = InMemoryMetricsStore(watermark=NOON, batch_id=7, finished_at=NOON)
        self.slept = 0.0
        self.planned: list[tuple[float, Callable[[], None]]] = []
        self.slots = InMemoryRequestSlots()
        self.watch = self.environment()

    def environment(self, open_polls: int = 2) -> StreamRoute:
        query = MetricsRoute(self.store, self, timedelta(seconds=5))
        return StreamRoute(self.store, self, query, Waiting(self, self.slots, open_polls))

    def sleep(self, seconds: float) -> None:
        self.slept += seconds
        self.advance(seconds)
        while due := [each for each in self.planned if self.slept >= each[0]]:
            self.planned.remove(due[0])
            due[0][1]()

    def count(self) -> None:
        self.store.stored.append(
            StoredCount(
                granularity=Grain.HOUR,
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
    ) -> Any:
        parameters = (more or {}) | ({} if since is None else {"since": [since]})
        return self.watch.answer(parameters, ALL_CLUBS, remaining_s=remaining_s)


@pytest.fixture
def clock() -> StreamClock:
    return StreamClock()


def test_poll_without_cursor_returns_at_once(clock: StreamClock) -> None:
    answer = clock.ask(None, ASKED)
    assert (answer["changed"], clock.slept, answer["metrics"]["rows"]) == (True, 0.0, [])


def test_counts_since_the_cursor_are_answered_at_once(clock: StreamClock) -> None:
    before = clock.ask()["cursor"]
    clock.count()
    answer = clock.ask(before, ASKED)
    assert (answer["changed"], clock.slept) == (True, 0)
    assert [row["count_total"] for row in answer["metrics"]["rows"]] == [1]


def test_new_counts_end_the_wait(clock: StreamClock) -> None:
    before = clock.ask()["cursor"]
    clock.planned.append((6.0, clock.count))
    answer = clock.ask(before)
    assert (answer["changed"], clock.slept, answer["metrics"]) == (True, 6.0, None)
    assert answer["cursor"] != before


def test_poll_without_new_counts_returns_its_cursor(clock: StreamClock) -> None:
    before = clock.ask()["cursor"]
    # Within a minute the watermark of an idle stream advances although no count changes.
    clock.planned.append((3.0, lambda: clock.move(NOON + timedelta(seconds=3))))
    answer = clock.ask(before, ASKED)
    assert (answer["changed"], answer["cursor"], answer["metrics"], clock.slept) == (False, before, None, 20)
    assert answer["watermark"] == "2026-11-21T12:00:03Z"
    assert clock.ask(before, {"wait": ["2"]})["cursor"] == before
    assert clock.slept == 22


def test_another_complete_minute_ends_the_waiting(clock: StreamClock) -> None:
    before = clock.ask()["cursor"]
    clock.planned.append((4.0, lambda: clock.move(NOON + timedelta(seconds=5))))
    answer = clock.ask(before)
    assert (answer["changed"], clock.slept) == (True, 4.0)


def test_restarted_batch_id_is_a_change(clock: StreamClock) -> None:
    """After a lost checkpoint the stream numbers its batches from 0 again."""
    before = clock.ask()["cursor"]
    clock.store.batch_id = 0
    assert clock.ask(before)["changed"]


def test_answer_is_complete_once_past_minutes_are_counted(clock: StreamClock) -> None:
    assert clock.ask()["complete"]
    clock.advance(64)
    clock.move(NOON + timedelta(seconds=4))
    assert not clock.ask()["complete"]
    clock.move(NOON + timedelta(seconds=64))
    assert clock.ask()["complete"]


def test_poll_ends_before_its_invocation(clock: StreamClock) -> None:
    before = clock.ask()["cursor"]
    clock.ask(before, remaining_s=STREAM_RESERVE_S + 3)
    assert clock.slept == 3
    clock.ask(before, remaining_s=1)
    assert clock.slept == 3


def test_poll_of_an_empty_store_waits_and_is_incomplete(clock: StreamClock) -> None:
    clock.store.watermark = clock.store.batch_id = clock.store.finished_at = None
    answer = clock.ask()
    assert (answer["watermark"], answer["complete"]) == (None, False)
    assert not clock.ask(answer["cursor"])["changed"]


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
def test_invalid_watch_parameter_is_named_without_waiting(
    clock: StreamClock, wrong: dict[str, list[str]], field: str
) -> None:
    parameters = {"since": [clock.ask()["cursor"]]} | wrong
    with pytest.raises(Problem) as raised:
        clock.watch.answer(parameters, ALL_CLUBS)
    assert (raised.value.status, raised.value.errors[0].field, clock.slept) == (400, field, 0)


def test_failing_store_ends_the_wait(clock: StreamClock, monkeypatch: pytest.MonkeyPatch) -> None:
    before = clock.ask()["cursor"]

    position = clock.store.position

    def failing() -> StreamPosition:
        if clock.slept >= 1.0:
            raise Retry("away")
        return position()

    monkeypatch.setattr(clock.store, "position", failing)
    with pytest.raises(Retry):
        clock.ask(before)
    assert clock.slept == 1.0


# --- open polls of a key ----------------------------------------------------------------------------------------------


def poll(clock: StreamClock, watch: StreamRoute, since: str, caller: str = "key") -> Any:
    return watch.answer({"since": [since]}, ALL_CLUBS, caller=caller)


@pytest.mark.guarantee("metrics_api.polls_a_key_are_limited")
def test_a_poll_beyond_its_keys_limit_is_refused(clock: StreamClock) -> None:
    """Polls count in all environments; other keys have slots of their own."""
    since = clock.ask()["cursor"]
    found: list[object] = []

    def others_ask() -> None:
        for caller in ("key", "key", "other"):
            try:
                found.append(poll(clock, clock.environment(), since, caller)["changed"])
            except Problem as problem:
                found.append((problem.status, problem.retry_after_s))

    # The second poll begins during the first one's sleep; the refused polls begin during the second one's sleep.
    clock.planned = [(0.5, lambda: found.append(poll(clock, clock.environment(), since)["changed"])), (1.0, others_ask)]
    assert poll(clock, clock.watch, since)["changed"] is False
    refused = (429, STREAM_RETRY_AFTER_S)
    assert found == [refused, refused, False, False]


def test_poll_that_ends_or_fails_frees_its_slot(clock: StreamClock) -> None:
    def goes_away() -> None:
        assert len(clock.slots.taken) == 1
        raise Retry("the database is away")

    since = clock.ask()["cursor"]
    clock.planned = [(1, goes_away)]
    with pytest.raises(Retry):
        poll(clock, clock.watch, since)
    assert clock.slots.taken == {}
    clock.planned = [(clock.slept + 1, clock.count)]
    assert poll(clock, clock.watch, since)["changed"] is True
    assert clock.slots.taken == {}


def test_killed_poll_blocks_its_key_briefly(clock: StreamClock) -> None:
    since = clock.ask()["cursor"]
    for _ in range(2):
        assert clock.slots.take(Kind.POLL, "key", 2, now_ms=clock.now_ms(), until_ms=clock.now_ms() + 29_000)
    with pytest.raises(Problem):
        poll(clock, clock.watch, since)
    clock.advance(29)
    assert poll(clock, clock.watch, since)["changed"] is False


def test_immediate_answer_needs_no_slot(clock: StreamClock) -> None:
    before = clock.ask()["cursor"]
    clock.count()
    assert clock.ask(before)["changed"] is True
    assert clock.ask(clock.ask()["cursor"], {"wait": ["0"]})["changed"] is False
    assert clock.slots.calls == 0


@pytest.mark.guarantee("dynamodb_down.polls_do_not_wait")
def test_polls_that_cannot_be_counted_do_not_wait(clock: StreamClock) -> None:
    since = clock.ask()["cursor"]
    clock.slots.failing = Retry("DynamoDB is away")
    metrics.taken()
    answer = poll(clock, clock.watch, since)
    assert (answer["changed"], answer["cursor"], clock.slept) == (False, since, 0.0)
    assert metrics.taken()[0] == {POLLS_UNCOUNTED.name: 1}


def test_missing_slots_table_is_a_stop(clock: StreamClock) -> None:
    since = clock.ask()["cursor"]
    clock.slots.failing = Stop("there is no table")
    with pytest.raises(Stop):
        poll(clock, clock.watch, since)
