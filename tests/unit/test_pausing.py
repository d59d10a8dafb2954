"""A paused send: nothing is published during the pause, and each notification ends once after it."""

import random
from dataclasses import replace

import pytest
from aws_lambda_powertools import Logger
from hypothesis import given, settings
from hypothesis import strategies as st

from functions.scheduler.release_due_records import ReleaseDueRecords, SweepResult
from masscomm.domain.delays import PAUSED, RESUMED_AT_HEADER, RetrySchedule
from masscomm.domain.records import RecheckRequested
from masscomm.domain.sends import Send, SendControl, SendKey, controlled
from masscomm.domain.time_limits import CONTROL_SWEPT_S, LEDGER_KEPT_S, PAUSE_LIMIT_S, RETRY_LIFETIME_S
from masscomm.errors import Retry
from masscomm.kafka import topics
from masscomm.kafka.event import parse
from masscomm.stores.delayed_records.port import ControlledSend
from masscomm.stores.sends.port import change
from tests.support.contracts.delay_store import delayed_record
from tests.support.harness.chain import NOW, SEND_ID, delivery, ends, entry, event, recheck, results_of, send
from tests.support.harness.delivery import Delivery
from tests.support.harness.preference_checker import Checker
from tests.support.harness.whole_chain import CHANNELS, USERS, WholeChain, choose_split, reduce_sizes

KEY = SendKey(7, SEND_ID)
HOUR = 3_600_000


def set_control(chain: Checker | Delivery, **values: int | None) -> SendControl:
    send = chain.register.find(SEND_ID) or Send(key=KEY)
    return change(chain.register, send, lambda each: controlled(each, **values)).control


def pause(chain: Checker | Delivery) -> SendControl:
    return set_control(chain, paused_at_ms=chain.clock.now_ms())


def resume(chain: Checker | Delivery) -> None:
    now_ms = chain.clock.now_ms()
    set_control(chain, paused_at_ms=None, resumed_at_ms=now_ms)
    chain.delay_store.put_controlled(ControlledSend(KEY, now_ms))


def cancel(chain: Checker | Delivery) -> None:
    set_control(chain, cancelled_at_ms=NOW, published_before=0)
    chain.delay_store.put_controlled(ControlledSend(KEY, chain.clock.now_ms()))


def move(chain: Checker, send_at_ms: int) -> None:
    set_control(chain, send_at_ms=send_at_ms)
    chain.delay_store.put_controlled(ControlledSend(KEY, chain.clock.now_ms()))


def sweep(chain: Checker | Delivery) -> SweepResult:
    scheduler = ReleaseDueRecords(
        store=chain.delay_store, sends=chain.register, producer=chain.producer, clock=chain.clock, logger=Logger()
    )
    return scheduler.sweep(lambda: 60)


def released(chain: Checker | Delivery) -> list[dict[str, object]]:
    """Release the records that are due, and return the event entries of the released records."""
    before = len(chain.producer.produced)
    sweep(chain)
    return [
        entry(value, topic=topic, offset=500 + place, headers=headers)
        for place, (topic, _, value, headers) in enumerate(chain.producer.produced[before:])
    ]


@pytest.mark.guarantee("pausing.nothing_is_published_meanwhile", "pausing.each_notification_ends_once")
@settings(max_examples=40)
@given(st.integers(0, 2**32), st.booleans())
def test_a_send_paused_at_any_moment_ends_once(seed: int, cancelling: bool) -> None:
    """It is paused and resumed repeatedly, while deliveries are killed and users, settings and templates change."""
    rng = random.Random(seed)  # noqa: S311 - nothing secret
    chain = WholeChain(rng, growing=False, cancelling=cancelling, pausing=True)
    with pytest.MonkeyPatch.context() as patch:
        reduce_sizes(patch)
        choose_split(patch, rng)
        chain.send(None, rng.choice([None, NOW + HOUR]))
    counted = ends(chain.outcomes())
    assert counted.keys() == {(position, channel) for position in range(len(USERS)) for channel in CHANNELS}
    assert all(statuses["cancelled"] <= 1 and statuses["sent"] <= 1 for statuses in counted.values())
    assert sum(statuses["sent"] for statuses in counted.values()) == chain.published
    assert (chain.checker_delay_store.items, chain.delay_store.items) == ({}, {})


# --- preference_checker -----------------------------------------------------------------------------------------------


@pytest.fixture
def checker() -> Checker:
    return Checker()


@pytest.mark.kills(guard="send_controls.paused_request")
@pytest.mark.parametrize("topic", [topics.SEND_MONOLITH, f"{topics.SEND_MONOLITH}.critical"])
def test_a_request_is_held_until_the_send_is_resumed(checker: Checker, topic: str) -> None:
    """No outcome is produced, so that the notifications stay in flight. The critical lane is held, too."""
    pause(checker)
    assert checker.check(send([1, 2]), topic=topic) == []
    assert checker.produced() == []
    [item] = checker.delay_store.items.values()
    assert (item.delay_reason, item.send, item.critical) == (PAUSED, KEY, topic.endswith("critical"))
    assert released(checker) == []
    checker.clock.advance(60)
    resume(checker)
    [again] = released(checker)
    assert checker.run(checker.use_case, again) == []
    assert [each.user_ids for each in checker.builds()] == [[1, 2]]
    assert checker.delay_store.items == {}


def test_a_redelivered_request_is_held_once(checker: Checker) -> None:
    pause(checker)
    checker.check(send([1, 2]))
    checker.clock.advance(60)
    checker.check(send([1, 2]))
    assert len(checker.delay_store.items) == 1


@pytest.mark.kills(guard="send_controls.copy_of_a_pause")
def test_a_record_held_again_during_its_release_is_kept(checker: Checker) -> None:
    """The send is paused again before the sweep has deleted the copy that it has released."""
    pause(checker)
    expiring = recheck([1, 2], expires_at=NOW + HOUR)
    checker.check(expiring, topic=topics.RECHECK)
    [copy] = checker.delay_store.items.values()
    resume(checker)
    pause(checker)
    checker.check(expiring, topic=topics.RECHECK)
    checker.delay_store.done(copy)
    assert [item.due_ms for item in checker.delay_store.items.values()] == [NOW + HOUR]


@pytest.mark.kills(guard="send_controls.decided_request")
def test_a_decided_request_is_not_held(checker: Checker) -> None:
    """A pause may last longer than decisions are kept, and a record that follows from them may be on its way."""
    checker.producer.fail = lambda *_: Retry("killed")
    assert checker.check(send([1, 2])) == [0]
    checker.producer.fail = lambda *_: None
    pause(checker)
    checker.put_users([1], club_id=8)
    assert checker.check(send([1, 2])) == []
    assert checker.delay_store.items == {}
    assert [each.user_ids for each in checker.builds()] == [[1, 2]]


def test_a_cancelled_pause_ends_the_held_requests(checker: Checker) -> None:
    pause(checker)
    checker.check(send([1, 2]))
    cancel(checker)
    [again] = released(checker)
    assert checker.run(checker.use_case, again) == []
    assert set(results_of(checker.outcomes()).values()) == {("cancelled", "cancelled")}


def test_a_held_request_expires_at_its_time(checker: Checker) -> None:
    pause(checker)
    checker.check(recheck([1, 2], expires_at=NOW + HOUR), topic=topics.RECHECK)
    checker.clock.advance(3_600)
    [again] = released(checker)
    assert checker.run(checker.use_case, again) == []
    assert set(results_of(checker.outcomes()).values()) == {("expired", "expired")}


def test_a_pause_at_its_limit_cancels(checker: Checker) -> None:
    """The control is not kept for ever: the send must not continue when it is gone."""
    pause(checker)
    checker.check(send([1, 2]))
    checker.clock.advance(PAUSE_LIMIT_S)
    [again] = released(checker)
    assert checker.run(checker.use_case, again) == []
    assert set(results_of(checker.outcomes()).values()) == {("cancelled", "cancelled")}


def test_a_held_record_released_by_a_fast_clock_is_kept(checker: Checker) -> None:
    """The scheduler's clock is ahead, so it releases the record before this clock reaches the end of the pause."""
    control = pause(checker)
    due_ms = control.held_until_ms(None, NOW)
    assert control.held_until_ms(None, due_ms - 1) > due_ms


def test_a_scheduled_send_is_held_at_its_time(checker: Checker) -> None:
    """A pause before send_at changes nothing until then."""
    pause(checker)
    checker.check(send([1, 2], send_at=NOW + HOUR))
    [item] = checker.delay_store.items.values()
    assert (item.delay_reason, item.due_ms) == ("send_at", NOW + HOUR)
    checker.forget()
    checker.clock.advance(3_600)
    assert checker.run(checker.use_case, *released(checker)) == []
    assert checker.builds() == []
    [item] = checker.delay_store.items.values()
    assert item.delay_reason == PAUSED


def test_retries_are_counted_from_the_end_of_the_pause(checker: Checker) -> None:
    held = recheck([1, 2])
    at = NOW + 20 * 24 * HOUR
    value = checker.codec.encode(topics.RECHECK, "RecheckRequested", held.to_avro())
    headers = [(RESUMED_AT_HEADER, str(at).encode())]
    record = entry(value, topic=topics.RECHECK, headers=headers)
    decoded = checker.use_case.decode(parse(event(record))[0], checker.codec).request
    assert RetrySchedule().deadline_ms(since_ms=decoded.since_ms, expires_at=None) == at + RETRY_LIFETIME_S * 1000
    assert replace(decoded, waited_until=held.waited_until) == held


# --- delivery ---------------------------------------------------------------------------------------------------------


@pytest.mark.kills(guard="send_controls.paused_delivery")
@pytest.mark.kills(guard="send_controls.queued_once")
def test_a_delivery_record_is_held_without_a_lease() -> None:
    chain = Delivery()
    pause(chain)
    other = replace(delivery([3]), record_id="other", send_id="other")
    assert chain.deliver(delivery([1, 2]), other) == []
    assert chain.published_arns() == ["arn-3"]
    [held] = chain.delay_store.items.values()
    assert chain.delayed_delivery(held).waits == 1, "the metrics count a record that has not waited as queued"
    resume(chain)
    [again] = released(chain)
    assert chain.run(chain.use_case, again) == []
    assert chain.published_arns() == ["arn-1", "arn-2", "arn-3"]
    assert results_of(chain.outcomes()) == {(user_id, "push"): ("sent", None) for user_id in (1, 2, 3)}


def test_a_published_record_is_not_held() -> None:
    """The first delivery was killed before its outcome: the recorded results are emitted during the pause."""
    chain = Delivery()
    chain.producer.fail = lambda *_: Retry("killed")
    assert chain.deliver(delivery([1, 2])) == [0]
    chain.producer.fail = lambda *_: None
    chain.forget()
    pause(chain)
    assert chain.deliver(delivery([1, 2])) == []
    assert chain.published_arns() == ["arn-1", "arn-2"]
    assert results_of(chain.outcomes()) == {(1, "push"): ("sent", None), (2, "push"): ("sent", None)}


def published_to_one_of_two() -> Delivery:
    """Return delivery after an invocation whose time ended between the users 1 and 2; the send is paused then."""
    chain = Delivery()

    def slow(arn: str) -> None:
        if arn == "arn-1":
            chain.clock.advance(60)

    chain.push.fail = slow
    assert chain.deliver(delivery([1, 2]), environment=chain.environment(chain.ledger, unrecorded=1)) == [0]
    assert chain.published_arns() == ["arn-1"]
    pause(chain)
    return chain


@pytest.mark.guarantee("pausing.published_part_is_not_held")
@pytest.mark.kills(guard="send_controls.published_part")
def test_a_long_pause_repeats_no_published_message() -> None:
    """A pause may last longer than the ledger keeps results. The outcome is emitted at once, for its receipts."""
    chain = published_to_one_of_two()
    assert chain.deliver(delivery([1, 2])) == []
    assert results_of(chain.outcomes()) == {(1, "push"): ("sent", None)}
    assert chain.deliver(delivery([1, 2])) == [], "it is redelivered once more"
    [item] = chain.delay_store.items.values()
    assert (item.delay_reason, item.send, chain.delayed_delivery(item).user_ids) == (PAUSED, KEY, [2])
    assert chain.delayed_delivery(item).waits == 1, "the metrics count a record that has not waited as queued"
    chain.clock.advance(LEDGER_KEPT_S)
    chain.table.slices.clear()
    chain.table.leases.clear()
    resume(chain)
    [again] = released(chain)
    assert chain.run(chain.use_case, again) == []
    assert chain.published_arns() == ["arn-1", "arn-2"]
    assert ends(chain.outcomes()) == {(0, "push"): {"sent": 1}, (1, "push"): {"sent": 1}}


@pytest.mark.kills(guard="send_controls.resumed_part")
def test_a_part_stored_after_the_pause_is_due_at_once() -> None:
    """A crash separates the recorded pause from the delay store. Sweeps look for paused records for minutes only."""
    chain = published_to_one_of_two()
    chain.delay_store.failing = Retry("DynamoDB does not answer")
    assert chain.deliver(delivery([1, 2])) == [0]
    chain.delay_store.failing = None
    resume(chain)
    chain.clock.advance(CONTROL_SWEPT_S)
    sweep(chain)
    assert list(chain.delay_store.controlled()) == []
    assert chain.deliver(delivery([1, 2])) == []
    [again] = released(chain)
    assert chain.run(chain.use_case, again) == []
    assert chain.published_arns() == ["arn-1", "arn-2"]


def test_a_part_of_a_cancelled_pause_ends_as_cancelled() -> None:
    chain = published_to_one_of_two()
    assert chain.deliver(delivery([1, 2])) == []
    cancel(chain)
    [again] = released(chain)
    assert chain.run(chain.use_case, again) == []
    assert results_of(chain.outcomes()) == {(1, "push"): ("sent", None), (2, "push"): ("cancelled", "cancelled")}


def test_an_expired_delivery_record_is_not_held() -> None:
    chain = Delivery()
    pause(chain)
    assert chain.deliver(delivery([1, 2], expires_at=NOW)) == []
    assert set(results_of(chain.outcomes()).values()) == {("expired", "expired")}


def test_a_record_is_redelivered_if_it_cannot_be_held() -> None:
    chain = Delivery()
    pause(chain)
    chain.delay_store.failing = Retry("DynamoDB does not answer")
    assert chain.deliver(delivery([1, 2])) == [0]
    assert chain.push.published == []
    chain.delay_store.failing = None
    assert chain.deliver(delivery([1, 2])) == []
    assert len(chain.delay_store.items) == 1


# --- scheduler --------------------------------------------------------------------------------------------------------


def test_a_cancelled_scheduled_send_ends_before_its_time(checker: Checker) -> None:
    checker.check(send([1, 2], send_at=NOW + 24 * HOUR))
    checker.forget()
    cancel(checker)
    assert checker.run(checker.use_case, *released(checker)) == []
    assert checker.delay_store.items == {}
    assert set(results_of(checker.outcomes()).values()) == {("cancelled", "cancelled")}


@pytest.mark.kills(guard="send_controls.late_record")
def test_a_record_stored_under_the_earlier_control_is_released(checker: Checker) -> None:
    """An invocation read the control before the request, and stores a scheduled record after the first sweep."""
    cancel(checker)
    assert sweep(checker) == SweepResult()
    late = delayed_record(NOW + 24 * HOUR, send=KEY)
    checker.delay_store.put(late, NOW)
    checker.clock.advance(60)
    assert sweep(checker) == SweepResult(released=1)
    checker.clock.advance(CONTROL_SWEPT_S)
    assert sweep(checker) == SweepResult()
    assert list(checker.delay_store.controlled()) == []


@pytest.mark.kills(guard="send_controls.paused_again")
def test_a_send_paused_again_keeps_its_held_records(checker: Checker) -> None:
    pause(checker)
    checker.check(send([1, 2]))
    resume(checker)
    pause(checker)
    assert sweep(checker) == SweepResult()
    assert len(checker.delay_store.items) == 1


def test_a_sweep_out_of_time_continues_later(checker: Checker) -> None:
    pause(checker)
    checker.check(send([1, 2]))
    resume(checker)
    scheduler = ReleaseDueRecords(
        store=checker.delay_store,
        sends=checker.register,
        producer=checker.producer,
        clock=checker.clock,
        logger=Logger(),
    )
    assert scheduler.sweep(lambda: 1) == SweepResult(complete=False)
    assert scheduler.sweep(lambda: 60) == SweepResult(released=1)


def _backlog(chain: Checker, due_ms: int, **values: object) -> None:
    for number in range(1_000):
        chain.delay_store.put(delayed_record(due_ms, id=f"{due_ms}-{number}", **values), NOW)


def _sweep_in_part(chain: Checker) -> list[str]:
    """Sweep with time for a part of the records. Return the ids of the released records."""
    scheduler = ReleaseDueRecords(
        store=chain.delay_store, sends=chain.register, producer=chain.producer, clock=chain.clock, logger=Logger()
    )
    seconds = iter(range(25, 0, -1))
    assert not scheduler.sweep(lambda: next(seconds)).complete
    return [(key or b"").decode() for _, key, _, _ in chain.producer.produced]


@pytest.mark.guarantee("pausing.resumed_send_and_backlog_take_turns")
@pytest.mark.kills(guard="send_controls.turns")
def test_a_resumed_send_does_not_wait_for_a_backlog(checker: Checker) -> None:
    pause(checker)
    checker.check(send([1, 2]))
    [held] = checker.delay_store.items.values()
    resume(checker)
    _backlog(checker, NOW)
    assert held.id in _sweep_in_part(checker)


def test_a_large_resumed_send_delays_no_due_record(checker: Checker) -> None:
    resume(checker)
    _backlog(checker, NOW + HOUR, send=KEY, delay_reason=PAUSED)
    due = delayed_record(NOW)
    checker.delay_store.put(due, NOW)
    assert due.id in _sweep_in_part(checker)


@pytest.mark.kills(guard="send_controls.error_of_one_send")
def test_an_error_of_one_controlled_send_delays_no_other(checker: Checker) -> None:
    bad, good = SendKey(6, "bad"), delayed_record(NOW + HOUR, send=KEY, delay_reason=PAUSED)
    checker.delay_store.put_controlled(ControlledSend(bad, NOW))
    checker.delay_store.put(good, NOW)
    resume(checker)
    checker.register.control(SendControl(send=bad, fault="KeyError"))
    with pytest.raises(Retry, match="malformed"):
        sweep(checker)
    assert [key for _, key, _, _ in checker.producer.produced] == [good.id.encode()]


# --- another send_at --------------------------------------------------------------------------------------------------


@pytest.mark.kills(guard="send_controls.moved_send")
@pytest.mark.parametrize("send_at_ms", [NOW + HOUR // 2, NOW + 48 * HOUR])
def test_a_moved_send_is_sent_at_its_new_time(checker: Checker, send_at_ms: int) -> None:
    checker.check(send([1, 2], send_at=NOW + HOUR))
    move(checker, send_at_ms)
    checker.forget()
    for _ in range(2):
        assert checker.run(checker.use_case, *released(checker)) == []
    [item] = checker.delay_store.items.values()
    assert (item.due_ms, item.delay_reason) == (send_at_ms, "send_at")
    assert (checker.builds(), checker.outcomes()) == ([], [])
    checker.clock.advance((send_at_ms - NOW) / 1000)
    assert checker.run(checker.use_case, *released(checker)) == []
    [build] = checker.builds()
    assert (build.user_ids, build.waited_until) == ([1, 2], send_at_ms)


@pytest.mark.kills(guard="send_controls.moved_past_expiry")
@pytest.mark.parametrize("user_ids", [[1, 2], [3]])
def test_a_send_moved_past_its_expiry_expires_at_once(checker: Checker, user_ids: list[int]) -> None:
    """The route does not know the expires_at of a send by Kafka. The send must not wait for the new time to end."""
    checker.check(send(user_ids, send_at=NOW + HOUR, expires_at=NOW + 2 * HOUR))
    checker.forget()
    move(checker, NOW + 48 * HOUR)
    assert checker.run(checker.use_case, *released(checker)) == []
    assert checker.delay_store.items == {}
    assert set(results_of(checker.outcomes()).values()) == {("expired", "expired")}


def test_chunks_that_arrive_later_wait_for_the_new_time(checker: Checker) -> None:
    move(checker, NOW + 48 * HOUR)
    checker.check(send([1, 2], send_at=NOW + HOUR))
    assert [item.due_ms for item in checker.delay_store.items.values()] == [NOW + 48 * HOUR]


def test_a_send_moved_back_and_forth_loses_no_record(checker: Checker) -> None:
    """It is moved back to the time of a copy that a sweep has released and not deleted yet."""
    checker.check(send([1, 2], send_at=NOW + HOUR))
    [copy] = checker.delay_store.items.values()
    move(checker, NOW + 2 * HOUR)
    move(checker, NOW + HOUR)
    part = RecheckRequested.from_avro(checker.codec.decode("RecheckRequested", copy.value))
    checker.check(part, topic=topics.RECHECK)
    checker.delay_store.done(copy)
    assert [item.due_ms for item in checker.delay_store.items.values()] == [NOW + HOUR]


def test_a_send_without_send_at_is_not_moved(checker: Checker) -> None:
    move(checker, NOW + HOUR)
    checker.check(send([1, 2]))
    checker.check(recheck([3], why="directory"), topic=topics.RECHECK)
    assert checker.delay_store.items == {}


@pytest.mark.kills(guard="pace.planned")
def test_waiting_recipients_are_planned_anew_once(checker: Checker) -> None:
    """Records that wait for their minute under the new pace are not released again by the next sweep."""
    users = list(range(1, 31))
    checker.put_users(users)
    assert checker.check(send(users, send_id=SEND_ID, per_minute=2)) == []
    assert len(checker.delay_store.items) == 14
    set_control(checker, per_minute=5, pace_revision=1)
    checker.delay_store.put_controlled(ControlledSend(KEY, checker.clock.now_ms()))
    checker.clock.advance(20)
    assert checker.run(checker.use_case, *released(checker)) == []
    # Two of the minute had been released.
    assert len({user for build in checker.builds() for user in build.user_ids}) == 5
    assert released(checker) == []
    set_control(checker, per_minute=100, pace_revision=2)
    checker.delay_store.put_controlled(ControlledSend(KEY, checker.clock.now_ms()))
    checker.clock.advance(60)
    assert checker.run(checker.use_case, *released(checker)) == []
    assert {user for build in checker.builds() for user in build.user_ids} == set(users)


def test_another_tenants_records_are_not_released(checker: Checker) -> None:
    checker.delay_store.put(delayed_record(NOW + HOUR, send=SendKey(8, SEND_ID)), NOW)
    cancel(checker)
    assert sweep(checker) == SweepResult()
    assert len(checker.delay_store.items) == 1
