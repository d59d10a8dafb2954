from collections.abc import Iterator

import pytest

from devstack.config import StackConfig
from tests.support.servers.metrics_database import metrics_database


@pytest.fixture
def database(postgres: StackConfig) -> Iterator[str]:
    with metrics_database(postgres) as url:
        yield url
