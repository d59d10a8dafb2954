from datetime import UTC, datetime, timedelta

import pytest

from spark_metrics.recompute import parts

FIRST = datetime(2026, 11, 21, tzinfo=UTC)


def hour(number: int) -> datetime:
    return FIRST + timedelta(hours=number)


@pytest.mark.parametrize(
    ("records", "begins"),
    [([], []), ([9], []), ([9, 1, 1], [1]), ([2, 3, 4], [2]), ([2, 3, 0, 1], [3]), ([6, 6, 1, 4], [1, 2])],
)
def test_hours_are_divided_by_their_records(
    monkeypatch: pytest.MonkeyPatch, records: list[int], begins: list[int]
) -> None:
    """Each part has at most five records unless one hour has more."""
    monkeypatch.setattr("spark_metrics.recompute._PART", 5)
    found = parts([(hour(number), count) for number, count in enumerate(records)])
    assert [part.first for part in found] == [None, *map(hour, begins)]
    assert [part.end for part in found] == [*map(hour, begins), None]
