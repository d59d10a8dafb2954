"""The interfaces between an event source mapping and Kafka."""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from local.emulators.event_source.record import Partition, SourceRecord


class SourceListener(Protocol):
    """The callbacks of a RecordSource. They are always called in the thread of the event loop, in the order of
    events.
    """

    def assigned(self, partitions: Collection[Partition]) -> None:
        """These partitions are assigned; they will be read from their committed offset, or from the beginning if
        there is none. None of them is paused.
        """

    async def revoked(self, partitions: Collection[Partition], *, lost: bool) -> None:
        """These partitions are revoked. Until this method returns, offsets of their records may be committed, unless
        they are lost.
        """

    def received(self, records: Sequence[SourceRecord]) -> None:
        """These records were received, in order of offset for each partition."""

    def end_reached(self, partition: Partition, offset: int) -> None:
        """All records below `offset` have been received. Some offsets may have no record (transaction markers)."""


class RecordSource(Protocol):
    """The interface of a consumer in a group."""

    async def start(self, listener: SourceListener) -> None:
        """Join the consumer group, and begin to call the listener."""

    def pause(self, partitions: Collection[Partition]) -> None:
        """Stop reading these partitions until they are resumed."""

    def resume(self, partitions: Collection[Partition]) -> None:
        """Read these partitions again, from the offset at which they were paused."""

    async def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Commit the offset of the next record to read. Return when the broker has stored it; raise OSError if it
        has not.
        """

    def ends(self) -> Mapping[Partition, int]:
        """Return the end offset of each assigned partition, as the broker last reported it."""

    async def close(self) -> None:
        """Leave the consumer group; the partitions of the listener are revoked."""


class FailureDestination(Protocol):
    """The interface of a writer of on-failure documents."""

    async def send(self, name: str, key: bytes | None, value: bytes, /) -> None:
        """Write one document: a record to a topic, whose in-sync replicas all have it on return, or an object to a
        bucket.

        Raises:
            RecordTooLargeError: The topic refuses a record of this size.
            OSError: The document was not written; a retry may succeed.
        """

    async def close(self) -> None:
        """Close the connection."""


class RecordTooLargeError(Exception):
    """The topic refuses the record because of its size."""
