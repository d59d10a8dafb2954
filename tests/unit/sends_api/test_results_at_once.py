"""A small send shows its results before the metrics job has counted them, and its counts alone afterwards."""

import random
from array import array
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from functions.sends_api.routes.cancel import CancelRoute
from functions.sends_api.routes.controllable import Control
from functions.sends_api.routes.results_at_once import ResultsAtOnce
from functions.sends_api.routes.send import SendRoute
from masscomm.clock import FixedClock
from masscomm.domain.notification_codes import BLOCK, code_of, status_of, stored
from masscomm.domain.send_results import MOST_USERS, SendResult
from masscomm.domain.sends import Expansion, Parts, Send, SendControl, SendKey, Source
from masscomm.domain.statuses import PUBLISHED, TERMINAL, Reason, Status
from masscomm.domain.time_limits import PRODUCER_MESSAGE_S
from masscomm.errors import Retry
from masscomm.http.problem import Problem
from masscomm.http.tenant import ALL_CLUBS
from masscomm.stores.audit_log.in_memory import InMemoryAuditLog
from masscomm.stores.delayed_records.in_memory import InMemoryDelayStore
from masscomm.stores.metrics.in_memory import InMemoryMetricsStore
from masscomm.stores.metrics.port import ChannelTotals, SendTotals
from masscomm.stores.send_results.in_memory import InMemorySendResults
from masscomm.stores.sends.in_memory import InMemorySends

NOW = 1_700_000_000_000
KEY = SendKey(7, "s")
OUTCOMES: tuple[tuple[Status, Reason | None], ...] = (
    (Status.HELD, None),
    (Status.SCHEDULED, None),
    (Status.SENDING, None),
    (Status.SUPPRESSED, Reason.OPTED_OUT),
    (Status.SUPPRESSED, Reason.NO_DEVICE),
    (Status.FAILED, Reason.DEAD_LETTER),
    (Status.SENT, None),
    (Status.DELIVERED, None),
    (Status.BOUNCED, Reason.BOUNCED_PERMANENT),
)


def result(record_id: str, channel: str, codes: dict[int, int]) -> SendResult:
    """Return the results {position: code} of an outcome record."""
    first, last = min(codes), max(codes)
    in_order = array("H", [codes.get(position, 0) for position in range(first, last + 1)])
    return SendResult(send=KEY, record_id=record_id, channel=channel, first=first, codes=in_order)


SENT, OPTED_OUT = code_of(Status.SENT, None), code_of(Status.SUPPRESSED, Reason.OPTED_OUT)


class Following:
    """One send of club 7, its results and its counts, which the test moves on."""

    def __init__(self, users: int | None = 3, channels: tuple[str, ...] = ("push",), **values: Any) -> None:
        self.clock = FixedClock(NOW)
        self.store, self.results = InMemoryMetricsStore(), InMemorySendResults(self.clock)
        self.register = InMemorySends(self.clock)
        send = Send(key=KEY, source=Source.REST, requested_at_ms=NOW, type="news", users=users, channels=channels)
        self.send = replace(send, **values)
        self.register.put(self.send)

    def answer(self, *, at_once: bool = True) -> Any:
        results = ResultsAtOnce(self.store, self.results) if at_once else None
        return SendRoute(self.store, self.register, self.clock, results).answer(KEY.send_id, {}, ALL_CLUBS)

    def count(self, records: list[SendResult], watermark_ms: int, requested: int = 0) -> None:
        """Count records as the job does: each notification has the highest of its codes."""
        highest = states_of(records)
        blocks: dict[tuple[str, int], array[int]] = {}
        totals = {name: ChannelTotals(requested=requested) for name in self.send.channels}
        for (channel, position), code in highest.items():
            block = blocks.setdefault((channel, position // BLOCK), array("H", bytes(2 * BLOCK)))
            block[position % BLOCK] = code
            status, reason = status_of(code)
            of_channel = totals.setdefault(channel, ChannelTotals())
            of_channel.queued += status in PUBLISHED
            reasons = of_channel.by_status.setdefault(status, {})
            reasons[reason] = reasons.get(reason, 0) + 1
        self.store.watermark = datetime.fromtimestamp(watermark_ms / 1000, UTC)
        self.store.sends[KEY.send_id] = SendTotals(
            send_id=KEY.send_id,
            club_id=KEY.club_id,
            type="news",
            requested_at=datetime.fromtimestamp(NOW / 1000, UTC),
            chunk_count=1 if requested else None,
            chunks=1 if requested else 0,
            channels=totals,
            watermark=None,
            states={key: stored(block) for key, block in blocks.items()},
        )


def states_of(records: list[SendResult]) -> dict[tuple[str, int], int]:
    highest: dict[tuple[str, int], int] = {}
    for record in records:
        for position, code in enumerate(record.codes, record.first):
            if code:
                key = (record.channel, position)
                highest[key] = max(code, highest.get(key, 0))
    return highest


def _shown(answer: Any) -> Counter[tuple[str, str, str]]:
    """Return the numbers of an answer by channel, status and reason; statuses without a number of their own omitted."""
    found: Counter[tuple[str, str, str]] = Counter()
    for channel, totals in answer["channels"].items():
        for status in Status:
            value = totals.get(status.value, 0) if status is not Status.QUEUED else 0
            for reason, n in value.items() if isinstance(value, dict) else [("", value)]:
                found[channel, status.value, reason] += n
    return +found


def _expected(states: dict[tuple[str, int], int]) -> Counter[tuple[str, str, str]]:
    found: Counter[tuple[str, str, str]] = Counter()
    for (channel, _), code in states.items():
        status, reason = status_of(code)
        if status != Status.SENDING:
            found[channel, status, reason if status in (Status.SUPPRESSED, Status.FAILED) else ""] += 1
    return found


def test_results_are_shown_before_the_job_has_counted_any() -> None:
    send = Following(users=3)
    assert send.answer()["status"] == "accepted"
    send.results.put([result("a", "push", {0: OPTED_OUT})])
    answer = send.answer()
    assert (answer["status"], answer["complete"]) == ("in_progress", False)
    assert answer["totals"] | {"suppressed": {"opted_out": 1}, "requested": 3, "in_flight": 2} == answer["totals"]
    send.results.put([result("b", "push", {1: SENT, 2: SENT})])
    answer = send.answer()
    assert (answer["status"], answer["complete"]) == ("ended", False)
    assert (answer["totals"]["sent"], answer["totals"]["queued"], answer["totals"]["in_flight"]) == (2, 2, 0)
    assert answer["conservation"] == {"terminal": 3, "in_flight": 0, "ok": True}
    assert answer["chunks"] == {"expected": None, "counted": 0}
    assert send.answer(at_once=False)["status"] == "accepted"


def test_send_is_complete_once_its_results_are_counted() -> None:
    """A client that waits for it finds them in the list of recipients and in the metrics, too."""
    send = Following(users=1)
    record = result("a", "push", {0: SENT})
    send.results.put([record])
    send.count([], NOW, requested=1)
    assert (send.answer()["status"], send.answer()["complete"]) == ("ended", False)
    send.count([record], NOW, requested=1)
    assert (send.answer()["status"], send.answer()["complete"]) == ("ended", True)


def test_counted_result_changes_nothing() -> None:
    send = Following(users=2)
    records = [result("a", "push", {0: OPTED_OUT}), result("b", "push", {1: SENT})]
    send.results.put(records)
    send.count(records, NOW, requested=2)
    assert send.answer() == send.answer(at_once=False)
    send.results.put([result("c", "push", {1: code_of(Status.DELIVERED, None)})])
    answer = send.answer()
    assert (answer["totals"]["sent"], answer["totals"]["delivered"]) == (0, 1)


def test_results_of_a_larger_send_are_not_read() -> None:
    """An outcome record does not have the number of its send's users: the first of a broadcast are stored, too."""
    for users in (MOST_USERS + 1, None):
        send = Following(users=users)
        send.results.put([result("a", "push", {0: SENT})])
        calls = send.results.calls
        assert send.answer() == send.answer(at_once=False)
        assert send.results.calls == calls
    send = Following(users=MOST_USERS)
    send.results.put([result("a", "push", {MOST_USERS - 1: SENT})])
    assert send.answer()["totals"]["sent"] == 1


@pytest.mark.kills(guard="results.registered_parts")
def test_send_with_missing_parts_does_not_end_at_once() -> None:
    parts = Parts(count=2, registered=1, chunks=1, chunk_size=5_000)
    send = Following(users=1, parts=parts)
    send.results.put([result("a", "push", {0: SENT})])
    assert send.answer()["status"] != "ended"
    send.register.put(replace(send.send, parts=replace(parts, count=1)))
    assert send.answer()["status"] == "ended"


def test_small_audience_shows_its_results() -> None:
    send = Following(users=None, is_to_audience=True)
    send.results.put([result("a", "push", {0: SENT, 1: SENT})])
    assert send.answer()["status"] == "expanding"
    ended = Expansion(chunks=1, users=2, requested=2, ended_at_ms=NOW)
    send.register.put(replace(send.send, expansion=ended))
    assert (send.answer()["status"], send.answer()["totals"]["sent"]) == ("ended", 2)
    send.register.put(replace(send.send, expansion=replace(ended, error="why")))
    assert send.answer()["totals"]["sent"] == 0


@pytest.mark.kills(guard="results.unreadable")
@pytest.mark.guarantee("results.not_stored")
@pytest.mark.parametrize("failing", ["results", "store"])
def test_send_is_answered_with_counts_if_results_fail(failing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    send = Following(users=2)
    send.count([result("a", "push", {0: SENT})], NOW, requested=2)
    send.results.put([result("b", "push", {1: SENT})])
    assert send.answer()["totals"]["sent"] == 2
    if failing == "results":
        send.results.failing = Retry("DynamoDB throttles the key")
    else:
        read = send.store.send

        def unanswered(send_id: str, *, with_states: bool = False) -> SendTotals | None:
            if with_states:
                raise Retry("the database does not answer")
            return read(send_id)

        monkeypatch.setattr(send.store, "send", unanswered)
    assert send.answer() == send.answer(at_once=False)
    assert send.answer()["totals"]["sent"] == 1


@pytest.mark.kills(guard="tenancy.counted_states")
def test_states_of_another_tenants_send_are_not_merged() -> None:
    """A hostile record may name another tenant's send."""
    send = Following(users=2)
    send.count([result("a", "push", {0: SENT})], NOW, requested=2)
    send.store.sends[KEY.send_id] = replace(send.store.sends[KEY.send_id], club_id=8)
    send.results.put([result("b", "push", {1: SENT})])
    answer = send.answer()
    assert (answer["totals"]["sent"], answer["totals"]["requested"]) == (1, 2)


def test_send_that_is_shown_as_ended_cannot_be_cancelled() -> None:
    send = Following(users=1)
    at_once = ResultsAtOnce(send.store, send.results)
    control = Control(send.store, send.register, InMemoryDelayStore(), send.clock, InMemoryAuditLog(), at_once)
    send.results.put([result("a", "push", {0: SENT})])
    with pytest.raises(Problem) as raised:
        CancelRoute(control).answer(KEY.send_id, {}, ALL_CLUBS, None)
    assert raised.value.status == 409
    without = replace(control, results=None)
    assert CancelRoute(without).answer(KEY.send_id, {}, ALL_CLUBS, None)["status"] == "cancelling"


def test_cancellation_has_the_counts_of_published_ones() -> None:
    """Its exact numbers are those of the log, which the job writes with the counts."""
    send = Following(users=1, control=SendControl(send=KEY, cancelled_at_ms=NOW, published_before=0, revision=1))
    send.results.put([result("a", "push", {0: SENT})])
    answer = send.answer()
    assert (answer["status"], answer["totals"]["sent"]) == ("ended", 1)
    assert (
        answer["cancellation"] | {"published_before": 0, "published_since": 0, "exact": False}
        == (answer["cancellation"])
    )


@dataclass
class Run:
    """A send whose outcome records are produced, stored as results, redelivered, lost and counted in a random order."""

    draw: random.Random
    send: Following = field(init=False)
    # The records in their topic, with the time at which they were appended.
    topic: list[tuple[int, SendResult]] = field(default_factory=list)
    stored: list[SendResult] = field(default_factory=list)
    counted: list[SendResult] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.users = self.draw.choice([1, 2, 40, 600])
        self.channels = ("push", "email")[: self.draw.randint(1, 2)]
        self.send = Following(users=self.users, channels=self.channels)

    def record(self, number: int) -> SendResult:
        positions = self.draw.sample(range(self.users), self.draw.randint(1, min(self.users, 12)))
        codes = {position: code_of(*self.draw.choice(OUTCOMES)) for position in positions}
        return result(f"r{number}", self.draw.choice(self.channels), codes)

    def emit(self, record: SendResult) -> None:
        """Emit a record: its result is stored or lost, and Kafka appends it now or later."""
        if self.draw.random() < 0.8:
            self.send.results.put([record])
            self.stored.append(record)
        late_ms = self.draw.choice([0, round(self.draw.uniform(0, PRODUCER_MESSAGE_S * 1000))])
        self.topic.append((self.send.clock.now_ms() + late_ms, record))

    def count(self) -> None:
        """Count the records that are in the topic at this time, once an id."""
        now_ms = self.send.clock.now_ms()
        seen = {each.record_id: each for at_ms, each in self.topic if at_ms <= now_ms}
        self.counted = list(seen.values())
        self.send.count(self.counted, now_ms, requested=self.users)

    def check(self) -> None:
        answer, counts = self.send.answer(), self.send.answer(at_once=False)
        assert _shown(answer) == _expected(states_of([*self.counted, *self.stored]))
        emitted = _ended(_expected(states_of([*self.counted, *(each for _, each in self.topic)])))
        assert _ended(_shown(counts)) <= _ended(_shown(answer)) <= emitted


def _ended(shown: Counter[tuple[str, str, str]]) -> int:
    return sum(n for (_, status, _), n in shown.items() if status in TERMINAL)


@pytest.mark.guarantee("results.shown_before_they_are_counted")
@pytest.mark.parametrize("seed", range(40))
def test_shown_results_are_those_of_the_outcome_records(seed: int) -> None:
    """For any order, redelivery and lost put: the answer has the stored and the counted results, never more than the
    outcome records and never fewer than the counts. Once the watermark has passed, it is the counts.
    """
    draw = random.Random(seed)  # noqa: S311 - not a secret
    run = Run(draw)
    emitted: list[SendResult] = []
    for number in range(draw.randint(1, 25)):
        record = draw.choice(emitted) if emitted and draw.random() < 0.25 else run.record(number)
        emitted.append(record)
        run.emit(record)
        run.send.clock.advance(draw.choice([0, 0.3, 4, 12]))
        if draw.random() < 0.4:
            run.count()
        run.check()
    run.send.clock.advance(timedelta(minutes=1).total_seconds())
    run.count()
    assert run.send.answer() == run.send.answer(at_once=False)
    assert _shown(run.send.answer()) == _expected(states_of(emitted))


@pytest.mark.parametrize("late_s", [0.0, PRODUCER_MESSAGE_S])
def test_result_stays_until_its_record_is_surely_counted(late_s: float) -> None:
    """Kafka may append a record up to PRODUCER_MESSAGE_S after its result was stored; a watermark in between does not
    include it.
    """
    send = Following(users=1)
    record = result("a", "push", {0: SENT})
    send.results.put([record])
    send.clock.advance(late_s)
    send.count([], send.clock.now_ms(), requested=1)
    assert send.answer()["status"] == "ended"
    send.clock.advance(PRODUCER_MESSAGE_S * 2)
    send.count([record], send.clock.now_ms(), requested=1)
    send.store.sends[KEY.send_id] = replace(send.store.sends[KEY.send_id], states={})
    assert send.answer() == send.answer(at_once=False)
