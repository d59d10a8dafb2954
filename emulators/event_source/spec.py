"""How one mapping behaves."""

from dataclasses import dataclass
from enum import StrEnum

MAX_PAYLOAD_BYTES = 6 * 1024 * 1024
INFINITE = -1
# Lambda applies this many where a mapping has a destination and its retries are infinite.
RETRIES_WITH_DESTINATION = 10


class PartialFailures(StrEnum):
    """Which records are retried after a partial batch response. AWS documents both: functions must handle both."""

    ONLY_FAILED = "only_failed"  # the records that were named
    FROM_LOWEST = "from_lowest"  # in each partition, everything from the lowest offset that was named


@dataclass(frozen=True, kw_only=True)
class MappingSpec:
    """One event source mapping.

    Args:
        name: of the mapping; the function's name.
        group: Kafka consumer group.
        topics: names in Kafka.
        function_arn: for on-failure records.
        batch_size: most records an invocation.
        window_s: seconds a batch waits to fill; 0 invokes at once with the present records.
        max_retries: invocations after the first; -1 for ever. None: as -1. With on_failure, -1 means 10.
        max_age_s: seconds since a record's timestamp after which it is not given to the function; -1: any age.
        bisect: halve a batch that failed as a whole, so that a record that breaks the function ends up alone.
        on_failure: topic for exhausted records; None discards them, as Lambda does.
        partial_failures: the reading of a partial batch response.
        concurrency: invocations at a time, over disjoint partitions.
        turns: topics that take one turn together, and turns within it; a topic of none has turns of its own.
        max_payload_bytes: most bytes an event, base64 included.
        first_backoff_s, last_backoff_s: delays before a failed batch is retried; doubled from one to the other.
        buffer_records: most records in memory, for each partition; 0: twice a batch and at least 200.
        buffer_bytes: most bytes in memory, for the whole mapping.
        drain_s: seconds that invocations in flight get at shutdown or rebalance before they are abandoned, uncommitted.

    Source: AWS documentation, "Configuring error handling controls for Kafka event sources", "Using a Kafka topic as an
    on-failure destination" and "CreateEventSourceMapping".
    """

    name: str
    group: str
    topics: tuple[str, ...]
    function_arn: str
    batch_size: int = 100
    window_s: float = 0.0
    max_retries: int | None = None
    max_age_s: float = INFINITE
    bisect: bool = False
    on_failure: str | None = None
    partial_failures: PartialFailures = PartialFailures.ONLY_FAILED
    concurrency: int = 1
    turns: tuple[tuple[str, ...], ...] = ()
    max_payload_bytes: int = MAX_PAYLOAD_BYTES
    first_backoff_s: float = 0.2
    last_backoff_s: float = 10.0
    buffer_records: int = 0
    buffer_bytes: int = 32 * 1024 * 1024
    drain_s: float = 5.0

    def __post_init__(self) -> None:
        if not 1 <= self.batch_size <= 10_000:
            raise ValueError(f"mapping {self.name}: batch_size must be between 1 and 10000, not {self.batch_size}")
        if self.on_failure in self.topics:
            raise ValueError(f"mapping {self.name}: its on-failure topic {self.on_failure} is one of its sources")
        if self.max_retries is not None and not -1 <= self.max_retries <= 10_000:
            raise ValueError(f"mapping {self.name}: attempts must be between -1 and 10000, not {self.max_retries}")

    @property
    def retries(self) -> int:
        """Invocations after the first that hold in the end; -1 for ever."""
        asked = INFINITE if self.max_retries is None else self.max_retries
        return RETRIES_WITH_DESTINATION if asked == INFINITE and self.on_failure is not None else asked

    @property
    def buffered_records(self) -> int:
        """Most records of one partition that wait in memory: the next batch besides the one in flight, and never so few
        that small batches stop and start the consumer all the time."""
        return self.buffer_records or max(2 * self.batch_size, 200)
