"""The configuration of an event source mapping."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from functions.catalogue import RETRIES_WITH_DESTINATION

MAX_PAYLOAD_BYTES = 6 * 1024 * 1024
INFINITE = -1
# The ARN of a bucket, without its name.
S3_ARN = "arn:aws:s3:::"


class Pollers(StrEnum):
    """The mode of a mapping's event pollers.

    In on-demand mode, the response of a function that has not raised means that the batch succeeded; a batch that
    failed is retried whole until it succeeds or expires. With a destination it is discarded after ten retries: the
    documentation states this limit of infinite retries for both modes.

    Source: AWS documentation, "Configuring error handling controls for Kafka event sources"
    (https://docs.aws.amazon.com/lambda/latest/dg/kafka-retry-configurations.html) selects provisioned mode for
    attempts, age, bisection and partial batch responses; "Using a Kafka topic as an on-failure destination"
    (https://docs.aws.amazon.com/lambda/latest/dg/kafka-on-failure-destination.html); "Capturing discarded batches for
    Amazon MSK and self-managed Apache Kafka event sources"
    (https://docs.aws.amazon.com/lambda/latest/dg/kafka-on-failure.html).
    """

    PROVISIONED = "provisioned"
    ON_DEMAND = "on-demand"


class PartialFailures(StrEnum):
    """Which records are retried after a partial batch response. Functions must handle both values, because the
    documentation of AWS permits both readings.
    """

    ONLY_FAILED = "only_failed"  # Only the named records are retried.
    # In each partition, all records from the lowest named offset on are retried.
    FROM_LOWEST = "from_lowest"


class Batching(NamedTuple):
    """How records are gathered; those of a batch have the same batching."""

    # The maximum number of records in a batch, and the seconds that it waits for further ones.
    size: int
    window_s: float


@dataclass(frozen=True, kw_only=True)
class MappingSpec:
    """The properties of one event source mapping.

    Args:
        name: The name of the mapping, which is the function's name.
        group: The consumer group.
        topics: The topics' names in Kafka.
        function_arn: The ARN of the function, for on-failure records.
        batch_size: The maximum number of records in an invocation.
        batch_sizes: The maximum by topic, in place of batch_size.
        window_s: The seconds that a batch waits for further records; with 0 the function is invoked at once with the
            available records.
        windows: The seconds by topic, in place of window_s. Topics with different sizes or windows share no batch.
        max_retries: The number of invocations after the first one; -1 or None: unlimited. With on_failure, -1 means 10.
        max_age_s: The age of a record in seconds from which the function is no longer invoked with it; -1: unlimited.
        bisect: Whether a batch that failed as a whole is halved, so that a record that breaks the function is finally
            alone.
        on_failure: The destination of records whose attempts are used up: a topic or, in on-demand mode, the ARN of a
            bucket. With None they are discarded, as Lambda does.
        partial_failures: Which records are retried after a partial batch response.
        concurrency: The maximum number of concurrent invocations, each with other partitions.
        turns: Groups of topics that share a turn and alternate within it. A topic in no group has its own turns.
        max_payload_bytes: The maximum size of an event in bytes, base64 included.
        first_backoff_s, last_backoff_s: The delay before a failed batch is retried, which doubles from the first value
            to the last.
        buffer_records: The maximum number of records in memory for each partition; 0: twice a batch, and at least 200.
        buffer_bytes: The maximum size of all buffered records of the mapping in bytes.
        drain_s: The seconds that invocations in flight get at a shutdown or rebalance before their records are
            abandoned without a commit.
        pollers: The mode of the pollers. In on-demand mode, a mapping has no retries, age, bisection or topic for
            failed records, but a bucket for discarded batches.

    Source: AWS documentation, "Configuring error handling controls for Kafka event sources", "Using a Kafka topic as an
    on-failure destination" and "CreateEventSourceMapping".
    """

    name: str
    group: str
    topics: tuple[str, ...]
    function_arn: str
    batch_size: int = 100
    batch_sizes: Mapping[str, int] = field(default_factory=dict)
    window_s: float = 0.0
    windows: Mapping[str, float] = field(default_factory=dict)
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
    pollers: Pollers = Pollers.PROVISIONED

    def __post_init__(self) -> None:
        for size in (self.batch_size, *self.batch_sizes.values()):
            if not 1 <= size <= 10_000:
                raise ValueError(f"mapping {self.name}: batch_size must be between 1 and 10000, not {size}")
        if self.on_failure in self.topics:
            raise ValueError(f"mapping {self.name}: its on-failure topic {self.on_failure} is one of its sources")
        if self.max_retries is not None and not -1 <= self.max_retries <= 10_000:
            raise ValueError(f"mapping {self.name}: attempts must be between -1 and 10000, not {self.max_retries}")
        is_on_demand = self.pollers is Pollers.ON_DEMAND
        if is_on_demand and (self.max_retries is not None or self.max_age_s != INFINITE or self.bisect):
            raise ValueError(f"mapping {self.name}: attempts, age and bisection need provisioned mode")
        if self.on_failure is not None and self.on_failure.startswith(S3_ARN) != is_on_demand:
            raise ValueError(
                f"mapping {self.name}: {self.on_failure} is no destination in this mode: a topic is one in provisioned "
                f"mode, a bucket in on-demand mode"
            )

    def batching_of(self, topic: str) -> Batching:
        """Return the batching of a topic's records."""
        return Batching(self.batch_sizes.get(topic, self.batch_size), self.windows.get(topic, self.window_s))

    @property
    def retries(self) -> int:
        """Return the effective number of invocations after the first one; -1: unlimited."""
        asked = INFINITE if self.max_retries is None else self.max_retries
        return RETRIES_WITH_DESTINATION if asked == INFINITE and self.on_failure is not None else asked

    @property
    def buffered_records(self) -> int:
        """Return the maximum number of buffered records of one partition: the batch in flight and the next one, but
        at least 200, so that small batches do not pause and resume the consumer all the time.
        """
        return self.buffer_records or max(2 * self.batch_size, 200)


def by_topic(spec: MappingSpec) -> list[MappingSpec]:
    """Return a mapping for each topic, as in AWS. They share the consumer group: each member gets the partitions of its
    topic only.
    """
    return [replace(spec, topics=(topic,), turns=()) for topic in spec.topics]
