"""The interface of the store of sent messages: those of the latest batches of a partition, by the positions of their
records.

A batch that is processed again, because its function was killed, sends only the others.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from masscomm.stores.delayed_records.port import DelayedRecord


class Partition(NamedTuple):
    """A partition of a topic."""

    topic: str
    number: int


class RecordPosition(NamedTuple):
    """Identifies a record of a partition. A topic that was made anew has the same offsets, with other times."""

    offset: int
    timestamp_ms: int


# Record → the positions of messages in it.
type Positions = Mapping[RecordPosition, Collection[int]]


@dataclass(frozen=True, kw_only=True)
class Sent:
    """What is known of the messages of a partition."""

    # Those that were accepted, or are given up, and those that wait in the delay store.
    settled: Positions = field(default_factory=dict)
    waiting: Positions = field(default_factory=dict)
    # The prepared records about the messages that were recorded last: a kill may have left out to put them.
    prepared: Sequence[DelayedRecord] = ()


class SentMessages(Protocol):
    """Methods raise Retry (down, slow) or Stop (no table, no permission)."""

    def find(self, partition: Partition) -> Sent:
        """Return what was recorded last of a partition. The read is consistent."""
        ...

    def record(self, sent: Mapping[Partition, Sent], at_s: int) -> None:
        """Record at `at_s` (seconds since the epoch) what was sent of each partition, in the place of what was recorded
        earlier: of all partitions, or of none. It is kept for SENT_POSITIONS_KEPT_S.
        """
        ...
