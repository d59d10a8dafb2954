"""OpenSearch for one test at a time: the directory's aliases are one for a cluster."""

import fcntl
from collections.abc import Iterator

import pytest

from devstack.config import StackConfig


@pytest.fixture
def cluster(opensearch: StackConfig) -> Iterator[str]:
    """The address of an OpenSearch on which nobody else moves the aliases meanwhile."""
    with (opensearch.state_dir / "directory.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield opensearch.opensearch_url
