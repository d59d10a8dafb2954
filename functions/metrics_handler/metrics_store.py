"""Where the metrics are read from: the port, and what it gives."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Protocol


class Granularity(StrEnum):
    """The length of a bucket."""

    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"


class Dimension(StrEnum):
    """What counts can be told apart by, besides their bucket."""

    CLUB_ID = "club_id"
    TYPE = "type"
    CHANNEL = "channel"
    MEASURE = "measure"


@dataclass(frozen=True, kw_only=True)
class MetricsQuery:
    """Buckets that begin in [start, end), of what matches every filter, summed over what is no dimension.

    A filter that is empty matches everything. dimensions: in the order of the enumeration; limit: rows at most.
    """

    granularity: Granularity
    start: datetime
    end: datetime
    dimensions: tuple[Dimension, ...] = tuple(Dimension)
    club_id: tuple[int, ...] = ()
    type: tuple[str, ...] = ()
    channel: tuple[str, ...] = ()
    measure: tuple[str, ...] = ()
    limit: int = 1000


@dataclass(frozen=True)
class Count:
    """Notifications of one bucket; values: one a dimension of the query."""

    bucket: datetime
    values: tuple[int | str, ...]
    count_total: int


@dataclass(frozen=True)
class Counts:
    """The first rows by bucket and dimensions; more: there are others.

    watermark: whatever stood in the topics at that moment is in them; None: nothing was ever counted.
    """

    rows: Sequence[Count]
    more: bool
    watermark: datetime | None


@dataclass
class ChannelTotals:
    """A send on one channel. by_status: {status: {reason ('' where it has none): notifications}}."""

    requested: int = 0
    duplicates: int = 0
    queued: int = 0
    by_status: dict[str, dict[str, int]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class SendTotals:
    """A send as it is counted; requested_at and chunk_count are None until one of its chunks is."""

    send_id: str
    club_id: int
    type: str
    requested_at: datetime | None
    chunk_count: int | None
    chunks: int
    channels: dict[str, ChannelTotals]
    watermark: datetime | None


class MetricsStore(Protocol):
    """Reads what spark_metrics writes. Every method raises Retry where the store is away."""

    def counts(self, query: MetricsQuery) -> Counts:
        """The rows of a query, ordered by bucket and then by the dimensions, from one consistent state."""
        ...

    def send(self, send_id: str) -> SendTotals | None:
        """A send, from one consistent state; None where none of its records was counted."""
        ...
