"""Faults while digests close."""

import json
from collections.abc import Set

from masscomm.domain.statuses import Status
from tests.faults.moments import dynamodb
from tests.support.fault_stack.bench import Bench, Sent
from tests.support.fault_stack.cell import Send
from tests.support.fault_stack.proxy import Hold, produce_to
from tests.support.until import until

# A digest of one minute, with the template of the examples.
DIGEST = json.dumps({"template": "news_digest", "window": "1m"})
# The time in which the minute ends and the scheduler releases its records.
RELEASED_S = 150.0


def checker_killed(bench: Bench, _: Send) -> None:
    """Kill preference_checker between joining digests and recording it, then between closing digests and producing
    their messages. Each user gets one message with both sends.
    """
    users = bench.population.grow(40)
    with bench.stack.dynamodb.fault(Hold(), when=dynamodb("decisions", "PutItem")) as decided:
        first = bench.emit(users, is_collected=True, digest=DIGEST)
        decided.await_hits()
        bench.kill("preference_checker")
        decided.discard()
    second = bench.emit(users, is_collected=True, digest=DIGEST)
    collected = {user for user, fate in second.fates.items() if fate == {"digested"}}
    sends = (first, second)
    until(
        "both sends are collected", lambda: all(_collected(bench, sent) >= collected for sent in sends), bench.timeout_s
    )
    with bench.stack.kafka.fault(Hold(), when=produce_to("send.api")) as produced:
        produced.await_hits(timeout_s=RELEASED_S)
        bench.kill("preference_checker")
        produced.discard()
    until("both sends have ended", lambda: all(map(bench.ended, sends)), bench.timeout_s)
    rules = [bench.outcomes.rules(sent.send_id, Status.DIGESTED) for sent in sends]
    assert rules[0].keys() == collected
    assert rules[0] == rules[1], "a user has two digests"
    for user_id, rule in rules[0].items():
        bench.expect_send(rule.removeprefix("digest "), [user_id])


def _collected(bench: Bench, sent: Sent) -> Set[int]:
    return bench.outcomes.rules(sent.send_id, Status.COLLECTED).keys()
