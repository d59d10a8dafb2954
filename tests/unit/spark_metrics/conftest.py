from collections.abc import Callable, Sequence
from typing import Any

import pytest

from masscomm.domain.limits import FAR_FUTURE_MS
from spark_metrics.counting.decode import Writers
from spark_metrics.counting.facts import facts
from tests.support.spark.session import PY4J_SOCKETS, Record, ToFrame


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Ignore the warnings about py4j's sockets, in these tests only."""
    for item in items:
        if item.nodeid.startswith("tests/unit/spark_metrics/"):
            item.add_marker(pytest.mark.filterwarnings(PY4J_SOCKETS))


type ToRows = Callable[[Sequence[Record], Writers], list[dict[str, Any]]]


@pytest.fixture(scope="session")
def counted(kafka_frame: ToFrame) -> ToRows:
    """The facts of records, one row per count and at least one per record, in the order of offsets."""

    def rows(records: Sequence[Record], writers: Writers) -> list[dict[str, Any]]:
        frame = kafka_frame(records).transform(facts, writers=writers, far_future_ms=FAR_FUTURE_MS)
        found = frame.orderBy("topic", "partition", "kafka_offset").collect()
        return [row | count for each in found for row, count in _counts(each.asDict(recursive=True))]

    return rows


_OF_EVERY_RECORD = ("topic", "partition", "kafka_offset", "source", "schema_id", "problem")
_OF_COUNTED = ("record_id", "send_id", "club_id", "type", "at_ms", "chunk_count", "labels")
_NO_COUNT = {"ordinal": 0, "channel": None, "measure": None, "reason": None, "count_total": None}


def _counts(row: dict[str, Any]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    # The other columns of a record with a problem are not valid.
    valid = _OF_EVERY_RECORD if row["problem"] else (*_OF_EVERY_RECORD, *_OF_COUNTED)
    record = {name: row[name] if name in valid else None for name in (*_OF_EVERY_RECORD, *_OF_COUNTED)}
    counts = () if row["problem"] else row["counts"] or ()
    return [(record, {"ordinal": place} | count) for place, count in enumerate(counts)] or [(record, _NO_COUNT)]
