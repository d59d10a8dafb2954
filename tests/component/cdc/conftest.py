"""The servers of the CDC tests: only one test at a time may move the directory's aliases, which a cluster has once."""

import pytest

from local.devstack.config import StackConfig


@pytest.fixture
def stack(connect: StackConfig, opensearch: StackConfig, cluster: str) -> StackConfig:
    assert connect == opensearch, "one stack"
    return connect
