"""The fault matrix: after each cell nobody is missed, nobody has two ends, and duplicates are within the bound.

Without --cells all a representative part of them runs. out/faults.json has a row for each cell that ran.
"""

import json
from collections.abc import Iterator

import pytest

from devstack.config import ROOT
from functions.delivery.deliver import SLICE_SIZE
from tests.faults import headline
from tests.faults.cells import CELLS
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


def test_headline(request: pytest.FixtureRequest, bench: Bench, results: list[Result]) -> None:
    if not request.config.getoption("--headline"):
        pytest.skip("some minutes: --headline")
    result, document = headline.run(bench, headline.RECIPIENTS, SLICE_SIZE, headline.DELIVERY_KILLS)
    _keep(results, result)
    assert document["ok"], document
