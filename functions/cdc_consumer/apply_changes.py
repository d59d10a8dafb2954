"""Applies a batch of change events to the indices of the directory."""

from collections.abc import Callable, Sequence
from functools import partial

from aws_lambda_powertools import Logger

from functions.cdc_consumer.generation import Generation
from functions.cdc_consumer.write_rows import Fact, WriteRows
from masscomm.cdc.change_events import (
    ChangeDecoder,
    Heartbeat,
    Irrelevant,
    RefusedRow,
    SnapshotCompleted,
    SnapshotStarted,
    TableTruncated,
)
from masscomm.chain.batch import Batch, Item, UseCase
from masscomm.clock import Clock, SystemClock
from masscomm.directory.client import OpenSearch
from masscomm.domain.time_limits import MISSED_DELETE_AGE_MS
from masscomm.errors import DeadLetter, Retry
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec
from masscomm.kafka.event import KafkaRecord
from masscomm.observability import logs, metrics
from masscomm.observability.metric_names import CHANGE_DATA_AGE


class ApplyChanges(UseCase[Fact]):
    """Writes changed rows to the indices of their snapshot generation, and applies the other change events to the
    generation's state.

    Any batch may be redelivered, in whole or in part, in any order.
    """

    def __init__(
        self, client: OpenSearch, *generations: Generation, logger: Logger | None = None, clock: Clock | None = None
    ) -> None:
        self._clock = clock or SystemClock()
        self._logger = logger or logs.logger("cdc_consumer")
        self._rows = WriteRows(client, self._clock)
        self._generations = {each.name: each for each in generations}
        self._decoder = ChangeDecoder(*self._generations, clock=self._clock)

    def decode(self, record: KafkaRecord, codec: Codec) -> Fact:  # noqa: ARG002  # Debezium's JSON needs no registry
        try:
            return self._decoder.decode(record)
        except RefusedRow as refused:
            return refused  # The row is dead-lettered after the directory has its replacement.

    def handle(self, batch: Batch[Fact]) -> None:
        self._ignore_consumed(batch.active())
        self._rows.write(batch.active())
        for item in batch.active():
            step = self._step(self._generation_of(item), item.value)
            if step is not None:
                batch.attempt(item, step)
        of_generations: dict[str, list[Item[Fact]]] = {}
        for item in batch.active():
            of_generations.setdefault(topics.generation_of(item.record.topic), []).append(item)
        for name, items in of_generations.items():
            self._write_position(self._generations[name], items)
            try:
                self._generations[name].advance()
            except Retry as error:
                # No record depends on this step, because the invocation with the next heartbeat repeats it.
                self._logger.warning("the generation does not advance", error=str(error))

    def _ignore_consumed(self, items: Sequence[Item[Fact]]) -> None:
        """Ignore old records that have been consumed before. Raises Retry.

        The mark of a row whose deletion was not read has the version of the row. A redelivered record must not replace
        it by this row, and a redelivered tombstone must not delete a row that was inserted again.
        """
        last_ms = self._clock.now_ms() - MISSED_DELETE_AGE_MS
        old: dict[str, list[Item[Fact]]] = {}
        for item in items:
            if item.record.timestamp_ms <= last_ms:
                old.setdefault(topics.generation_of(item.record.topic), []).append(item)
        for generation, records in old.items():
            committed = self._generations[generation].committed_offsets()
            for item in records:
                # guard: cdc.consumed_before
                if item.record.offset < committed.get(item.record.topic, {}).get(item.record.partition, 0):
                    item.value = Irrelevant()

    def _generation_of(self, item: Item[Fact]) -> Generation:
        return self._generations[topics.generation_of(item.record.topic)]

    def dead_lettered(self, batch: Batch[Fact], item: Item[Fact], why: DeadLetter) -> None:
        """Do nothing: a change event has no recipients, so there is no outcome to produce."""

    def _step(self, generation: Generation, change: Fact) -> Callable[[], None] | None:
        match change:
            case TableTruncated(table=table, lsn=lsn):
                # After TRUNCATE, no event names the deleted rows: the indices are wrong until a new snapshot is taken.
                return partial(generation.require_rebuild, f"{table} was truncated at {lsn}")
            case SnapshotStarted(snapshot_id=snapshot_id):
                return partial(generation.snapshot_started, snapshot_id)
            case SnapshotCompleted(at_ms=at_ms):
                return partial(generation.snapshot_completed, at_ms)
        return None

    def _write_position(self, generation: Generation, items: Sequence[Item[Fact]]) -> None:
        beats = [(item, item.value) for item in items if isinstance(item.value, Heartbeat)]
        if not beats:
            return
        _, newest = max(beats, key=lambda beat: beat[1].lsn)
        metrics.add(CHANGE_DATA_AGE, max(0, self._clock.now_ms() - newest.ts_ms) / 1000)
        try:
            generation.passed(newest)
        except Retry as error:
            for item, _ in beats:
                item.error = error
