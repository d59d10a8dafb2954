"""A metrics database for each test, and one Spark for those that ask for it."""

from collections.abc import Iterator

import pytest

from devstack.settings import StackSettings
from tests.metrics_database import metrics_database
from tests.spark_session import kafka_frame, spark

__all__ = ["kafka_frame", "spark"]


@pytest.fixture
def database(postgres: StackSettings) -> Iterator[str]:
    """The URL of an empty metrics database."""
    with metrics_database(postgres) as url:
        yield url
