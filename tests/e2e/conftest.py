"""One whole stack for all tests of this folder; with xdist they have to run in one group (`--dist loadgroup`)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from devstack.settings import StackSettings
from devstack.stack import Stack


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Everything, on free ports and in a folder of its own."""
    folder: Path = tmp_path_factory.mktemp("stack")
    with Stack(StackSettings.on_free_ports(folder)) as started:
        yield started
