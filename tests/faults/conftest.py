"""Fixtures: the selected cells, and the stack on which they run."""

from collections.abc import Iterator

import pytest

from tests.support.fault_stack.cell import Cell
from tests.support.fault_stack.stack import FaultStack


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    unwanted = {"few": False, "others": True, "all": None}[config.getoption("--cells")]
    cells = [item for item in items if isinstance(_cell(item), Cell)]
    wanted = [item for item in cells if isinstance(cell := _cell(item), Cell) and cell.ci is not unwanted]
    part, parts = map(int, config.getoption("--part").split("/"))
    selected = set(wanted[len(wanted) * (part - 1) // parts : len(wanted) * part // parts])
    deselected = [item for item in cells if item not in selected]
    config.hook.pytest_deselected(items=deselected)
    items[:] = [item for item in items if item not in deselected]


def _cell(item: pytest.Item) -> object:
    return item.callspec.params.get("cell") if isinstance(item, pytest.Function) and hasattr(item, "callspec") else None


@pytest.fixture(scope="module")
def fault_stack(tmp_path_factory: pytest.TempPathFactory, one_stack_at_a_time: None) -> Iterator[FaultStack]:
    with FaultStack(tmp_path_factory.mktemp("faults")) as started:
        yield started
