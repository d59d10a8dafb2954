"""kill -9 of every function's process during a broadcast: everybody is accounted for, duplicates are counted."""

import io
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import psutil
import pytest
from rich.console import Console

from devstack.demo.oracle import Ask
from devstack.demo.report import Checks, Report
from devstack.demo.run import Demo
from devstack.demo.waiting import Pending
from devstack.stack import Stack
from examples.monolith.seed import BIG_CLUB, user_ids

pytestmark = pytest.mark.xdist_group("e2e")

USERS = 1_500
CHUNK_SIZE = 100
# The chain's functions in the order in which a broadcast keeps them busy; the others follow.
CHAIN = ("preference_checker", "builder", "delivery")


@pytest.fixture
def demo(stack: Stack) -> Iterator[Demo]:
    with ExitStack() as resources:
        yield Demo(stack, USERS, Console(file=io.StringIO(), width=140), Report(), Checks(), resources)


def test_everybody_is_accounted_for(
    stack: Stack, demo: Demo, record_property: Callable[[str, object], None], capsys: pytest.CaptureFixture[str]
) -> None:
    demo.fill(USERS)
    demo.await_same()
    demo.await_registrar()
    processes = function_processes(stack)
    assert {process.environ()["AWS_LAMBDA_FUNCTION_NAME"] for process in processes} >= set(CHAIN)

    ask = Ask(club_id=BIG_CLUB, type="news", to_users=user_ids(BIG_CLUB, USERS))
    sent = demo.by_kafka("broadcast", ask, chunk_size=CHUNK_SIZE)
    killed = []
    for number, process in enumerate(processes):
        # Spread over the broadcast; before the first outcome nothing has begun.
        wanted = 1 + number * (USERS // 2) // len(processes)

        def far_enough(wanted: int = wanted) -> Pending | None:
            done = demo.outcomes.accounted(sent.send_id)
            return None if done >= wanted else Pending("outcomes", done, wanted)

        demo.waiter.until("the broadcast is under way", far_enough, timeout_s=60, every_s=0.01, quiet=True)
        name = process.environ()["AWS_LAMBDA_FUNCTION_NAME"]
        process.kill()
        killed.append(name)

    accounted_when_all_were_killed = demo.outcomes.accounted(sent.send_id)
    demo.await_outcomes(sent, "everybody is accounted for", timeout_s=120)
    demo.await_statuses()
    demo.compare()

    assert demo.checks.mismatches == []
    assert accounted_when_all_were_killed < USERS, "the processes were killed too late to matter"
    assert set(killed) >= set(CHAIN)
    [row] = demo.report.sends
    record_property("killed", ", ".join(killed))
    record_property("provider calls", row.calls)
    record_property("duplicates", row.duplicates)
    with capsys.disabled():
        sys.stdout.write(f"\n{len(killed)} processes killed, {row.calls} provider calls, {row.duplicates} duplicates\n")


def function_processes(stack: Stack) -> list[psutil.Process]:
    """The functions' processes (each is one execution environment), those of the chain first."""
    host = psutil.Process(stack.pid("lambda_host"))
    named = [
        (name, process)
        for process in host.children(recursive=True)
        if (name := process.environ().get("AWS_LAMBDA_FUNCTION_NAME")) is not None
    ]
    rank = {name: number for number, name in enumerate(CHAIN)}
    return [process for name, process in sorted(named, key=lambda each: rank.get(each[0], len(CHAIN)))]
