"""Deselects the tests of a whole deployment unless an option requests them."""

from pathlib import Path

import pytest


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Ignore test_deployment.py without `--deployment whole`."""
    deselected = collection_path.name == "test_deployment.py" and config.getoption("--deployment") != "whole"
    return True if deselected else None
