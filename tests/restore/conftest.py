"""A stack takes minutes, so that these tests run only with --nightly."""

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--nightly"):
        here = [item for item in items if "/tests/restore/" in item.path.as_posix()]
        config.hook.pytest_deselected(items=here)
        items[:] = [item for item in items if item not in here]
