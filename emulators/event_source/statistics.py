"""Counts of one mapping, for the status page."""

from dataclasses import asdict, dataclass


@dataclass(kw_only=True)
class MappingStatistics:
    """Counts since the mapping started."""

    records: int = 0  # received
    batches: int = 0  # formed of records that came for the first time
    invocations: int = 0
    failures: int = 0  # invocations that failed as a whole
    partial_failures: int = 0  # invocations that named some records
    retries: int = 0  # invocations that had been given before
    bisects: int = 0
    succeeded: int = 0  # records
    on_failure: int = 0  # records handed over
    discarded: int = 0  # exhausted records without a destination
    abandoned: int = 0  # records left uncommitted at shutdown or rebalance
    commits: int = 0

    def as_dict(self) -> dict[str, int]:
        """The counts for JSON."""
        return asdict(self)
