"""The port to the metrics store, with its queries and results."""

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
    """A dimension of counts, in addition to their bucket."""

    CLUB_ID = "club_id"
    TYPE = "type"
    CHANNEL = "channel"
    MEASURE = "measure"


class Order(StrEnum):
    """Order of rows. Equal rows are ordered by bucket and dimensions, ascending; texts by code point."""

    BUCKET = "bucket"
    LATEST = "-bucket"
    LARGEST = "-count_total"


@dataclass(frozen=True)
class Count:
    """Number of notifications in one bucket."""

    bucket: datetime
    # One value for each dimension of the query.
    values: tuple[int | str, ...]
    count_total: int


@dataclass(frozen=True, kw_only=True)
class MetricsQuery:
    """Rows of a grain that begin in [start, end) and match every filter, summed over all columns except the dimensions.

    granularity  the grain whose rows are read
    buckets      beginnings of the response's buckets, ascending; the last bucket ends at `end`; None: each row's own
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
        """Whether the filters alone determine the possible combinations of dimensions."""
        return all(getattr(self, dimension) for dimension in self.dimensions)


@dataclass(frozen=True)
class Bounds:
    """The maximum cost of one query."""

    # Matching rows.
    read: int = 1_000_000
    # Rows of the response with its rows of 0.
    filled: int = 100_000


# Maximum number of revised buckets in a result.
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
    """The first rows in the query's order."""

    rows: Sequence[Count]
    # Whether there are more rows.
    more: bool
    # The counts include all records that were in the topics at this moment; None: no record was ever counted.
    watermark: datetime | None
    # The stream's minimum time between the end of a bucket and its completeness.
    grace: timedelta = timedelta(0)
    # {beginning of a bucket: its last change after it was complete}, of the query's clubs, at most MAX_REVISED.
    revised: Mapping[datetime, datetime] = field(default_factory=dict)


@dataclass(frozen=True)
class Trend:
    """The trend of one category or club."""

    value: int | str
    # Notifications in the window.
    count_total: int
    # Notifications in the previous window of the same length.
    before: int


@dataclass(frozen=True)
class Trends:
    """The rows with the most notifications; equal rows are ordered by value."""

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
    """The key of a row in a user's log."""

    # When the notification reached its status.
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
    """The first rows of a user's log."""

    rows: Sequence[LogRow]
    # Whether there are more rows.
    more: bool
    watermark: datetime | None
    # Beginning of the stored log; None: the log is complete.
    since: datetime | None = None
    grace: timedelta = timedelta(0)


class MetricsStore(Protocol):
    """Reads the tables that spark_metrics writes. Every method raises Retry if the store is unavailable."""

    def counts(self, query: MetricsQuery) -> Counts:
        """Return the rows of a query from one consistent state. Raises TooMuch."""
        ...

    def trends(self, query: MetricsQuery, middle: datetime) -> Trends:
        """Return the most frequent values of the query's single dimension in [middle, end). Raises TooMuch."""
        ...

    def position(self) -> StreamPosition:
        """Return the stream's position. Cheap enough for polling."""
        ...

    def log(self, query: LogQuery) -> Log | None:
        """Return a user's notifications; None if the log of recipients is off."""
        ...

    def send(self, send_id: str) -> SendTotals | None:
        """Return a send from one consistent state; None if no record of it was counted."""
        ...
