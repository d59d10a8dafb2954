"""Where the metrics are read from: the port, and what it gives."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
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


class Order(StrEnum):
    """Which rows come first; those that are equal in it by bucket and dimensions, ascending; texts by code point."""

    BUCKET = "bucket"
    LATEST = "-bucket"
    LARGEST = "-count_total"


@dataclass(frozen=True)
class Count:
    """Notifications of one bucket; values: one a dimension of the query."""

    bucket: datetime
    values: tuple[int | str, ...]
    count_total: int


@dataclass(frozen=True, kw_only=True)
class MetricsQuery:
    """Rows of a grain that begin in [start, end) and match every filter, summed over what is no dimension.

    granularity  the grain whose rows are read
    buckets      where the buckets of the answer begin, ascending, the last one ending at `end`; None: each row's own
    dimensions   in the order of the enumeration
    club_id, type, channel, measure   a filter that is empty matches everything
    fill         with a row of 0 for every bucket (`buckets` is needed) where a combination of dimensions has none: of
                 all combinations of the filters' values where each dimension has some, else of those in the range
    after        the row after which, in this order, the answer begins
    limit        rows at most
    """

    granularity: Granularity
    start: datetime
    end: datetime
    buckets: tuple[datetime, ...] | None = None
    dimensions: tuple[Dimension, ...] = tuple(Dimension)
    club_id: tuple[int, ...] = ()
    type: tuple[str, ...] = ()
    channel: tuple[str, ...] = ()
    measure: tuple[str, ...] = ()
    order: Order = Order.BUCKET
    fill: bool = False
    after: Count | None = None
    limit: int = 1000

    def __post_init__(self) -> None:
        if self.fill and self.buckets is None:
            raise ValueError("only named buckets can be filled")

    @property
    def named_combinations(self) -> bool:
        """Whether the filters alone say which combinations of dimensions there can be."""
        return all(getattr(self, dimension) for dimension in self.dimensions)


@dataclass(frozen=True)
class Bounds:
    """What one query may cost. read: rows that match; filled: rows there would be, with those of 0."""

    read: int = 1_000_000
    filled: int = 100_000


# Of how many revised buckets a query is told at most.
MAX_REVISED = 1_000


class TooMuch(Exception):
    """A query is over its bounds; the message names the bound."""


def check_read(rows: int, bounds: Bounds) -> None:
    """Errors: TooMuch."""
    if rows > bounds.read:
        raise TooMuch(f"The query would read more than {bounds.read} rows")


def check_filled(rows: int, bounds: Bounds) -> None:
    """Errors: TooMuch."""
    if rows > bounds.filled:
        raise TooMuch(f"Filled with zeros, the answer would have more than {bounds.filled} rows")


@dataclass(frozen=True)
class Counts:
    """The first rows in the order asked for; more: there are others.

    watermark: whatever stood in the topics at that moment is in them; None: nothing was ever counted; grace: how long
    after its end a bucket is complete at the earliest, as the stream has it; revised: {where a bucket begins: when it
    last changed after it was complete}, of the clubs asked for, at most MAX_REVISED of them.
    """

    rows: Sequence[Count]
    more: bool
    watermark: datetime | None
    grace: timedelta = timedelta(0)
    revised: Mapping[datetime, datetime] = field(default_factory=dict)


@dataclass(frozen=True)
class Trend:
    """One category or club. count_total: of the window; before: of as long a time before it."""

    value: int | str
    count_total: int
    before: int


@dataclass(frozen=True)
class Trends:
    """The rows with the most notifications, those with equal ones by value."""

    rows: Sequence[Trend]
    watermark: datetime | None
    grace: timedelta = timedelta(0)


@dataclass(frozen=True)
class StreamPosition:
    """Position of the metrics stream. batch_id, finished_at: of the last batch, None before the first one."""

    batch_id: int | None
    finished_at: datetime | None
    watermark: datetime | None
    grace: timedelta = timedelta(0)


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


@dataclass(frozen=True, order=True)
class LogKey:
    """Where a row stands in a user's log. at: when the notification came to its status."""

    at: datetime
    send_id: str
    channel: str


@dataclass(frozen=True)
class LogRow:
    """One notification of a user; reason '' where its status needs none."""

    key: LogKey
    club_id: int
    type: str
    status: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class LogQuery:
    """A user's notifications, the latest first. start, end: None is open; filters: empty matches everything."""

    user_id: int
    start: datetime | None = None
    end: datetime | None = None
    club_id: tuple[int, ...] = ()
    channel: tuple[str, ...] = ()
    after: LogKey | None = None
    limit: int = 100


@dataclass(frozen=True)
class Log:
    """The first rows; more: there are others; since: what was counted before is not in it, None: everything is."""

    rows: Sequence[LogRow]
    more: bool
    watermark: datetime | None
    since: datetime | None = None
    grace: timedelta = timedelta(0)


class MetricsStore(Protocol):
    """Reads what spark_metrics writes. Every method raises Retry where the store is away."""

    def counts(self, query: MetricsQuery) -> Counts:
        """The rows of a query, from one consistent state. Errors: TooMuch."""
        ...

    def trends(self, query: MetricsQuery, middle: datetime) -> Trends:
        """What the query's single dimension has most of in [middle, end). Errors: TooMuch."""
        ...

    def position(self) -> StreamPosition:
        """How far counting is; cheap enough to be asked for again and again."""
        ...

    def log(self, query: LogQuery) -> Log | None:
        """A user's notifications; None where the log of recipients is off."""
        ...

    def send(self, send_id: str) -> SendTotals | None:
        """A send, from one consistent state; None where none of its records was counted."""
        ...
