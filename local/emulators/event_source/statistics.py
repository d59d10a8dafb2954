"""The counts of one event source mapping, for the status page."""

from dataclasses import asdict, dataclass


@dataclass(kw_only=True)
class MappingStatistics:
    """Counts since the mapping was started."""

    records: int = 0  # The number of received records.
    # The number of batches formed from records that were received for the first time.
    batches: int = 0
    invocations: int = 0
    failures: int = 0  # The number of invocations that failed as a whole.
    partial_failures: int = 0  # The number of invocations that reported some records as failed.
    # The number of invocations with records that had been in an earlier invocation.
    retries: int = 0
    bisects: int = 0
    succeeded: int = 0  # The number of records that succeeded.
    on_failure: int = 0  # The number of records sent to the on-failure topic.
    # The number of records whose attempts were used up and that had no on-failure topic.
    discarded: int = 0
    abandoned: int = 0  # The number of records left uncommitted at a shutdown or rebalance.
    commits: int = 0

    def as_dict(self) -> dict[str, int]:
        return asdict(self)
