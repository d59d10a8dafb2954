"""The fault matrix: after each cell no recipient is missed or ends twice, and duplicates are within the bound.

Without --cells a representative part of them runs. out/faults.json has a row for each cell that ran.
"""

import json
from collections.abc import Iterator

import pytest

from functions.delivery.publish import UNRECORDED
from local.devstack.config import ROOT
from masscomm.domain.outcomes import RANGE_SIZE
from masscomm.kafka import topics
from tests.faults import headline
from tests.faults.cells import CELLS
from tests.faults.traffic import traffic_of
from tests.support.fault_stack.bench import Bench
from tests.support.fault_stack.cell import Cell, Result
from tests.support.fault_stack.stack import FaultStack

OUT = ROOT / "out" / "faults.json"


@pytest.fixture(scope="module")
def bench(fault_stack: FaultStack) -> Iterator[Bench]:
    with Bench.on(fault_stack) as made:
        yield made


@pytest.fixture(scope="module")
def results() -> list[Result]:
    return []


def _keep(results: list[Result], result: Result) -> None:
    results.append(result)
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps([each.as_json() for each in results], indent=2) + "\n")


@pytest.mark.guarantee("push.at_least_once")
@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.name)
def test_cell(bench: Bench, results: list[Result], cell: Cell) -> None:
    result = bench.run(cell)
    _keep(results, result)
    assert result.ok, result.describe()


def test_requests_of_a_broadcast_are_bounded(bench: Bench) -> None:
    """A broadcast to a thousand users makes a bounded number of requests, as lab.benchmarks.chain counts them."""
    users = bench.shared[:1_000]
    traffic = traffic_of(bench, lambda: bench.emit(users))
    [sent] = bench.sends
    ranges = len(users) // RANGE_SIZE
    assert traffic.calls == len(sent.pairs) > 500
    assert traffic.records[topics.SEND_MONOLITH] == 1
    assert traffic.records[topics.BUILD] == traffic.records[topics.DELIVERY] == ranges
    assert traffic.records[topics.OUTCOME] <= 2 * ranges, "one of the preference checker, one of delivery, a range"
    # preference_checker and builder look up once for each record; delivery may look up again for a part of a record.
    assert traffic.look_ups <= 32, traffic
    # The writes are one for each slice of 40, a lease for each delivery record, and the decision logs.
    assert traffic.writes.total() <= 40, traffic


def test_requests_of_small_sends_are_bounded(bench: Bench) -> None:
    """Small sends to one recipient share their requests: each alone would make 6 look-ups and 2 writes."""
    users = [user_id for user_id in bench.shared if user_id % 10 >= 6][:200]  # users with one device, who allow news

    def emit_all() -> None:
        # All but the first are received together: otherwise the batches depend on the speed of the machine.
        bench.freeze("preference_checker")
        for user_id in users:
            bench.emit([user_id])
        bench.thaw("preference_checker")

    traffic = traffic_of(bench, emit_all)
    count = len(users)
    assert traffic.calls == count
    chain = (topics.SEND_MONOLITH, topics.BUILD, topics.DELIVERY, topics.OUTCOME)
    assert [traffic.records[topic] for topic in chain] == [count] * len(chain)
    # The bounds leave room for smaller batches: a twelfth of 6 look-ups, and a quarter of 2 writes.
    assert traffic.look_ups <= count // 2, traffic
    assert traffic.writes.total() <= count // 2, traffic


def test_headline(request: pytest.FixtureRequest, bench: Bench, results: list[Result]) -> None:
    if not request.config.getoption("--headline"):
        pytest.skip("some minutes: --headline")
    result, document = headline.run(bench, headline.RECIPIENTS, UNRECORDED, headline.DELIVERY_KILLS)
    _keep(results, result)
    assert document["ok"], document
