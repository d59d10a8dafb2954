from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from local.devstack.config import StackConfig
from spark_metrics.counting import lane_merge
from tests.support.servers.metrics_database import metrics_database
from tests.support.spark.session import ToFrame, frames_of, new_session


@pytest.fixture
def database(postgres: StackConfig) -> Iterator[str]:
    with metrics_database(postgres) as url:
        yield url
        # A test that runs a lane in this process leaves its connection open, as an executor's process does.
        while lane_merge._open:
            lane_merge._open.popitem()[1].close()


@pytest.fixture
def spark(spark: SparkSession) -> SparkSession:
    """A session of the test's own, because a session can open the archive of one database only."""
    return new_session(spark)


@pytest.fixture
def kafka_frame(spark: SparkSession) -> ToFrame:
    return frames_of(spark)
