"""Faults of processes, and of the servers that they depend on, while a cell's send is under way."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Message

from local.devstack.demo.records import TopicReader
from local.emulators.sns_stand_in import Rule
from masscomm.domain.lanes import Lane
from masscomm.kafka import topics
from tests.faults.moments import (
    HALF_A_SLICE,
    INSIDE_A_SLICE,
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
from tests.support.fault_stack.stack import WORKERS
from tests.support.harness.chain import entry, event
from tests.support.until import WaitTimeoutError, until


def none(bench: Bench, send: Send) -> None:
    """Request the send without a fault."""
    send()


def killed(function: str, topic: str, moment: Moment) -> FaultOf:
    """Kill a function before its records reach the broker, between two of them, or before their acknowledgement."""

    def fault(bench: Bench, send: Send) -> None:
        action = HoldAnswer() if moment == "after" else Hold()
        with bench.stack.kafka.fault(action, when=produce_to(topic), after=int(moment == "middle")) as held:
            send()
            held.await_hits()
            bench.kill(function)
            held.discard()

    return fault


def killed_publishing(bench: Bench, send: Send) -> None:
    """Kill delivery when some slices are recorded, half of the next is published, and calls are unanswered."""
    bench.stack.sns.answer(Rule(code="hold", after=INSIDE_A_SLICE))
    send()
    bench.await_held(1)
    bench.kill("delivery")


def every_function_killed(bench: Bench, send: Send) -> None:
    """Kill every function's process, one after another, throughout the send."""
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
    """Kill the critical lane's delivery in the middle of its send, while a bulk send is being delivered."""
    on_its_way(bench, send)
    sent = bench.emit(bench.shared[500:900], critical=True)
    ours = set(sent.pairs)
    until("a part of the critical send is published", lambda: len(ours & bench.received().keys()) > HALF_A_SLICE)
    bench.kill("delivery-critical")


def timed_out(bench: Bench, send: Send) -> None:
    """Stop delivery in the middle of publishing, until the host kills it at its time-out."""
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
    """Slow the provider down, so that an invocation ends without an error before its record is finished."""
    with bench.stack.configured({"delivery": {"timeout_s": 20}}):
        bench.stack.sns.answer(Rule(code="slow", delay_s=2.0))
        send()
        until("the record continues in another invocation", lambda: bench.failures() > 0, every_s=0.1)
        bench.stack.sns.clear()
        bench.settle()


def times_out_repeatedly(bench: Bench, send: Send) -> None:
    """Delay look-ups beyond the function's time-out, until its records have been sent to on-failure several times."""
    few = {"CRASHES_UNTIL_DEAD_LETTER": "1", "CHAIN_TIMEOUT_S": "4"}
    # With a shorter time limit the function would begin no work, because it reserves time for its response.
    builder = {"timeout_s": 4, "event_source": {"attempts": 1}}
    with bench.stack.configured({"builder": builder, "scheduler": {"environment": few}}):
        before, letters = bench.records(topics.ON_FAILURE), bench.records(topics.DEAD_LETTER)

        def often() -> bool:
            return bench.records(topics.ON_FAILURE) >= before + 3 or bench.records(topics.DEAD_LETTER) > letters

        with bench.stack.opensearch.fault(Delay(8), when=asks_for_user(bench.shared[5])):
            send()
            until("the records were sent to on-failure several times", often, 90, every_s=0.2)


def with_state(fault: FaultOf) -> FaultOf:
    """Inject a fault once the directory's state in memory has the devices."""

    def once_fed(bench: Bench, send: Send) -> None:
        bench.population.publish_states()
        directory = bench.state_directory()
        try:
            until("the state has the devices", lambda: bench.population.differing_in(directory) is None, every_s=0.2)
        except WaitTimeoutError as late:
            raise WaitTimeoutError(f"{late}: {bench.population.differing_in(directory)}") from late
        fault(bench, send)

    return once_fed


def crashes_repeatedly(bench: Bench, send: Send) -> None:
    """One record crashes its function each time; the other records of its batch are processed."""
    few = {"CRASHES_UNTIL_DEAD_LETTER": "1"}
    with bench.stack.configured({"builder": {"event_source": {"attempts": 2}}, "scheduler": {"environment": few}}):
        users = list(bench.shared[1000:1120])
        marked = users[5]
        # Recipients that reach the builder are dead-lettered with the record that crashes it.
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
    """Freeze delivery in the middle of publishing for longer than its lease, while another environment finishes.

    The record is one slice, so that only the lease can stop the frozen environment.
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
        assert begun == 0, f"{begun} calls for a record whose lease another environment has"


def repeated_in_another_lane(bench: Bench, send: Send) -> None:
    """Produce the record of a small send to a bulk queue as well, while the first copy is delivered."""
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
    """Each record of a send is redelivered after it is counted; then another send is counted."""
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
    """Return a warm environment of delivery, and a reader of the new records of a topic."""
    extra = bench.extra_environment("delivery")
    records = tail(bench, topic)
    try:
        yield extra, records
    finally:
        records.close()
        extra.close()


def _event_of(records: TopicReader) -> dict[str, Any]:
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
    """Kill delivery inside a record; before the redelivery, a user with and a user without the message opt out."""
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
    """Kill preference_checker after its records and before its outcome; then an allowed user opts out."""
    with bench.stack.kafka.fault(HoldAnswer(), when=produce_to("build")) as held:
        send()
        held.await_hits()
        with bench.stack.opensearch.fault(Answer(status=503, body=b"{}"), when=bigger_mget) as refused:
            bench.kill("preference_checker")
            held.discard()
            refused.await_hits()
            [sent] = bench.sends
            bench.population.opt_out([min(sent.calls)])
    # Both results are right, because delivery may still apply the opt-out.
    sent.fates[min(sent.calls)] = frozenset({"sent", "opted_out"})


def new_user(bench: Bench, _: Send) -> None:
    """Users created while change data capture is down are delayed, not suppressed as unknown."""
    bench.stack.stack.kill("connect")
    try:
        users = bench.population.insert(10)
        bench.emit(users)
        with bench.stack.opensearch.fault(Delay(0), when=path("/_mget")) as asked:
            asked.await_hits(3)
    finally:
        bench.stack.stack.restart("connect")


def server_killed(name: str) -> FaultOf:
    """Kill a server during the send, and restart it on its data."""

    def fault(bench: Bench, send: Send) -> None:
        on_its_way(bench, send)
        bench.stack.stack.kill(name)
        bench.killed += name == "lambda_host"  # The host ends every function process when it ends.
        bench.stack.stack.restart(name)

    return fault
