"""kill -9 of every function's process during a broadcast: everybody is accounted for, duplicates are bounded."""

import io
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial

import psutil
import pytest
from rich.console import Console

from devstack.demo import provider
from devstack.demo.oracle import Ask
from devstack.demo.report import Checks, Report
from devstack.demo.run import Demo, Sent
from devstack.demo.waiting import Pending
from devstack.stack import Stack
from examples.monolith.seed import BIG_CLUB, user_ids
from functions.delivery.deliver import SLICE_SIZE
from masscomm.ids import notification_id

USERS = 1_500
CHUNK_SIZE = 100
UNTOLD = 10  # messages
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
    assert {name for name, _ in processes} >= set(CHAIN)

    ask = Ask(club_id=BIG_CLUB, type="news", to_users=user_ids(BIG_CLUB, USERS))
    sent = demo.by_kafka("broadcast", ask, chunk_size=CHUNK_SIZE)
    killed: list[str] = []
    for name, process in processes:
        if name == "delivery":
            under_way = partial(inside_a_record, demo, sent)
        else:
            # Spread over the broadcast; before the first outcome nothing has begun.
            under_way = partial(accounted_for, demo, sent, 1 + len(killed) * (USERS // 2) // len(processes))
        demo.waiter.until(f"the moment to kill {name}", under_way, timeout_s=60, every_s=0.01, quiet=True)
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
    # One record a function at a time, one slice of it, and at most so many devices (docs/guarantees.md).
    bound = sum(name.startswith("delivery") for name in killed) * SLICE_SIZE * most_devices(demo)
    with capsys.disabled():
        sys.stdout.write(
            f"\n{len(killed)} processes killed, {row.calls} provider calls,"
            f" {row.duplicates} duplicates, at most {bound}\n"
        )
    assert row.duplicates <= bound


def most_devices(demo: Demo) -> int:
    """The devices of the user who has most."""
    row = demo.database.execute(
        "SELECT max(n) FROM (SELECT count(*) AS n FROM devices WHERE active GROUP BY user_id) AS owned"
    ).fetchone()
    assert row is not None
    return int(row[0])


def accounted_for(demo: Demo, sent: Sent, wanted: int) -> Pending | None:
    """Waits for so many outcomes."""
    done = demo.outcomes.accounted(sent.send_id)
    return None if done >= wanted else Pending("outcomes", done, wanted)


def inside_a_record(demo: Demo, sent: Sent) -> Pending | None:
    """Waits until the provider took messages whose outcome is not told yet: killed then, they repeat."""
    told = sum(len(ids) for record in demo.outcomes.of(sent.send_id) for ids in record["provider_message_ids"])
    ours = {notification_id(sent.send_id, user_id, "push") for user_id in sent.ask.to_users}
    taken = sum(call.notification_id in ours for call in provider.calls(demo.stack.settings.aws_url))
    return None if told and taken - told >= UNTOLD else Pending(f"a record that is half delivered ({taken - told})")


def function_processes(stack: Stack) -> list[tuple[str, psutil.Process]]:
    """The functions' names and processes (each is one execution environment), those of the chain first."""
    host = psutil.Process(stack.pid("lambda_host"))
    named = [
        (name, process)
        for process in host.children(recursive=True)
        if (name := process.environ().get("AWS_LAMBDA_FUNCTION_NAME")) is not None
    ]
    rank = {name: number for number, name in enumerate(CHAIN)}
    return sorted(named, key=lambda each: rank.get(each[0], len(CHAIN)))
