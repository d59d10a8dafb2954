"""Recipients that the provider does not accept yet continue in one retry record, even if a function is killed."""

from collections import Counter
from collections.abc import Callable

import pytest
from aws_lambda_powertools import Logger
from hypothesis import given, settings
from hypothesis import strategies as st

from functions.delivery.deliver import Deliver
from functions.scheduler.release_due_records import ReleaseDueRecords
from masscomm.channels.circuit_breaker import OutageCircuitBreaker
from masscomm.clock import FixedClock
from masscomm.domain.call_results import RecipientResult
from masscomm.domain.ids import released_id
from masscomm.domain.preferences import Decision
from masscomm.domain.provider_errors import Transient
from masscomm.domain.records import ContentColumn, DeliveryRequested
from masscomm.domain.statuses import Status
from masscomm.domain.time_limits import OUTAGE_TIMEOUT_S
from masscomm.domain.users import Device
from masscomm.errors import Retry
from masscomm.kafka import topics
from masscomm.observability import traces
from masscomm.stores.delayed_records.in_memory import InMemoryDelayStore
from masscomm.stores.delayed_records.port import DelayedRecord
from masscomm.stores.delivery_ledger.in_memory import InMemoryDeliveryLedger
from masscomm.stores.delivery_ledger.port import from_document, to_document
from masscomm.stores.sends.in_memory import InMemorySends
from tests.support.fakes.crashes import Fuse, KilledError
from tests.support.harness.chain import NOW, delivery, entry, results_of
from tests.support.harness.delivery import Delivery, by_email

SENT = ("sent", None)
DELAYED = ("sending", None)
DAY = 86_400_000
BUSY = Transient("Throttling", throttled=True)


def _busy(*arns: str) -> Callable[[str], Transient | None]:
    return lambda arn: BUSY if arn in arns else None


def test_delayed_recipients_have_a_record_of_their_own() -> None:
    chain = Delivery()
    chain.push.fail = _busy("arn-1", "arn-3")
    bodies = ContentColumn(field="body", values=["for one", "for two", "for three"], index=[0, 1, 2])
    record = delivery([1, 2, 3], content=[ContentColumn(field="title", values=["All"], index=[]), bodies])
    assert chain.deliver(record) == []
    (item,) = chain.delay_store.items.values()
    waits = chain.delayed_delivery(item)
    assert (waits.positions, waits.user_ids, waits.waits) == ([0, 2], [1, 3], 1)
    assert (waits.record_id, waits.parent_id) == (item.id, record.record_id)
    assert item.id == released_id(record.record_id, "back_off", record.range_start, record.range_end)
    assert (waits.range_start, waits.range_end) == (record.range_start, record.range_end)
    assert [column.value_at(row) for row in (0, 1) for column in waits.content] == [
        "All",
        "for one",
        "All",
        "for three",
    ]
    assert waits.content[1].values == ["for one", "for three"]
    assert (item.topic, item.delay_reason) == (topics.DELIVERY, "back_off")


def test_an_e_mail_that_waits_keeps_its_address() -> None:
    chain = Delivery()
    chain.email.fail = _busy("user2@example.com")
    assert chain.deliver(by_email([1, 2, 3])) == []
    chain.email.fail = _busy()
    assert chain.release() == []
    assert sorted(sent.recipient for sent in chain.email.sent) == [f"user{n}@example.com" for n in (1, 2, 3)]


def test_delayed_record_keeps_its_lane_and_foreign_headers() -> None:
    traces.taken()
    chain = Delivery()
    chain.push.fail = _busy("arn-1")
    headers = (("theirs", b"1"), ("masscomm.returned", b"3"))
    place = chain.encoded(delivery([1]), "delivery.critical", headers=headers)
    assert chain.run(chain.use_case, place) == []
    (item,) = chain.delay_store.items.values()
    (span,) = (span for span in traces.taken() if span.name == "under_test")
    assert (item.topic, item.headers) == ("delivery.critical", (("theirs", b"1"), *span.trace.headers))


def test_delays_double_until_expiry_with_one_waiting_outcome() -> None:
    chain = Delivery()
    chain.push.fail = _busy("arn-1")
    ends = NOW + 20 * 60_000
    chain.deliver(delivery([1], expires_at=ends))
    waits = []
    while chain.delay_store.items:
        (item,) = chain.delay_store.items.values()
        waits.append(item.due_ms - chain.clock.now_ms())
        last = item.due_ms
        assert chain.release() == []
    assert all(30_000 * 2**n <= wait <= 60_000 * 2**n for n, wait in enumerate(waits[:-1]))
    assert last == ends
    assert [results_of([outcome]) for outcome in chain.outcomes()] == [
        {(1, "push"): DELAYED},
        {(1, "push"): ("expired",) * 2},
    ]
    assert chain.published_arns() == []


def test_record_without_expiry_expires_after_three_days() -> None:
    chain = Delivery()
    chain.push.fail = _busy("arn-1")
    chain.deliver(delivery([1]))
    tries = 0
    while chain.delay_store.items:
        assert chain.release() == []
        tries += 1
    assert 3 * DAY <= chain.clock.now_ms() - NOW <= 3 * DAY + 60_000
    assert 150 < tries < 300
    assert results_of(chain.outcomes()[-1:]) == {(1, "push"): ("expired", "expired")}


def test_failed_delay_redelivers_the_record_with_the_same_part() -> None:
    chain = Delivery()
    chain.push.fail = _busy("arn-2")
    chain.delay_store.failing = Retry("DynamoDB is down")
    assert chain.deliver(delivery([1, 2])) == [0]
    assert chain.outcomes() == []
    chain.delay_store.failing = None
    chain.push.fail = _busy()
    chain.clock.advance(5)
    assert chain.deliver(delivery([1, 2])) == []
    first = dict(chain.delay_store.items)
    assert chain.published_arns() == ["arn-1"]  # User 2 is not published to, because the delay of user 2 is recorded.
    assert results_of(chain.outcomes()) == {(1, "push"): SENT, (2, "push"): DELAYED}
    chain.clock.advance(5)
    assert chain.deliver(delivery([1, 2])) == []
    assert chain.delay_store.items == first
    assert chain.release() == []
    assert chain.published_arns() == ["arn-1", "arn-2"]


def test_stored_results_have_the_time_of_the_settings() -> None:
    held = Decision(Status.HELD, None, "user", "quiet_hours", 4, settings_changed_at=NOW)
    document = to_document([RecipientResult(position=0, user_id=1, decision=held)])
    assert from_document(document)[0].decision == held


def test_record_released_twice_is_published_once() -> None:
    chain = Delivery()
    chain.push.fail = _busy("arn-2")
    chain.deliver(delivery([1, 2]))
    (item,) = chain.delay_store.items.values()
    chain.push.fail = _busy()
    chain.forget()
    chain.release()
    assert chain.run(chain.use_case, entry(item.value, topic=item.topic, offset=77)) == []
    assert chain.published_arns() == ["arn-1", "arn-2"]
    first, second = chain.outcomes()
    assert (first.record_id, first.positions, first.results) == (second.record_id, second.positions, second.results)


def test_long_outage_costs_a_record_one_call() -> None:
    chain = Delivery()
    for user_id in range(10, 110):
        chain.put_device(user_id, user_id)
    chain.push.fail = lambda _arn: Transient("down")
    assert chain.deliver(delivery(range(10, 110), record_id="a")) == []
    assert chain.clock.monotonic() - NOW / 1000 <= OUTAGE_TIMEOUT_S
    chain.push.calls.clear()
    for name in "bcde":
        assert chain.deliver(delivery(range(10, 110), record_id=name)) == []
        chain.clock.advance(1)
    assert 3 <= len(chain.push.calls) <= 4
    chain.push.fail = _busy()
    assert chain.deliver(delivery(range(10, 110), record_id="f")) == []
    assert chain.push.published
    found_out = len(chain.push.published)
    assert chain.deliver(delivery(range(10, 110), record_id="g")) == []
    assert len(chain.push.published) == found_out + 100
    assert chain.release() == []
    assert len(chain.push.published) == 7 * 100


def test_refused_recipients_block_no_worker() -> None:
    chain = Delivery()
    for user_id in range(10, 60):
        chain.put_device(user_id, user_id)
    refused = {f"arn-{user_id}" for user_id in range(10, 30)}
    began: dict[str, float] = {}

    def fail(arn: str) -> Transient | None:
        began.setdefault(arn, chain.clock.monotonic())
        return BUSY if arn in refused else None

    chain.push.fail = fail
    assert chain.deliver(delivery(range(10, 60))) == []
    assert set(began.values()) == {NOW / 1000}
    assert len(chain.published_arns()) == 30


def _fail(breaker: OutageCircuitBreaker) -> None:
    for _ in range(10):
        breaker.failed()


def test_old_failure_does_not_shorten_the_retry_budget() -> None:
    clock = FixedClock(NOW)
    breaker = OutageCircuitBreaker(clock, 10.0)
    _fail(breaker)
    assert breaker.may_retry(1)
    clock.advance(9.5)
    assert not breaker.may_retry(1)
    assert not breaker.may_call()
    clock.advance(3600)
    assert breaker.may_call()
    _fail(breaker)
    assert breaker.may_retry(1)


def test_refusals_of_one_recipient_do_not_count_as_outage() -> None:
    clock = FixedClock(NOW)
    breaker = OutageCircuitBreaker(clock, 10.0)
    breaker.failed()
    for _ in range(20):
        clock.advance(1)
        breaker.failed(repeated=True)
    assert not breaker.may_retry(1)
    assert breaker.may_call()


def test_success_restores_the_retry_budget_of_all_calls() -> None:
    clock = FixedClock(NOW)
    breaker = OutageCircuitBreaker(clock, 10.0)
    _fail(breaker)
    clock.advance(9)
    breaker.succeeded()
    clock.advance(9)
    breaker.failed()
    assert breaker.may_retry(9)


def test_open_circuit_allows_one_probe_a_second() -> None:
    clock = FixedClock(NOW)
    breaker = OutageCircuitBreaker(clock, 10.0)
    _fail(breaker)
    clock.advance(10)
    assert not breaker.may_retry(1)
    clock.advance(1)
    assert [breaker.may_call() for _ in range(3)] == [True, False, False]
    breaker.failed()
    assert not breaker.may_call()
    clock.advance(1)
    assert breaker.may_call()
    breaker.succeeded()
    assert [breaker.may_call() for _ in range(3)] == [True, True, True]


class FusedStore(InMemoryDelayStore):
    """A delay store that kills its process at a chosen call."""

    def __init__(self, fuse: Fuse) -> None:
        super().__init__()
        self._fuse = fuse

    def put(self, item: DelayedRecord, now_ms: int) -> None:
        self._fuse.step()
        super().put(item, now_ms)

    def claim(self, item: DelayedRecord, now_ms: int) -> bool:
        self._fuse.step()
        return super().claim(item, now_ms)

    def done(self, item: DelayedRecord) -> None:
        self._fuse.step()
        super().done(item)


class KillableDelivery(Delivery):
    """Delivery in slices of two recipients, and the scheduler; the process is killed at step `kill_at`."""

    def __init__(self, kill_at: int, busy_until: dict[int, int]) -> None:
        super().__init__()
        self.fuse = Fuse(kill_at)
        self.delay_store = FusedStore(self.fuse)
        self.producer.fail = self.fuse.step
        self.owners = 0
        for user_id in busy_until:
            self.put_device(user_id, user_id)

        def fail(arn: str) -> Transient | None:
            self.fuse.step()
            return BUSY if self.clock.now_ms() < busy_until[int(arn.removeprefix("arn-"))] else None

        self.push.fail = fail

    def started(self) -> Deliver:
        self.owners += 1
        ledger = InMemoryDeliveryLedger(clock=self.clock, owner=str(self.owners), table=self.table)
        ledger.fail = self.fuse.step
        return self.environment(ledger, unrecorded=2, workers=1)

    def run_to_the_end(self, record: DeliveryRequested) -> int:
        """Deliver the record and its retry records, each until it succeeds. Returns the number of crashes."""
        kills = 0
        environment = self.started()
        logger = Logger()
        todo = [self.encoded(record, topics.DELIVERY)]
        while todo or self.delay_store.items:
            before = len(self.producer.produced)
            try:
                if todo:
                    if self.run(environment, todo[0]) == []:
                        todo.pop(0)
                else:
                    self.clock.advance(60)
                    sweep = ReleaseDueRecords(
                        store=self.delay_store,
                        sends=InMemorySends(),
                        producer=self.producer,
                        clock=self.clock,
                        logger=logger,
                    )
                    sweep.sweep(lambda: 60)
            except KilledError:
                kills += 1
                environment = self.started()
            released = [(t, v) for t, _, v, _ in self.producer.produced[before:] if t == topics.DELIVERY]
            todo += [entry(value, topic=topic, offset=100 + len(todo)) for topic, value in released]
        return kills


def _counted_once(chain: Delivery) -> dict[int, list[str]]:
    """Return each user's statuses as the metrics count them: a repeated outcome id is ignored."""
    learnt: dict[int, list[str]] = {}
    seen: dict[str, object] = {}
    for outcome in chain.outcomes():
        said = results_of([outcome])
        if seen.setdefault(outcome.record_id, said) is said:
            for (user_id, _), (status, _reason) in said.items():
                learnt.setdefault(user_id, []).append(status)
        assert seen[outcome.record_id] == said
    return learnt


@pytest.mark.guarantee("provider_down.crash_loses_no_recipient")
@pytest.mark.parametrize("kill_at", range(1, 60))
def test_kill_at_any_step_gives_each_recipient_one_outcome(kill_at: int) -> None:
    busy = {1: NOW, 2: NOW + 40_000, 3: NOW, 4: NOW + 200_000, 5: NOW + 40_000}
    _check(kill_at, busy)


@settings(max_examples=60)
@given(st.integers(1, 120), st.lists(st.sampled_from([0, 1, 15, 70, 400]), min_size=1, max_size=7))
def test_kill_at_any_step_of_any_outage_loses_no_recipient(kill_at: int, busy_s: list[int]) -> None:
    _check(kill_at, {user_id: NOW + seconds * 1000 for user_id, seconds in enumerate(busy_s, start=1)})


def _check(kill_at: int, busy_until: dict[int, int]) -> None:
    chain = KillableDelivery(kill_at, busy_until)
    kills = chain.run_to_the_end(delivery(busy_until))
    times = Counter(int(push.endpoint_arn.removeprefix("arn-")) for push in chain.push.published)
    assert times.keys() == busy_until.keys()
    assert sum(times.values()) - len(times) <= 2 * kills  # each kill repeats at most one slice of two recipients
    learnt = _counted_once(chain)
    assert {user_id: statuses[-1:] for user_id, statuses in learnt.items()} == {key: ["sent"] for key in busy_until}
    assert all(statuses in (["sent"], ["sending", "sent"]) for statuses in learnt.values())


def test_device_without_endpoint_waits_and_delays_no_other() -> None:
    chain = Delivery()
    chain.directory.put(Device(device_id=9, user_id=9, platform="gcm"))
    assert chain.deliver(delivery([9, 1])) == []
    assert results_of(chain.outcomes()) == {(1, "push"): SENT, (9, "push"): DELAYED}
    chain.put_device(9, 9)
    chain.forget()
    assert chain.release() == []
    assert results_of(chain.outcomes()) == {(9, "push"): SENT}
