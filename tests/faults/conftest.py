"""One whole stack for all tests of this folder."""

import fcntl
from collections.abc import Iterator

import pytest

from devstack.settings import StackSettings
from devstack.stack import Stack


@pytest.fixture(scope="package")
def stack(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[Stack]:
    """Everything, on free ports and in a folder of its own.

    Worker processes take turns: two stacks at once would be twice the memory, and neither would keep its deadlines.
    """
    base = tmp_path_factory.getbasetemp()
    with (base if worker_id == "master" else base.parent).joinpath("e2e.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with Stack(StackSettings.on_free_ports(tmp_path_factory.mktemp("stack"))) as started:
            yield started
