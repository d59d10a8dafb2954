"""What is done to processes, and to what they take for granted, while a cell's send is on its way."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Message

from devstack.demo.records import TopicReader
from emulators.sns_stand_in import Rule
from masscomm.domain.lanes import Lane
from masscomm.kafka import topics
from tests.faults.moments import (
    HALF_A_SLICE,
    INSIDE_A_SLICE,
    WORKERS,
    Moment,
    asks_for_user,
    bigger_mget,
    on_its_way,
    path,
    received,
)
from tests.support.fault_stack.bench import CHAIN, Bench, ExtraEnvironment, tail
from tests.support.fault_stack.cell import FaultOf, Send
from tests.support.fault_stack.proxy import Answer, Delay, Hold, HoldAnswer, produce_to
from tests.support.harness.chain import entry, event
from tests.support.until import until


def none(bench: Bench, send: Send) -> None:
    """Nothing."""
    send()


def killed(function: str, topic: str, moment: Moment) -> FaultOf:
    """kill -9 before its records reach the broker, when a part of them has, or when all have and it does not know."""

    def fault(bench: Bench, send: Send) -> None:
        action = HoldAnswer() if moment == "after" else Hold()
        with bench.stack.kafka.fault(action, when=produce_to(topic), after=int(moment == "middle")) as held:
            send()
            held.await_hits()
            bench.kill(function)
            held.discard()

    return fault


def killed_publishing(bench: Bench, send: Send) -> None:
    """kill -9 of delivery when some slices are recorded, half of the next is published, and calls are unanswered."""
    bench.stack.sns.answer(Rule(code="hold", after=INSIDE_A_SLICE))
    send()
    bench.await_held(1)
    bench.kill("delivery")


def every_function_killed(bench: Bench, send: Send) -> None:
    """kill -9 of every function's process, one after another, spread over the send."""
    names = sorted(bench.functions(), key=lambda name: (name not in CHAIN, name))
    bench.stack.sns.answer(Rule(code="slow", delay_s=0.1))
    send()
    [sent] = bench.sends
    total = len(sent.pairs)
    for number, name in enumerate(names):
        wanted = number * total // (2 * len(names))
        until("a part is published", lambda wanted=wanted: len(received(bench)) >= wanted)  # type: ignore[misc]
        bench.kill(name)


def critical_killed_during_bulk(bench: Bench, send: Send) -> None:
    """kill -9 of the critical lane's delivery in the middle of its send, while a bulk send is on its way."""
    on_its_way(bench, send)
    sent = bench.emit(bench.shared[500:900], critical=True)
    ours = set(sent.pairs)
    until("a part of the critical send is published", lambda: len(ours & bench.received().keys()) > HALF_A_SLICE)
    bench.kill("delivery-critical")


def timed_out(bench: Bench, send: Send) -> None:
    """Delivery stops in the middle of publishing, until the host ends it for taking too long."""
    with bench.stack.configured({"delivery": {"timeout_s": 20}}):
        bench.stack.sns.answer(Rule(code="hold", after=INSIDE_A_SLICE))
        send()
        bench.await_held(1)
        [process] = bench.processes("delivery")
        bench.freeze("delivery")
        bench.stack.sns.clear()
        until("the host ends it", lambda: not process.is_running())
        bench.settle()


def slower_than_an_invocation(bench: Bench, send: Send) -> None:
    """The provider takes its time, and an invocation ends before its record: in peace, between two calls."""
    with bench.stack.configured({"delivery": {"timeout_s": 20}}):
        bench.stack.sns.answer(Rule(code="slow", delay_s=2.0))
        send()
        until("it goes on in another invocation", lambda: bench.failures() > 0, every_s=0.1)
        bench.stack.sns.clear()
        bench.settle()


def times_out_again_and_again(bench: Bench, send: Send) -> None:
    """What a function needs hangs for longer than the function may take, until its records were sent to on-failure
    often."""
    few = {"CRASHES_UNTIL_DEAD_LETTER": "1", "CHAIN_TIMEOUT_S": "4"}
    # Less would be no time-out: a function that begins with less than it keeps for its answer begins nothing.
    builder = {"timeout_s": 4, "event_source": {"attempts": 1}}
    with bench.stack.configured({"builder": builder, "scheduler": {"environment": few}}):
        before, letters = bench.records(topics.ON_FAILURE), bench.records(topics.DEAD_LETTER)

        def often() -> bool:
            return bench.records(topics.ON_FAILURE) >= before + 3 or bench.records(topics.DEAD_LETTER) > letters

        with bench.stack.opensearch.fault(Delay(8), when=asks_for_user(bench.shared[5])):
            send()
            until("it was sent to on-failure often", often, 90, every_s=0.2)


def crashes_again_and_again(bench: Bench, send: Send) -> None:
    """One record ends its function's process each time; the others of its batch go on."""
    few = {"CRASHES_UNTIL_DEAD_LETTER": "1"}
    with bench.stack.configured({"builder": {"event_source": {"attempts": 2}}, "scheduler": {"environment": few}}):
        users = list(bench.shared[1000:1120])
        marked = users[5]  # who wants it
        # Those of the record who are passed to the builder end with it.
        with bench.stack.opensearch.fault(Hold(), when=asks_for_user(marked)) as asked:
            sent = bench.emit(users)
            sent.fates = {
                user_id: frozenset({"dead_letter"}) if fate in ({"sent"}, {"no_device"}) else fate
                for user_id, fate in sent.fates.items()
            }
            sent.calls = {}
            send()
            hits = 0

            def dead_lettered() -> bool:
                nonlocal hits
                if asked.hits > hits:
                    hits = asked.hits
                    bench.kill("builder")
                return bench.ended(sent)

            until("it is dead-lettered", dead_lettered, 120, every_s=0.05)
        bench.settle()


def twice(bench: Bench, send: Send) -> None:
    """A second environment of delivery is invoked with the record while the first publishes it."""
    with _extra_environment(bench) as (extra, records):
        bench.stack.sns.answer(Rule(code="slow", delay_s=0.05))
        send()
        extra.invoke(_event_of(records))
        answer = extra.answer()
        assert answer == {"batchItemFailures": []}, answer


def asleep(bench: Bench, send: Send) -> None:
    """Delivery is stopped in the middle of publishing for longer than its lease, while another finishes the record.

    The record is one slice, so that nothing but its lease says that the time is over.
    """
    with _extra_environment(bench, topics.in_lane(topics.DELIVERY, Lane.SMALL)) as (extra, records):
        bench.stack.sns.answer(Rule(code="hold"))
        send()
        until("each worker is at a call", lambda: bench.stack.sns.counts().held == WORKERS, every_s=0.05)
        bench.freeze("delivery")
        bench.stack.sns.clear()
        extra.invoke(_event_of(records))
        answer = extra.answer()
        assert answer == {"batchItemFailures": []}, answer
        published = len(bench.stack.sns.received())
        bench.thaw("delivery")
        bench.settle()
        begun = len(bench.stack.sns.received()) - published
        assert begun == 0, f"{begun} calls for a record that is another's"


def again_in_another_lane(bench: Bench, send: Send) -> None:
    """The record of a send to few is in bulk's queue as well, while the first one is delivered."""
    records = tail(bench, topics.in_lane(topics.BUILD, Lane.SMALL))
    try:
        bench.stack.sns.answer(Rule(code="slow", delay_s=0.05))
        send()
        bench.produce(topics.BUILD, [_known(message.value()) for message in _next(records)], partition=0)
    finally:
        records.close()
    deliveries = bench.records(topics.DELIVERY)
    until("bulk has it, too", lambda: bench.records(topics.DELIVERY) > deliveries, every_s=0.05)


def redelivered_after_counting(bench: Bench, send: Send) -> None:
    """Each record of a send is redelivered once it is counted; then there is another send, which is counted after
    it."""
    names = [
        topic.name
        for topic in topics.chain_topics()
        if topic.schema in ("SendRequested", "DeliveryRequested", "NotificationOutcome")
    ]
    records = TopicReader(bench.stack.config.kafka_bootstrap, names, from_beginning=False)
    try:
        send()
        bench.settle()
        [sent] = bench.sends
        bench.await_counted(sent)
        for message in list(records.poll()):
            bench.produce(_known(message.topic()), [_known(message.value())], partition=message.partition() or 0)
    finally:
        records.close()
    bench.settle()
    bench.emit(bench.shared[500:600])


@contextmanager
def _extra_environment(bench: Bench, topic: str = topics.DELIVERY) -> Iterator[tuple[ExtraEnvironment, TopicReader]]:
    """A warm environment of delivery, and a topic's records for it from now on."""
    extra = bench.extra_environment("delivery")
    records = tail(bench, topic)
    try:
        yield extra, records
    finally:
        records.close()
        extra.close()


def _event_of(records: TopicReader) -> dict[str, Any]:
    """An event of the next record or records."""
    return event(
        *(
            entry(
                message.value(),
                topic=message.topic() or "",
                partition=message.partition() or 0,
                offset=message.offset() or 0,
                timestamp=message.timestamp()[1],
                key=message.key(),
            )
            for message in _next(records)
        )
    )


def _next(records: TopicReader) -> list[Message]:
    """The next record or records, once there are some."""
    found: list[Message] = []

    def there() -> bool:
        found.extend(records.poll())
        return bool(found)

    until("a record", there, every_s=0.005)
    return found


def _known[T](value: T | None) -> T:
    assert value is not None
    return value


def opt_out_between(bench: Bench, send: Send) -> None:
    """Delivery is killed inside a record; before it is redelivered, one who was sent to and one who was not opt out."""
    bench.stack.sns.answer(Rule(code="hold", after=INSIDE_A_SLICE))
    send()
    bench.await_held(1)
    with bench.stack.opensearch.fault(Answer(status=503, body=b"{}"), when=path("/devices/_search")) as refused:
        bench.kill("delivery")
        bench.stack.sns.clear()
        refused.await_hits()
        [sent] = bench.sends
        reached = {notification for notification, _ in received(bench)}
        able = [user_id for user_id in sorted(sent.calls) if len(sent.calls[user_id]) == 1]
        first = able[0]
        later = next(user_id for user_id in reversed(able) if sent.calls[user_id][0][0] not in reached)
        assert sent.calls[first][0][0] in reached
        bench.population.opt_out([first, later])
        sent.fates[later] = frozenset({"opted_out"})


def recorded_decision_counts(bench: Bench, send: Send) -> None:
    """The checker is killed when its records are out and its outcome is not; then one who was passed on opts out."""
    with bench.stack.kafka.fault(HoldAnswer(), when=produce_to("build")) as held:
        send()
        held.await_hits()
        with bench.stack.opensearch.fault(Answer(status=503, body=b"{}"), when=bigger_mget) as refused:
            bench.kill("preference_checker")
            held.discard()
            refused.await_hits()
            [sent] = bench.sends
            bench.population.opt_out([min(sent.calls)])
    # Delivery may still honour it; that is the one other end there may be.
    sent.fates[min(sent.calls)] = frozenset({"sent", "opted_out"})


def newcomer(bench: Bench, _: Send) -> None:
    """People are created and sent to while change data capture is down: not to know them is no reason to drop them."""
    bench.stack.stack.kill("connect")
    try:
        users = bench.population.insert(10)
        bench.emit(users)
        with bench.stack.opensearch.fault(Delay(0), when=path("/_mget")) as asked:
            asked.await_hits(3)
    finally:
        bench.stack.stack.restart("connect")


def server_killed(name: str) -> FaultOf:
    """kill -9 of a server while the send is on its way, and its start on the data it had."""

    def fault(bench: Bench, send: Send) -> None:
        on_its_way(bench, send)
        bench.stack.stack.kill(name)
        bench.killed += name == "lambda_host"  # and every function with it
        bench.stack.stack.restart(name)

    return fault
