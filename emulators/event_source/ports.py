"""The interfaces between a mapping and Kafka."""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from emulators.event_source.record import Partition, SourceRecord


class SourceListener(Protocol):
    """Callbacks of a source; always called in the event loop's thread, in the order of events."""

    def assigned(self, partitions: Collection[Partition]) -> None:
        """These partitions are ours now and will be read from their committed offset, or from the beginning."""

    async def revoked(self, partitions: Collection[Partition], *, lost: bool) -> None:
        """These partitions go to another consumer; until this returns they may be committed, unless they are lost."""

    def received(self, records: Sequence[SourceRecord]) -> None:
        """These records came, in order of offset for each partition."""

    def end_reached(self, partition: Partition, offset: int) -> None:
        """All there is below `offset` has been received; offsets below it may have no record (transaction markers)."""


class RecordSource(Protocol):
    """A consumer in a group."""

    async def start(self, listener: SourceListener) -> None:
        """Join the group and begin to call the listener."""

    def pause(self, partitions: Collection[Partition]) -> None:
        """Receive nothing more of these partitions until resumed."""

    def resume(self, partitions: Collection[Partition]) -> None:
        """Receive these partitions again, from where they were paused."""

    async def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Commit the offset of the next record to read; returns when the broker has it, raises OSError if not."""

    def ends(self) -> Mapping[Partition, int]:
        """The end offset of each assigned partition, as of the last report."""

    async def close(self) -> None:
        """Leave the group; the listener gets the revocation."""


class FailureDestination(Protocol):
    """Takes the records that a mapping stops retrying."""

    async def send(self, topic: str, key: bytes | None, value: bytes) -> None:
        """Produce one record; returns when all in-sync replicas have it.

        Raises:
            RecordTooLargeError: the topic does not take a record of this size.
            OSError: it did not arrive; trying again may help.
        """

    async def close(self) -> None:
        """Close the connection."""


class RecordTooLargeError(Exception):
    """The topic refuses the record for its size."""
