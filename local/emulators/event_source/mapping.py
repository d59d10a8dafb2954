"""One event source mapping: it forms batches, retries them, produces on-failure records and commits offsets.

A partition has at most one batch in flight: the next batch is formed when each record of the previous one has succeeded
or was sent to the on-failure topic. A batch that waits for a retry releases its invocation slot for other partitions.

Source: AWS documentation, "How Lambda processes records from stream and queue-based event sources" and "Configuring
error handling controls for Kafka event sources".
"""

import asyncio
import contextlib
import logging
import time
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Protocol
from uuid import uuid4

from local.emulators.event_source.on_failure import Condition, LastResponse, discarded_batch, failure_record
from local.emulators.event_source.ports import FailureDestination, RecordSource, RecordTooLargeError
from local.emulators.event_source.record import EventEnvelope, Partition, SourceRecord
from local.emulators.event_source.response import MalformedResponseError, failed_records
from local.emulators.event_source.spec import INFINITE, S3_ARN, Batching, MappingSpec, PartialFailures, Pollers
from local.emulators.event_source.statistics import MappingStatistics

log = logging.getLogger(__name__)


class InvocationResponse(Protocol):
    """The response of Lambda's Invoke."""

    @property
    def payload(self) -> bytes: ...
    @property
    def function_error(self) -> str | None: ...
    @property
    def request_id(self) -> str: ...
    @property
    def status_code(self) -> int: ...
    @property
    def executed_version(self) -> str: ...


Invoke = Callable[[bytes], Awaitable[InvocationResponse]]


@dataclass(eq=False)
class _PartitionState:
    """The state of one assigned partition."""

    buffered: deque[SourceRecord] = field(default_factory=deque)
    buffered_bytes: int = 0
    buffered_since: float = 0.0
    busy: bool = False
    oldest_ms: int = 0  # The time of the oldest record of the batch in flight.
    turn: int = 0  # The number of the last batch with records of this partition.
    paused: bool = False
    leaving: bool = False  # No further invocation starts for the partition.
    # Some records of the partition are not completed by this consumer, so no later offset may be committed.
    abandoned: bool = False
    revoked: bool = False  # The partition was revoked: no offset may be committed any more.
    next_offset: int | None = None  # The offset to commit next; None if there is none.
    committed: int | None = None
    end: int | None = None


@dataclass(kw_only=True)
class _Unit:
    """The records of one invocation, with the number of their earlier attempts."""

    records: list[SourceRecord]
    retries: int = 0  # The attempts that count against the limit of retries.
    failures: int = 0  # The failures that determine the delay before the next attempt.
    invocations: int = 0
    last: LastResponse | None = None


@dataclass(kw_only=True, eq=False)
class EventSourceMapping:
    """Invokes one function with the records of some topics."""

    spec: MappingSpec
    # The consumer that reads the records.
    source: RecordSource
    # The producer of on-failure records.
    destination: FailureDestination
    # The fields that all events of the mapping share.
    envelope: EventEnvelope
    # Invokes the Lambda function with an event. It raises an exception if the function could not be invoked at all;
    # that does not count as an attempt, and the batch is retried.
    invoke: Invoke
    # Returns the seconds since the epoch, for the age of records.
    wall_clock: Callable[[], float] = time.time
    # Several mappings of one function have the same one.
    statistics: MappingStatistics = field(default_factory=MappingStatistics)

    def __post_init__(self) -> None:
        self.ready = asyncio.Event()
        self._partitions: dict[Partition, _PartitionState] = {}
        self._slots = asyncio.Semaphore(self.spec.concurrency)
        self._wake = asyncio.Event()
        self._dirty: dict[Partition, _PartitionState] = {}
        self._dirty_wake = asyncio.Event()
        self._committing = asyncio.Lock()
        self._stopping = asyncio.Event()
        self._batches: set[asyncio.Task[None]] = set()
        self._loops: list[asyncio.Task[None]] = []
        self._interrupt = asyncio.Event()
        self._released = asyncio.Event()
        self._turn = 0
        self._last_turn: dict[str, int] = {}  # Maps a topic to the number of the last batch that began with it.
        self._topics_of_turn = {topic: turn for turn in self.spec.turns for topic in turn}

    async def start(self) -> None:
        """Join the consumer group and start invoking the function."""
        self._loops = [
            asyncio.create_task(self._dispatch(), name=f"dispatch {self.spec.name}"),
            asyncio.create_task(self._commit_continuously(), name=f"commit {self.spec.name}"),
        ]
        await self.source.start(self)

    async def stop(self) -> None:
        """Start no more batches, wait for invocations in flight for up to drain_s seconds, commit, and leave the
        consumer group.
        """
        self._stopping.set()
        self._wake.set()
        self._interrupt_waits()
        if self._batches:
            await asyncio.wait(list(self._batches), timeout=self.spec.drain_s)
        for task in list(self._batches):
            task.cancel()
        await asyncio.gather(*self._batches, return_exceptions=True)
        await self._commit()
        await self.source.close()
        for task in self._loops:
            task.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)

    def status(self) -> dict[str, object]:
        """Return the counts, and for each partition the committed offset, the end offset, the lag and the number of
        buffered records.
        """
        ends = self.source.ends()
        partitions: dict[str, dict[str, int | bool | None]] = {}
        for partition, state in sorted(self._partitions.items()):
            end = ends.get(partition, state.end)
            lag = None if end is None else max(0, end - (state.committed or 0))
            partitions[str(partition)] = {
                "committed": state.committed,
                "end": end,
                "lag": lag,
                "waiting": len(state.buffered),
                "in_flight": state.busy,
            }
        return {
            "group": self.spec.group,
            "topics": list(self.spec.topics),
            "ready": self.ready.is_set(),
            "in_flight": len(self._batches),
            **self.statistics.as_dict(),
            "partitions": partitions,
        }

    def oldest_ms(self) -> dict[str, int | None]:
        """Return the time of the oldest record of each topic that is not processed, in ms since the epoch; None if
        there is none.
        """
        waiting: dict[str, list[int]] = {topic: [] for topic in self.spec.topics}
        for partition, state in self._partitions.items():
            if state.busy:
                waiting[partition.topic].append(state.oldest_ms)
            elif state.buffered:
                waiting[partition.topic].append(state.buffered[0].timestamp_ms)
        return {topic: min(times, default=None) for topic, times in waiting.items()}

    # --- callbacks of the source ---

    def assigned(self, partitions: Collection[Partition]) -> None:
        """Implement SourceListener.assigned."""
        for partition in partitions:
            self._partitions[partition] = _PartitionState()
        self.ready.set()
        self._wake.set()

    async def revoked(self, partitions: Collection[Partition], *, lost: bool) -> None:
        """Implement SourceListener.revoked. Batches in flight may end and be committed, unless the partitions are
        lost.
        """
        states = [state for partition in partitions if (state := self._partitions.pop(partition, None)) is not None]
        for state in states:
            state.leaving = True
            state.revoked = lost
            self.statistics.abandoned += len(state.buffered)
            state.buffered.clear()
        self._interrupt_waits()
        if not lost:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.spec.drain_s):
                    while any(state.busy for state in states):
                        self._released.clear()
                        await self._released.wait()
            await self._commit()
        for state in states:
            state.revoked = True

    def received(self, records: Sequence[SourceRecord]) -> None:
        """Implement SourceListener.received."""
        self.statistics.records += len(records)
        now = time.monotonic()
        full: list[Partition] = []
        for record in records:
            state = self._partitions.get(record.partition)
            if state is None:
                continue
            if not state.buffered:
                state.buffered_since = now
            state.buffered.append(record)
            state.buffered_bytes += record.memory
            state.end = None
            if not state.paused and self._is_full(state):
                state.paused = True
                full.append(record.partition)
        if full:
            self.source.pause(full)
        self._wake.set()

    def end_reached(self, partition: Partition, offset: int) -> None:
        """Implement SourceListener.end_reached."""
        state = self._partitions.get(partition)
        if state is not None:
            state.end = offset
            self._commit_end(partition, state)

    def _commit_end(self, partition: Partition, state: _PartitionState) -> None:
        # Offsets without a record (transaction markers) are committed too; otherwise they would look like a permanent
        # lag.
        if not state.busy and not state.buffered and state.end is not None and state.end > (state.next_offset or -1):
            self._advance(partition, state, state.end)

    def _is_full(self, state: _PartitionState) -> bool:
        share = self.spec.buffer_bytes // max(1, len(self._partitions))
        return len(state.buffered) >= self.spec.buffered_records or state.buffered_bytes >= share

    async def _dispatch(self) -> None:
        while not self._stopping.is_set():
            wait_s = self._seconds_to_batch()
            if wait_s is None or wait_s > 0:
                self._wake.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait_s):
                        await self._wake.wait()
                continue
            # The batch is formed after a slot is free, so that it includes records that arrive during the wait.
            await self._slots.acquire()
            records = [] if self._stopping.is_set() else self._next_batch()
            if not records:
                self._slots.release()
                continue
            states = {record.partition: self._partitions[record.partition] for record in records}
            for state in states.values():
                state.busy = True
            for record in reversed(records):
                states[record.partition].oldest_ms = record.timestamp_ms
            self.statistics.batches += 1
            task = asyncio.create_task(self._run(records, states), name=f"batch {self.spec.name}")
            self._batches.add(task)
            task.add_done_callback(self._batch_done)

    def _batch_done(self, task: asyncio.Task[None]) -> None:
        self._batches.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s: a batch failed; its records stay uncommitted", self.spec.name, exc_info=error)

    def _seconds_to_batch(self) -> float | None:
        """Return 0 if a batch can be formed now, else the seconds until the batching window ends; None if there are
        no records.
        """
        return min(self._waits().values(), default=None)

    def _waits(self) -> Mapping[Batching, float]:
        """Return the seconds until a batch of each batching can be formed, for those with records."""
        states: defaultdict[Batching, list[_PartitionState]] = defaultdict(list)
        for partition, state in self._free_partitions():
            states[self.spec.batching_of(partition.topic)].append(state)
        return {batching: self._wait(batching, some) for batching, some in states.items()}

    def _wait(self, batching: Batching, states: Sequence[_PartitionState]) -> float:
        # base64 encodes three bytes as four.
        is_full = (
            sum(len(state.buffered) for state in states) >= batching.size
            or sum(state.buffered_bytes for state in states) * 4 // 3 >= self.spec.max_payload_bytes
        )
        if batching.window_s <= 0 or is_full:
            return 0.0
        return max(0.0, min(state.buffered_since for state in states) + batching.window_s - time.monotonic())

    def _free_partitions(self) -> list[tuple[Partition, _PartitionState]]:
        """Return the partitions with records and without a batch in flight."""
        return [
            (partition, state)
            for partition, state in self._partitions.items()
            if state.buffered and not state.busy and not state.abandoned
        ]

    def _next_batch(self) -> list[SourceRecord]:
        """Return the records for one batch, from partitions without a batch in flight. Topics take turns as the first
        topic of a batch.
        """
        waits = self._waits()
        free = [each for each in self._free_partitions() if waits[self.spec.batching_of(each[0].topic)] <= 0]
        partitions = self._in_turn(free)
        batch: list[SourceRecord] = []
        size = self.envelope.overhead
        resumed: list[Partition] = []
        if not partitions:
            return batch
        batching = self.spec.batching_of(partitions[0][0].topic)
        for partition, state in partitions:
            if self.spec.batching_of(partition.topic) != batching:
                continue
            first = True
            while state.buffered and len(batch) < batching.size:
                grown = size + self.envelope.added(state.buffered[0], first_of_partition=first)
                # A record that is too large for any event forms a batch alone, which goes to the on-failure topic.
                if batch and grown > self.spec.max_payload_bytes:
                    break
                record = state.buffered.popleft()
                state.buffered_bytes -= record.memory
                batch.append(record)
                state.turn = self._turn
                size, first = grown, False
            state.buffered_since = time.monotonic()
            if state.paused and 2 * len(state.buffered) < self.spec.buffered_records and not self._is_full(state):
                state.paused = False
                resumed.append(partition)
            if size >= self.spec.max_payload_bytes:
                break
        if resumed:
            self.source.resume(resumed)
        return batch

    def _in_turn(self, free: list[tuple[Partition, _PartitionState]]) -> list[tuple[Partition, _PartitionState]]:
        """Sort partitions by topic, then by number.

        The topic whose last turn is the oldest comes first, because in AWS each topic has a mapping that is independent
        of the others. Topics that share a turn count as one topic.
        """
        self._turn += 1
        by_topic: dict[str, list[tuple[Partition, _PartitionState]]] = {}
        for partition, state in free:
            by_topic.setdefault(partition.topic, []).append((partition, state))

        def last(*topics: str) -> int:
            return max(self._last_turn.get(topic, 0) for topic in topics)

        topics = sorted(by_topic, key=lambda topic: (last(*self._topics_of_turn.get(topic, (topic,))), last(topic)))
        if topics:
            self._last_turn[topics[0]] = self._turn
        return [entry for topic in topics for entry in sorted(by_topic[topic], key=lambda entry: entry[1].turn)]

    async def _run(self, records: list[SourceRecord], states: Mapping[Partition, _PartitionState]) -> None:
        """Process one batch until every record has succeeded, was sent to the on-failure topic, or was abandoned
        without a commit.

        The batch has an invocation slot at the start, and releases it before every wait.
        """
        slot = _InvocationSlot(self._slots)
        progress = _Progress(records)
        work = deque([_Unit(records=records)])
        try:
            while work:
                unit = work.popleft()
                if unit.failures:
                    await self._back_off(unit.failures)
                for partition in progress.partitions:
                    if self._is_leaving(states[partition]):
                        self._abandon(partition, progress, states)
                deliverable = [record for record in unit.records if not states[record.partition].abandoned]
                unit = replace(unit, records=await self._deliverable(deliverable, unit, progress, states))
                if not unit.records:
                    continue
                await slot.acquire()
                try:
                    result = await self._attempt(unit)
                finally:
                    slot.release()
                self.statistics.succeeded += len(result.succeeded)
                self._complete(result.succeeded, progress, states)
                if result.exhausted is not None:
                    exhausted = result.exhausted
                    if await self._send_to_on_failure(exhausted, exhausted.records, Condition.RETRIES_EXHAUSTED):
                        self._complete(exhausted.records, progress, states)
                work.extendleft(reversed(result.retry))
        finally:
            slot.release()
            for partition in progress.partitions:
                self._abandon(partition, progress, states)

    def _is_leaving(self, state: _PartitionState) -> bool:
        return state.leaving or self._stopping.is_set()

    async def _attempt(self, unit: _Unit) -> "_AttemptResult":
        """Invoke the function once; return the result of each record."""
        self.statistics.invocations += 1
        self.statistics.retries += unit.invocations > 0
        try:
            response = await self.invoke(self.envelope.encode(unit.records))
        except Exception:
            # An invocation that is refused (throttled, function missing, host closing) does not count as an attempt.
            log.warning("%s: could not be invoked", self.spec.name, exc_info=True)
            return _AttemptResult(retry=[replace(unit, failures=unit.failures + 1)])
        unit = replace(
            unit,
            invocations=unit.invocations + 1,
            last=LastResponse(
                request_id=response.request_id,
                status_code=response.status_code,
                executed_version=response.executed_version,
                function_error=response.function_error,
            ),
        )
        if response.function_error is not None:
            return self._failed_whole(unit)
        if self.spec.pollers is Pollers.ON_DEMAND:
            return _AttemptResult(succeeded=unit.records)
        try:
            failed = failed_records(response.payload, unit.records, self.spec.partial_failures)
        except MalformedResponseError as error:
            log.warning("%s: malformed batch response: %s", self.spec.name, error)
            return self._failed_whole(unit)
        if not failed:
            return _AttemptResult(succeeded=unit.records)
        return self._failed_partly(unit, failed)

    def _failed_whole(self, unit: _Unit) -> "_AttemptResult":
        self.statistics.failures += 1
        if self.spec.bisect and len(unit.records) > 1:
            return self._halved(unit)
        return self._retry(unit)

    def _failed_partly(self, unit: _Unit, failed: list[SourceRecord]) -> "_AttemptResult":
        self.statistics.partial_failures += 1
        positions = {(record.partition, record.offset) for record in failed}
        succeeded = [record for record in unit.records if (record.partition, record.offset) not in positions]
        rest = replace(unit, records=failed, failures=0 if succeeded else unit.failures)
        if self.spec.bisect and self.spec.partial_failures is PartialFailures.FROM_LOWEST and len(failed) > 1:
            # Lambda splits the batch at the reported record, and does not count the split as an attempt.
            if succeeded:
                self.statistics.bisects += 1
                return _AttemptResult(succeeded=succeeded, retry=[replace(rest, failures=1)])
            return self._halved(rest)
        return replace(self._retry(rest), succeeded=succeeded)

    def _halved(self, unit: _Unit) -> "_AttemptResult":
        """Split the records of an invocation into halves. Splitting does not count as an attempt."""
        self.statistics.bisects += 1
        middle = len(unit.records) // 2
        failures = unit.failures + 1
        return _AttemptResult(
            retry=[
                replace(unit, records=unit.records[:middle], failures=failures),
                replace(unit, records=unit.records[middle:], failures=failures),
            ]
        )

    def _retry(self, unit: _Unit) -> "_AttemptResult":
        if self.spec.retries != INFINITE and unit.retries >= self.spec.retries:
            return _AttemptResult(exhausted=unit)
        return _AttemptResult(retry=[replace(unit, retries=unit.retries + 1, failures=unit.failures + 1)])

    async def _deliverable(
        self,
        records: list[SourceRecord],
        unit: _Unit,
        progress: "_Progress",
        states: Mapping[Partition, _PartitionState],
    ) -> list[SourceRecord]:
        """Return the records that can be delivered. Records that are too old, or too large for any event, go to the
        on-failure topic.
        """
        undeliverable: dict[Condition, list[SourceRecord]] = {}
        deliverable: list[SourceRecord] = []
        oldest = self.wall_clock() - self.spec.max_age_s
        for record in records:
            if self.spec.max_age_s != INFINITE and 0 < record.timestamp_ms < oldest * 1000:
                undeliverable.setdefault(Condition.TOO_OLD, []).append(record)
            elif (
                self.envelope.overhead + self.envelope.added(record, first_of_partition=True)
                > self.spec.max_payload_bytes
            ):
                undeliverable.setdefault(Condition.TOO_LARGE, []).append(record)
            else:
                deliverable.append(record)
        for condition, dropped in undeliverable.items():
            if await self._send_to_on_failure(unit, dropped, condition):
                self._complete(dropped, progress, states)
        return deliverable

    async def _send_to_on_failure(self, unit: _Unit, records: Sequence[SourceRecord], condition: Condition) -> bool:
        """Send records to the on-failure destination. Return False if the shutdown began first; the records are then
        redelivered.
        """
        destination = self.spec.on_failure
        if destination is None:
            for record in records:
                log.error("%s: discarded %s@%d: %s", self.spec.name, record.partition, record.offset, condition)
            self.statistics.discarded += len(records)
            return True
        document: dict[str, Any] = {
            "condition": condition,
            "invocations": unit.invocations,
            "last": unit.last,
            "function_arn": self.spec.function_arn,
            "envelope": self.envelope,
        }
        if self.spec.pollers is Pollers.ON_DEMAND:
            value = discarded_batch(records, now=self._now(), **document)
            if not await self._send(destination.removeprefix(S3_ARN), self._object_key(), value):
                return False
            self.statistics.on_failure += len(records)
            log.error("%s: discarded a batch of %d records to S3: %s", self.spec.name, len(records), condition)
            return True
        for record in records:
            try:
                value = failure_record(record, now=self._now(), **document)
                is_sent = await self._send(destination, record.key, value)
            except RecordTooLargeError as error:
                log.warning("%s: sent to on-failure without payload: %s", self.spec.name, error)
                value = failure_record(record, now=self._now(), with_payload=False, **document)
                is_sent = await self._send(destination, record.key, value)
            if not is_sent:
                return False
            self.statistics.on_failure += 1
            log.error(
                "%s: no further attempts for record %s@%d: %s",
                self.spec.name,
                record.partition,
                record.offset,
                condition,
            )
        return True

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self.wall_clock(), UTC)

    def _object_key(self) -> bytes:
        """Return the key of a new object. Lambda's documentation promises none for Kafka; this one has the parts of
        that for Kinesis.
        """
        now = self._now()
        return f"aws/lambda/{self.spec.name}/{now:%Y/%m/%d/%Y-%m-%dT%H.%M.%S}-{uuid4()}".encode()

    async def _send(self, destination: str, key: bytes | None, value: bytes) -> bool:
        """Send one document until the destination has it. Return False if the shutdown began first. Raises
        RecordTooLargeError.
        """
        failures = 0
        while True:
            try:
                await self.destination.send(destination, key, value)
            except OSError as error:
                failures += 1
                log.warning("%s: %s not reached: %s", self.spec.name, destination, error)
                await self._back_off(failures)
                if self._stopping.is_set():
                    return False
            else:
                return True

    async def _back_off(self, failures: int) -> None:
        """Wait before a retry: the delay doubles up to a limit, and a shutdown or rebalance ends it early."""
        if self._stopping.is_set():
            return
        delay = min(self.spec.first_backoff_s * 2.0 ** min(failures - 1, 30), self.spec.last_backoff_s)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(delay):
                await self._interrupt.wait()

    def _interrupt_waits(self) -> None:
        # Setting and clearing the event wakes all tasks that wait now, and no later ones.
        self._interrupt.set()
        self._interrupt.clear()

    def _complete(
        self,
        records: Iterable[SourceRecord],
        progress: "_Progress",
        states: Mapping[Partition, _PartitionState],
    ) -> None:
        """Mark records as complete; commit the offsets up to the first incomplete record."""
        for partition in progress.complete(records):
            state = states[partition]
            self._advance(partition, state, progress.next_offset(partition))
            if progress.is_done(partition):
                self._release(partition, state)

    def _abandon(
        self, partition: Partition, progress: "_Progress", states: Mapping[Partition, _PartitionState]
    ) -> None:
        """Leave the incomplete records of a partition uncommitted, for its next consumer."""
        self.statistics.abandoned += progress.abandon(partition)
        states[partition].abandoned = True
        self._release(partition, states[partition])

    def _release(self, partition: Partition, state: _PartitionState) -> None:
        state.busy = False
        self._commit_end(partition, state)
        self._released.set()
        self._wake.set()

    def _advance(self, partition: Partition, state: _PartitionState, offset: int) -> None:
        if state.abandoned or (state.next_offset is not None and offset <= state.next_offset):
            return
        state.next_offset = offset
        self._dirty[partition] = state
        self._dirty_wake.set()

    async def _commit_continuously(self) -> None:
        # Only one commit is in flight. Records that are completed meanwhile are part of the next commit.
        while True:
            await self._dirty_wake.wait()
            self._dirty_wake.clear()
            if not await self._commit():
                await asyncio.sleep(self.spec.first_backoff_s)
                self._dirty_wake.set()

    async def _commit(self) -> bool:
        async with self._committing:
            dirty, self._dirty = self._dirty, {}
            offsets = {
                partition: state.next_offset
                for partition, state in dirty.items()
                if not state.revoked and state.next_offset is not None
            }
            if not offsets:
                return True
            try:
                await self.source.commit(offsets)
            except OSError as error:
                log.warning("%s: commit failed: %s", self.spec.name, error)
                self._dirty = dirty | self._dirty
                return False
            self.statistics.commits += 1
            for partition, offset in offsets.items():
                dirty[partition].committed = offset
            return True


@dataclass(frozen=True, kw_only=True)
class _AttemptResult:
    """The result of one invocation for each of its records."""

    succeeded: list[SourceRecord] = field(default_factory=list)
    retry: list[_Unit] = field(default_factory=list)
    exhausted: _Unit | None = None


class _InvocationSlot:
    """The invocation slot of a batch; acquiring or releasing it a second time has no effect."""

    def __init__(self, slots: asyncio.Semaphore) -> None:
        self._slots = slots
        self._acquired = True

    async def acquire(self) -> None:
        if not self._acquired:
            await self._slots.acquire()
            self._acquired = True

    def release(self) -> None:
        if self._acquired:
            self._acquired = False
            self._slots.release()


class _Progress:
    """The incomplete records of a batch, by partition."""

    def __init__(self, records: Sequence[SourceRecord]) -> None:
        self._incomplete: dict[Partition, set[int]] = {}
        self._after: dict[Partition, int] = {}
        for record in records:
            self._incomplete.setdefault(record.partition, set()).add(record.offset)
            self._after[record.partition] = record.offset + 1

    @property
    def partitions(self) -> list[Partition]:
        """Return the partitions with incomplete records."""
        return [partition for partition, offsets in self._incomplete.items() if offsets]

    def abandon(self, partition: Partition) -> int:
        """Drop the incomplete records of a partition; return their number."""
        offsets, self._incomplete[partition] = self._incomplete[partition], set()
        return len(offsets)

    def complete(self, records: Iterable[SourceRecord]) -> set[Partition]:
        """Mark records as complete; return their partitions."""
        advanced = set()
        for record in records:
            self._incomplete[record.partition].discard(record.offset)
            advanced.add(record.partition)
        return advanced

    def is_done(self, partition: Partition) -> bool:
        return not self._incomplete[partition]

    def next_offset(self, partition: Partition) -> int:
        """Return the offset of the first incomplete record."""
        return min(self._incomplete[partition], default=self._after[partition])
