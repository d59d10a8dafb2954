"""The upgrade test takes minutes, so it runs only with --nightly."""

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--nightly"):
        here = [item for item in items if "/tests/upgrade/" in item.path.as_posix()]
        config.hook.pytest_deselected(items=here)
        items[:] = [item for item in items if item not in here]
