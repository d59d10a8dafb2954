"""The interface of the store of sent messages: those of a batch that is under way, by the positions of their records.

A batch that is processed again, because its function was killed, sends only the others.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple, Protocol


class Partition(NamedTuple):
    """A partition of a topic."""

    topic: str
    number: int


class RecordPosition(NamedTuple):
    """Identifies a record of a partition. A topic that was made anew has the same offsets, with other times."""

    offset: int
    timestamp_ms: int


# Record → the positions of its sent messages.
type Sent = Mapping[RecordPosition, Collection[int]]


class SentMessages(Protocol):
    """Methods raise Retry (down, slow) or Stop (no table, no permission)."""

    def find(self, partition: Partition) -> Sent:
        """Return what was recorded last of a partition. The read is consistent."""
        ...

    def record(self, partition: Partition, sent: Sent, at_s: int) -> None:
        """Record at `at_s` (seconds since the epoch) what was sent of a partition, in the place of what was recorded
        earlier. It is kept for SENT_POSITIONS_KEPT_S.
        """
        ...
