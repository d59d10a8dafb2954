"""Faults while some of a send's recipients are in quiet hours."""

import time
from datetime import datetime

from local.devstack.demo.directory import next_minute
from local.emulators.sns_stand_in import Rule
from masscomm.domain.statuses import Status
from tests.faults.moments import bigger_mget
from tests.support.fault_stack.bench import Bench, Sent
from tests.support.fault_stack.cell import Send
from tests.support.fault_stack.proxy import Answer, Hold, produce_to
from tests.support.until import until

# The length of the quiet hours in seconds: the directory's update, the kill and the second check must fit.
LAST_S = 20.0


def killed_while_holding(bench: Bench, _: Send) -> None:
    """Kill preference_checker after it has delayed recipients in quiet hours, before the outcome.

    At the redelivery only half of these recipients have quiet hours.
    """
    users = bench.population.grow(60)
    sleepers = [user_id for user_id in users if user_id % 10 >= 6]
    ends = next_minute(LAST_S)
    bench.population.sleep(sleepers, ends)
    with bench.stack.kafka.fault(Hold(), when=produce_to("outcome")) as outcome_produced:
        sent = bench.emit(users)
        outcome_produced.await_hits()
        with bench.stack.opensearch.fault(Answer(status=503, body=b"{}"), when=bigger_mget) as refused:
            bench.kill("preference_checker")
            outcome_produced.discard()
            refused.await_hits()
            bench.population.sleep(sleepers[::2], None)
    until("all of them are held", lambda: _with_status(bench, sent, Status.HELD) == set(sleepers))
    _until_they_end(ends)


def begin_while_provider_is_down(bench: Bench, _: Send) -> None:
    """Quiet hours begin between the decision and SNS' recovery: recipients get the push after their quiet hours."""
    users = bench.population.grow(20)
    sleepers = [user_id for user_id in users if user_id % 10 >= 6]
    bench.stack.sns.answer(Rule(code="reset_before"))
    sent = bench.emit(users)
    until(
        "the recipients are delayed by the outage", lambda: _with_status(bench, sent, Status.SENDING) >= set(sleepers)
    )
    ends = next_minute(LAST_S)
    bench.population.sleep(sleepers, ends)
    bench.stack.sns.clear()
    until("all of them are held", lambda: _with_status(bench, sent, Status.HELD) == set(sleepers))
    _until_they_end(ends)


def _until_they_end(ends: datetime) -> None:
    assert time.time() < ends.timestamp(), "the quiet hours ended before the check: the test shows nothing"
    until("their quiet hours are over", lambda: time.time() >= ends.timestamp(), 90, every_s=0.5)


def _with_status(bench: Bench, sent: Sent, status: Status) -> set[int]:
    return {
        user_id
        for record in bench.outcomes.of(sent.send_id)
        for user_id, place in zip(record["user_ids"], record["result_index"], strict=True)
        if record["results"][place]["status"] == status
    }
