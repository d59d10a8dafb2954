"""The archive and the stream recognise duplicates by the same rule."""

import pytest
from pyspark.sql import SparkSession

from spark_metrics.recompute import positions_refused

HOUR_US = 3_600_000_000


@pytest.mark.parametrize(
    ("hours", "refused"),
    [
        ([0], []),
        ([0, 0, 1], [1, 2]),
        ([0, 1, 2, 3], [1, 2]),  # the record of hour 3 counts, because the rejected records begin no window
        ([0, 2.0001, 4.0001], [2]),
    ],
)
def test_an_id_counts_again_only_after_the_window(spark: SparkSession, hours: list[float], refused: list[int]) -> None:
    rows: list[tuple[str, str, str | None, int, str, int, int, int]] = [
        ("outcome", "an id", None, number, "outcome", 0, number, int(hour * HOUR_US))
        for number, hour in enumerate(hours)
    ]
    rows += [("outcome", "bad", "bad_id", 9, "outcome", 0, 100 + n, 0) for n in range(2)]
    rows += [("send", "an id", None, 9, "send.api", 0, 0, 0)]
    schema = (
        "source string, record_id string, problem string, attempt long, topic string, partition int,"
        " kafka_offset long, counted_us long"
    )
    none = spark.createDataFrame([], "attempt long, since_us long")
    found = positions_refused(spark.createDataFrame(rows, schema), 2 * 3600, none).collect()
    assert sorted(row["kafka_offset"] for row in found) == refused
