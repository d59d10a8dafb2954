"""The cells that run, and the stack they run on."""

from collections.abc import Iterator

import pytest

from tests.faults.cell import Cell
from tests.faults.stack import FaultStack


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    unwanted = {"few": False, "others": True, "all": None}[config.getoption("--cells")]
    left_out = [item for item in items if isinstance(cell := _cell(item), Cell) and cell.ci is unwanted]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


def _cell(item: pytest.Item) -> object:
    return item.callspec.params.get("cell") if isinstance(item, pytest.Function) and hasattr(item, "callspec") else None


@pytest.fixture(scope="module")
def fault_stack(tmp_path_factory: pytest.TempPathFactory, one_stack_at_a_time: None) -> Iterator[FaultStack]:
    with FaultStack(tmp_path_factory.mktemp("faults")) as started:
        yield started
