"""Rules of the matrix that can be checked without running it."""

from pathlib import Path

import pytest

from local.devstack.config import ROOT
from local.devstack.sns_process import Received
from tests.faults.cells import CELLS
from tests.faults.guards import MUTANTS, Mutant
from tests.faults.headline import doubled_a_kill
from tests.faults.mutants import guarded_modules, killing_tests
from tests.faults.mutation import without_guard
from tests.support.fault_stack.cell import Result

NAMES = [cell.name for cell in CELLS]


def test_each_name_is_of_one_cell() -> None:
    assert len(NAMES) == len(set(NAMES))


def test_a_fifth_of_the_cells_runs_in_ci() -> None:
    assert 1 / 5 <= sum(cell.ci for cell in CELLS) / len(CELLS) <= 1 / 3


def test_result_row_has_its_documented_fields() -> None:
    row = Result(cell="c", expected=3, sent=2, lost=1).as_json()
    assert list(row) == ["cell", "expected", "sent", "lost", "duplicates", "bound", "metric_error", "seconds", "ok"]
    assert row["ok"] is False


@pytest.fixture(scope="module")
def guards() -> dict[str, list[Path]]:
    return guarded_modules()


def test_every_guard_has_a_mutant(guards: dict[str, list[Path]]) -> None:
    """Each guard is marked once in the product code, and each mutant names one."""
    assert {name: paths for name, paths in guards.items() if len(paths) > 1} == {}
    assert set(guards) == {mutant.guard for mutant in MUTANTS}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.guard)
def test_mutant_applies_and_names_a_known_cell(mutant: Mutant, guards: dict[str, list[Path]]) -> None:
    module = ROOT / guards[mutant.guard][0]
    without_guard(module.read_text(), mutant.guard, mutant.change)
    assert mutant.rule.endswith(".")
    assert not mutant.cell or mutant.cell in NAMES


def test_tests_kill_mutants_that_no_cell_kills() -> None:
    assert set(killing_tests(ROOT)) == {mutant.guard for mutant in MUTANTS if not mutant.cell}


def test_duplicates_are_assigned_to_the_kill_that_caused_them() -> None:
    kills = [
        {"process": "builder", "time": 1.0},
        {"process": "delivery", "time": 2.0},
        {"process": "kafka", "time": 2.2},
        {"process": "lambda_host", "time": 3.0},
    ]
    published = [(1.5, "a"), (2.5, "b"), (3.5, "a"), (3.6, "b"), (3.7, "c")]
    assert doubled_a_kill(kills, [Received(at, "endpoint", "message", user_id) for at, user_id in published]) == [1, 1]
