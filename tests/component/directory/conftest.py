"""OpenSearch for one test at a time, since a cluster has one set of directory aliases."""

import fcntl
from collections.abc import Iterator

import pytest

from devstack.config import StackConfig


@pytest.fixture
def cluster(opensearch: StackConfig) -> Iterator[str]:
    """The address of an OpenSearch whose aliases no other test moves meanwhile."""
    with (opensearch.state_dir / "directory.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield opensearch.opensearch_url
