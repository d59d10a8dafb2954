"""The servers of the CDC tests: only one test at a time may move the directory's aliases, which a cluster has once."""

import fcntl
from collections.abc import Iterator

import pytest

from devstack.config import StackConfig


@pytest.fixture
def stack(connect: StackConfig, opensearch: StackConfig) -> Iterator[StackConfig]:
    assert connect == opensearch, "one stack"
    with (connect.state_dir / "directory.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield connect
