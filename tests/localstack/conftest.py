"""Which of the deployment's tests are run."""

from pathlib import Path

import pytest


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """The whole only where it is asked for."""
    left_out = collection_path.name == "test_deployment.py" and config.getoption("--deployment") != "whole"
    return True if left_out else None
