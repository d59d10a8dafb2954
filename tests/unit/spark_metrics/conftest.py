from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row

from spark_metrics.decode import Writers
from spark_metrics.facts import facts
from spark_metrics.sums import exploded
from tests.support.spark.session import PY4J_SOCKETS, Record, ToFrame


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Ignore the warnings about py4j's sockets, in these tests only."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings(PY4J_SOCKETS))


DAY_MS = 86_400_000

type ToRows = Callable[[Sequence[Record], Writers], list[dict[str, Any]]]


@pytest.fixture(scope="session")
def staged(kafka_frame: ToFrame) -> ToRows:
    """The rows that would be staged for these records, in the order of offset and ordinal."""

    def rows(records: Sequence[Record], writers: Writers) -> list[dict[str, Any]]:
        known = kafka_frame(records).transform(facts, writers=writers, far_future_ms=DAY_MS)
        frame = known.transform(exploded)
        found: list[Row] = frame.orderBy("topic", "partition", "kafka_offset", "ordinal").collect()
        return [row.asDict(recursive=True) for row in found]

    return rows
