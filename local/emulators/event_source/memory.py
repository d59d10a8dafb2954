"""A Kafka broker in memory, for tests of event source mappings. It passes the same contract tests as the real one."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from local.emulators.event_source.ports import RecordTooLargeError, SourceListener
from local.emulators.event_source.record import Partition, SourceRecord


@dataclass
class MemoryBroker:
    """Topics, committed offsets, and consumer groups with one member each.

    Args:
        max_message_bytes: The size limit of a record, as in Kafka's setting of that name.
    """

    max_message_bytes: int = 1_048_576
    logs: dict[Partition, list[SourceRecord]] = field(default_factory=dict)
    committed: dict[str, dict[Partition, int]] = field(default_factory=lambda: defaultdict(dict))
    sources: list["MemorySource"] = field(default_factory=list)

    def create_topic(self, topic: str, partitions: int) -> None:
        for number in range(partitions):
            self.logs[Partition(topic, number)] = []

    def produce(
        self,
        topic: str,
        value: bytes | None,
        *,
        partition: int = 0,
        key: bytes | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        timestamp_ms: int | None = None,
    ) -> int:
        if len(value or b"") > self.max_message_bytes:
            raise RecordTooLargeError(f"{topic} takes {self.max_message_bytes} bytes")
        log = self.logs[Partition(topic, partition)]
        record = SourceRecord(
            partition=Partition(topic, partition),
            offset=len(log),
            timestamp_ms=int(time.time() * 1000) if timestamp_ms is None else timestamp_ms,
            key=key,
            value=value,
            headers=tuple(headers),
        )
        log.append(record)
        for source in self.sources:
            source.wake()
        return record.offset


class MemorySource:
    """The RecordSource for a MemoryBroker. It is the only member of its group, and has every partition of its
    topics.
    """

    def __init__(self, broker: MemoryBroker, *, group: str, topics: Sequence[str]) -> None:
        self._broker = broker
        self._group = group
        self._topics = set(topics)
        self._listener: SourceListener | None = None
        self._positions: dict[Partition, int] = {}
        self._paused: set[Partition] = set()
        self._scheduled = False

    async def start(self, listener: SourceListener) -> None:
        """Implement RecordSource.start."""
        self._listener = listener
        committed = self._broker.committed[self._group]
        self._positions = {
            partition: committed.get(partition, 0) for partition in self._broker.logs if partition.topic in self._topics
        }
        self._broker.sources.append(self)
        listener.assigned(list(self._positions))
        self.wake()

    def pause(self, partitions: Collection[Partition]) -> None:
        """Implement RecordSource.pause."""
        self._paused.update(partitions)

    def resume(self, partitions: Collection[Partition]) -> None:
        """Implement RecordSource.resume."""
        self._paused.difference_update(partitions)
        self.wake()

    async def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Implement RecordSource.commit."""
        await asyncio.sleep(0)
        self._broker.committed[self._group].update(offsets)

    def ends(self) -> Mapping[Partition, int]:
        """Implement RecordSource.ends."""
        return {partition: len(self._broker.logs[partition]) for partition in self._positions}

    async def close(self) -> None:
        """Implement RecordSource.close."""
        if self in self._broker.sources:
            self._broker.sources.remove(self)
        await self.revoke(list(self._positions))

    async def revoke(self, partitions: Collection[Partition], *, lost: bool = False) -> None:
        """Take partitions away from the listener, as a rebalance does."""
        for partition in partitions:
            self._positions.pop(partition, None)
        if self._listener is not None:
            await self._listener.revoked(partitions, lost=lost)

    def assign(self, partitions: Collection[Partition]) -> None:
        """Give partitions back to the listener, as a rebalance does: they are read from their committed offset."""
        committed = self._broker.committed[self._group]
        self._positions.update({partition: committed.get(partition, 0) for partition in partitions})
        self._paused.difference_update(partitions)
        if self._listener is not None:
            self._listener.assigned(partitions)
        self.wake()

    def wake(self) -> None:
        """Schedule the delivery of new records to the listener."""
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._deliver)

    def _deliver(self) -> None:
        self._scheduled = False
        if self._listener is None:
            return
        for partition in list(self._positions):
            # Records are delivered one at a time, so that a pause can take effect between any two records.
            while partition in self._positions and partition not in self._paused:
                log = self._broker.logs[partition]
                position = self._positions[partition]
                if position >= len(log):
                    self._listener.end_reached(partition, position)
                    break
                self._positions[partition] = position + 1
                self._listener.received([log[position]])


class MemoryDestination:
    """The FailureDestination for a MemoryBroker."""

    def __init__(self, broker: MemoryBroker) -> None:
        self._broker = broker

    async def send(self, topic: str, key: bytes | None, value: bytes, /) -> None:
        """Implement FailureDestination.send."""
        await asyncio.sleep(0)
        self._broker.produce(topic, value, key=key)

    async def close(self) -> None:
        """Implement FailureDestination.close."""
