"""Recognises a time that a producer wrote in another unit than milliseconds since 1970."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType

from masscomm.domain.limits import EARLIEST_MS, END_OF_TIME_MS, LATEST_WRITTEN_MS


@dataclass(frozen=True)
class TimeRange:
    """The times in milliseconds since 1970 that a field can have, both included.

    They are so far apart from the same times in seconds, microseconds and nanoseconds that the ranges do not overlap.
    """

    earliest: int
    latest: int


# The field of a record or a request → its range. tests/unit/masscomm/test_units.py requires an entry for each time of a
# send.
RANGES: Mapping[str, TimeRange] = MappingProxyType(
    {
        "timestamp": TimeRange(EARLIEST_MS, END_OF_TIME_MS - 1),
        "send_at": TimeRange(EARLIEST_MS, END_OF_TIME_MS - 1),
        # Callers write the last representable time for a send that never expires.
        "expires_at": TimeRange(EARLIEST_MS, LATEST_WRITTEN_MS),
        # The time of a provider's receipt.
        "receipt": TimeRange(EARLIEST_MS, END_OF_TIME_MS - 1),
        "occurred_at": TimeRange(EARLIEST_MS, END_OF_TIME_MS - 1),
    }
)
# The name of another unit → how many of it are a millisecond.
_OTHER_UNITS: Mapping[str, float] = MappingProxyType(
    {"seconds": 0.001, "microseconds": 1_000, "nanoseconds": 1_000_000}
)


def unit_problem(field: str, value: int | None) -> str | None:
    """Return why a time is not one in milliseconds since 1970, with the field and the unit that it seems to have; None
    for a time in the field's range, and for an absent one.
    """
    span = RANGES[field]
    if value is None or span.earliest <= value <= span.latest:
        return None
    units = (unit for unit, each in _OTHER_UNITS.items() if span.earliest * each <= value <= span.latest * each)
    seen = f", and seems to be in {unit}" if (unit := next(units, None)) else ""
    first, last = (datetime.fromtimestamp(each // 1000, UTC).date() for each in (span.earliest, END_OF_TIME_MS))
    return f"{field} must be in milliseconds since 1970, from {first} to {last}: {value} is not{seen}"
