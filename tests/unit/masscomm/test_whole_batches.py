"""Batches that their event source mapping retries whole: the driver keeps the rules of provisioned mode."""

from dataclasses import replace

import pytest

from functions.scheduler.reschedule_records import CRASHED
from masscomm.chain.delayer import DelayedProducer
from masscomm.chain.whole_batches import PARTS, BatchFailed
from masscomm.errors import DeadLetter, Retry, Stop
from masscomm.kafka import topics
from masscomm.kafka.event import parse
from masscomm.kafka.producer import NoProducer
from masscomm.stores.delayed_records.in_memory import InMemoryDelayStore
from tests.support.harness.chain import Context, entry, event, send
from tests.support.harness.on_demand import RETRIES, OnDemand
from tests.support.harness.relay import Relay
from tests.support.harness.reschedule_records import Rescheduler

BAD = 2
DOWN = Retry("the directory is down")


def test_a_batch_that_succeeds_costs_one_write() -> None:
    function = OnDemand()
    assert function.until_done(0, 1, 2) == ["done"]
    assert function.marks.calls == 1
    assert function.relayed() == [0, 1, 2]


@pytest.mark.kills(guard="whole_batches.done_once")
@pytest.mark.kills(guard="whole_batches.end_is_marked")
def test_records_that_are_done_are_not_processed_again() -> None:
    function = OnDemand(failing=[BAD], error=DOWN)
    assert function.invoke(0, 1, BAD, 3) == "failed"
    function.failing = ()
    assert function.until_done(0, 1, BAD, 3) == ["done"]
    assert function.invocations == [[0, 1, BAD, 3], [BAD]]
    assert sorted(function.relayed()) == [0, 1, BAD, 3]


@pytest.mark.kills(guard="whole_batches.retries")
def test_record_that_fails_is_handed_over_after_its_retries() -> None:
    function = OnDemand(failing=[BAD], error=DOWN)
    assert function.until_done(0, BAD) == [*["failed"] * RETRIES, "done"]
    (document,) = function.handed_over()
    assert document["requestContext"]["approximateInvokeCount"] == RETRIES + 1
    assert document["responseContext"]["functionError"] is None
    assert [record.offset for record in parse(document["payload"])] == [BAD]
    assert function.relayed() == [0]


@pytest.mark.kills(guard="whole_batches.crashes")
@pytest.mark.parametrize("crashing", [[BAD], [0, BAD], [3]], ids=str)
def test_record_that_crashes_is_handed_over_alone(crashing: list[int]) -> None:
    """Good records are processed once, but those of the first crash, which is before any mark."""
    function = OnDemand(crashing=crashing)
    ends = function.until_done(0, 1, BAD, 3)
    assert ends == [*["crashed"] * (1 + len(crashing) * (RETRIES + 1)), "done"]
    found = {record.offset: each for each in function.handed_over() for record in parse(each["payload"])}
    assert sorted(found) == crashing
    for document in found.values():
        assert document["responseContext"]["functionError"] == "Unhandled"
        assert document["requestContext"]["approximateInvokeCount"] == RETRIES + 1
    good = sorted({0, 1, BAD, 3} - set(crashing))
    later = [offset for invocation in function.invocations[1:] for offset in invocation if offset in good]
    assert sorted(later) == good
    assert sorted(set(function.relayed())) == good


def test_a_crashing_record_of_a_large_batch_is_found() -> None:
    offsets = range(30 * PARTS)
    function = OnDemand(crashing=[1234])
    ends = function.until_done(*offsets)
    # The whole batch, a part of 30 records, and then the record alone.
    assert ends == [*["crashed"] * (2 + RETRIES + 1), "done"]
    assert {len(set(function.relayed())), len(function.handed_over())} == {len(offsets) - 1, 1}
    assert max(len(invocation) for invocation in function.invocations[2:]) <= len(offsets)


def test_crash_after_an_end_is_no_crash_of_the_earlier_record() -> None:
    """An invocation that failed and ended says nothing about the records that it had begun."""
    function = OnDemand(crashing=[BAD])
    assert [function.invoke(0, BAD, 3), function.invoke(0, BAD, 3)] == ["crashed", "crashed"]
    function.crashing, function.failing, function.error = (), (0, BAD, 3), DOWN
    assert function.invoke(0, BAD, 3) == "failed"
    function.failing = ()
    assert function.invoke(0, BAD, 3) == "done"
    assert function.handed_over() == []


def test_fault_of_one_record_fails_no_other() -> None:
    function = OnDemand(failing=[BAD], error=KeyError("enabled"))
    assert function.invoke(0, BAD, 3) == "failed"
    assert function.relayed() == [0, 3]


def test_a_dead_letter_is_no_failure() -> None:
    function = OnDemand(failing=[BAD], error=DeadLetter("invalid", "bad"))
    assert function.until_done(0, BAD) == ["done"]
    assert [each["masscomm.reason"] for each in function.chain.dead_letters()] == ["invalid"]


def test_misconfigured_function_uses_up_no_attempts_by_crash() -> None:
    function = OnDemand(failing=[BAD], error=Stop("no permission"))
    for _ in range(2 * RETRIES):
        with pytest.raises(Stop):
            function.invoke(0, BAD)
    assert function.handed_over() == []
    assert not function.marks.begin(next(iter(function.marks.stored)), 0).crashed


def test_handing_over_is_repeated_while_kafka_is_down() -> None:
    function = OnDemand(failing=[BAD], error=DOWN)
    for _ in range(RETRIES):
        function.invoke(0, BAD)
    function.chain.producer.fail = lambda topic, _: Retry("Kafka is down") if topic == topics.ON_FAILURE else None
    assert function.invoke(0, BAD) == "failed"
    function.chain.producer.fail = lambda *_: None
    assert function.until_done(0, BAD) == ["done"]
    assert len(function.handed_over()) == 1


def test_record_too_large_for_on_failure_is_handed_over_bare() -> None:
    """The scheduler reads it from its topic, by its position."""
    function = OnDemand(failing=[BAD], error=DOWN)
    for _ in range(RETRIES):
        function.invoke(0, BAD)
    function.chain.producer.fail = lambda topic, value: (
        DeadLetter("too_large", "") if topic == topics.ON_FAILURE and b'"payload"' in (value or b"") else None
    )
    assert function.invoke(0, BAD) == "done"
    (document,) = function.handed_over()
    assert document["KafkaBatchInfo"]["recordsInfo"] == {"send.monolith-0": {"firstRecordOffset": str(BAD)}}


@pytest.mark.kills(guard="whole_batches.raised")
def test_endless_function_raises_in_the_place_of_a_response() -> None:
    function = OnDemand(failing=[BAD], error=DOWN)
    function.chain.driver = replace(function.chain.driver, whole_batches=None)
    for _ in range(2 * RETRIES):
        assert function.invoke(0, BAD) == "failed"
    assert function.handed_over() == []
    assert function.marks.calls == 0


def test_scheduler_counts_the_crash_of_a_handed_over_record() -> None:
    function, rescheduler = OnDemand(crashing=[BAD]), Rescheduler()
    function.until_done(0, BAD)
    (value,) = function.chain.values(topics.ON_FAILURE)
    assert rescheduler.run(rescheduler.use_case, entry(value, topic=topics.ON_FAILURE)) == []
    assert dict(rescheduler.delayed_record().headers)[CRASHED] == b"1"


def test_function_without_a_broker_hands_over_by_the_scheduler() -> None:
    function, store = OnDemand(failing=[BAD], error=DOWN), InMemoryDelayStore()
    clock = function.chain.clock
    function.chain.driver = replace(
        function.chain.driver, producer=NoProducer(), on_failure=DelayedProducer(store=store, clock=clock)
    )
    records = function.chain.encoded(send([1]), topics.SEND_MONOLITH)

    def down() -> None:
        raise DOWN

    for _ in range(RETRIES):
        with pytest.raises(BatchFailed):
            function.chain.driver.run(event(records), Context(clock), Relay(look_up=down))
    function.chain.driver.run(event(records), Context(clock), Relay(look_up=down))
    (item,) = store.items.values()
    assert (item.topic, item.due_ms) == (topics.ON_FAILURE, clock.now_ms())
    assert b'"payload"' in item.value
