"""Cell: kill -9 of the delivery function in the middle of publishing a broadcast.

Nobody missed, nobody without exactly one terminal outcome, duplicates within the published bound, and the send's status
says where everybody is. Expected is what the demo's oracle computes from the monolith's tables alone; published is what
the provider itself has recorded.
"""

import io
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

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
from masscomm.statuses import TERMINAL

USERS = 2_000
KILLS = 2
UNTOLD = 20  # messages the provider took whose outcome is not told: the record they are of is half delivered


@pytest.fixture
def demo(stack: Stack) -> Iterator[Demo]:
    with ExitStack() as resources:
        yield Demo(stack, USERS, Console(file=io.StringIO(), width=140), Report(), Checks(), resources)


def test_delivery_killed_in_the_middle_of_publishing(
    stack: Stack, demo: Demo, capsys: pytest.CaptureFixture[str]
) -> None:
    demo.fill(USERS)
    demo.await_same()
    demo.await_registrar()

    ask = Ask(club_id=BIG_CLUB, type="news", to_users=user_ids(BIG_CLUB, USERS))
    sent = demo.by_kafka("broadcast", ask)
    for number in range(KILLS):
        demo.waiter.until(
            f"the moment to kill delivery ({number + 1})",
            partial(_inside_a_record, demo, sent),
            timeout_s=60,
            every_s=0.01,
            quiet=True,
        )
        _delivery(stack).kill()
        in_flight = sent.expected.requested - demo.outcomes.accounted(sent.send_id)
        assert in_flight > 0, "delivery was killed too late to matter"

    demo.await_outcomes(sent, "everybody is accounted for", timeout_s=120)
    demo.await_statuses()  # GET /v1/sends/{id}, and every notification at the provider, against the oracle
    demo.compare()

    assert demo.checks.mismatches == []
    fates = Counter(_fates(demo.outcomes.of(sent.send_id)))
    assert set(fates) == set(sent.expected.fates)
    assert set(fates.values()) == {1}
    [row] = demo.report.sends
    bound = KILLS * SLICE_SIZE * _most_devices(demo)
    with capsys.disabled():
        sys.stdout.write(f"\n{KILLS} kills: {row.calls} provider calls, {row.duplicates} duplicates, at most {bound}\n")
    assert row.duplicates <= bound


def _inside_a_record(demo: Demo, sent: Sent) -> Pending | None:
    """Waits until a record is half delivered: killed then, a part of it repeats."""
    told = sum(len(ids) for record in demo.outcomes.of(sent.send_id) for ids in record["provider_message_ids"])
    ours = {notification_id(sent.send_id, user_id, "push") for user_id in sent.ask.to_users}
    taken = len(
        {
            (call.notification_id, call.target)
            for call in provider.calls(demo.stack.settings.aws_url)
            if call.notification_id in ours
        }
    )
    return None if taken - told >= UNTOLD else Pending(f"a record that is half delivered ({taken - told})")


def _delivery(stack: Stack) -> psutil.Process:
    """The process of the delivery function of the bulk lane: one execution environment."""
    host = psutil.Process(stack.pid("lambda_host"))
    found = [
        process
        for process in host.children(recursive=True)
        if process.environ().get("AWS_LAMBDA_FUNCTION_NAME") == "delivery"
    ]
    assert len(found) == 1
    return found[0]


def _fates(records: list[dict[str, Any]]) -> Iterator[tuple[int, str]]:
    """(user, channel) of every terminal outcome; a record that was told twice counts once."""
    for record in {record["record_id"]: record for record in records}.values():
        for user_id, place in zip(record["user_ids"], record["result_index"], strict=True):
            if record["results"][place]["status"] in TERMINAL:
                yield user_id, record["channel"]


def _most_devices(demo: Demo) -> int:
    row = demo.database.execute(
        "SELECT max(n) FROM (SELECT count(*) AS n FROM devices WHERE active GROUP BY user_id) AS owned"
    ).fetchone()
    assert row is not None
    return int(row[0])
