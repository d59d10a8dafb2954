"""The grains of the metrics: minute, hour and day. A new grain needs its name and length here, and its table in
schemas/tables.
"""

from datetime import UTC, datetime, timedelta
from enum import StrEnum


class Grain(StrEnum):
    """The length of the time buckets in which metrics are counted, in ascending order. Buckets are in UTC, and begin
    at a multiple of their length since the epoch.
    """

    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"

    @property
    def length(self) -> timedelta:
        return _LENGTHS[self]

    @property
    def seconds(self) -> int:
        return int(self.length.total_seconds())

    @property
    def table(self) -> str:
        """Return the name of the table with the counts, as in schemas/tables."""
        return f"counts_{self}"

    @property
    def webhook_table(self) -> str:
        """Return the name of the table with the counts of webhook messages."""
        return f"webhook_counts_{self}"

    @property
    def latency_table(self) -> str:
        """Return the name of the table with the latencies of notifications."""
        return f"latency_{self}"


_LENGTHS = {
    Grain.MINUTE: timedelta(minutes=1),
    Grain.HOUR: timedelta(hours=1),
    Grain.DAY: timedelta(days=1),
}

# The grains in which latencies are stored: a day is read from its hours.
LATENCY_GRAINS = (Grain.MINUTE, Grain.HOUR)
# The table with the counts by reason, whose buckets are hours.
REASONS_TABLE = "reasons_hour"
# The metrics job counts in time buckets of the smallest grain, and computes the larger ones as sums.
SMALLEST = Grain.MINUTE
EVERY_GRAIN = ", ".join(Grain)
_EPOCH = datetime.fromtimestamp(0, UTC)


def floor(moment: datetime, length: timedelta) -> datetime:
    """Return the beginning of the bucket (UTC) that contains a moment."""
    return _EPOCH + (moment - _EPOCH) // length * length


def ceiling(moment: datetime, length: timedelta) -> datetime:
    """Return the first beginning of a bucket (UTC) at or after a moment."""
    return _EPOCH - (_EPOCH - moment) // length * length
