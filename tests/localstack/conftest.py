"""Deselects the tests of a whole deployment unless an option requests them."""

from pathlib import Path

import pytest


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Ignore the tests of a whole deployment without `--deployment whole`."""
    whole = ("test_deployment.py", "test_template_upgrade.py")
    deselected = collection_path.name in whole and config.getoption("--deployment") != "whole"
    return True if deselected else None
