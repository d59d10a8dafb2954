"""Faults while recipients are released at the pace of their send."""

from tests.faults.moments import dynamodb
from tests.support.fault_stack.bench import Bench
from tests.support.fault_stack.cell import Send
from tests.support.fault_stack.proxy import Hold
from tests.support.until import until

# The minutes that the two passes take, and the sweeps of the scheduler.
RELEASED_S = 300.0


def checker_killed(bench: Bench, _: Send) -> None:
    """Kill preference_checker between taking the places of a minute and recording its decisions. The places stay taken,
    and each user gets the send once, in a later minute.
    """
    users = bench.shared[:120]
    with bench.stack.dynamodb.fault(Hold(), when=dynamodb("decisions", "PutItem")) as decided:
        sent = bench.emit(users, per_minute=100)
        decided.await_hits()
        bench.kill("preference_checker")
        decided.discard()
    until("the send has ended", lambda: bench.ended(sent), RELEASED_S)
