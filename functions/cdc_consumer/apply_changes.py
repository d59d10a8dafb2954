"""Applies a batch of change events to the indices of the directory."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from aws_lambda_powertools import Logger

from functions.cdc_consumer.generation import Generation
from masscomm.cdc.change_events import (
    SNAPSHOT_VERSION,
    Change,
    ChangeDecoder,
    Heartbeat,
    RefusedRow,
    RowChanged,
    SnapshotCompleted,
    SnapshotStarted,
    TableTruncated,
    rows_of,
)
from masscomm.chain.batch import Batch, Item, UseCase
from masscomm.clock import Clock, SystemClock
from masscomm.directory.bulk_writes import VersionedDocument, answering, write
from masscomm.directory.changed_documents import (
    document_of,
    index_of,
    opt_out,
    problem_of_template,
    with_earlier_values,
)
from masscomm.directory.client import OpenSearch
from masscomm.domain.source_tables import directory_table
from masscomm.errors import DeadLetter, Retry
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec
from masscomm.kafka.event import KafkaRecord
from masscomm.observability import logs, metrics
from masscomm.observability.metric_names import CHANGE_DATA_AGE, CHANGE_LATENCY

type Fact = Change | RefusedRow


class ApplyChanges(UseCase[Fact]):
    """Writes changed rows to the indices of their snapshot generation, and applies the other change events to the
    generation's state.

    Any batch may be redelivered, in whole or in part, in any order. Each write contains the version of its row, so that
    the indices converge to the contents of the tables (docs/decisions/085-cdc-versions.md).
    """

    def __init__(
        self, client: OpenSearch, *generations: Generation, logger: Logger | None = None, clock: Clock | None = None
    ) -> None:
        self._clock = clock or SystemClock()
        self._logger = logger or logs.logger("cdc_consumer")
        self._client = client
        self._generations = {each.name: each for each in generations}
        self._decoder = ChangeDecoder(*self._generations)

    def decode(self, record: KafkaRecord, codec: Codec) -> Fact:  # noqa: ARG002  # Debezium's JSON needs no registry
        try:
            return self._decoder.decode(record)
        except RefusedRow as refused:
            return refused  # The row is dead-lettered after the directory has its replacement.

    def handle(self, batch: Batch[Fact]) -> None:
        self._write_rows(batch.active())
        self._refuse(batch.active())
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

    def _refuse(self, items: Sequence[Item[Fact]]) -> None:
        """Write the replacements of refused rows, and dead-letter these rows."""
        refused = [(item, item.value) for item in items if isinstance(item.value, RefusedRow)]
        deleted = [(item, document_of(row)) for item, value in refused for row in value.deleted]
        unreadable = [(item, row) for item, value in refused for row in value.unreadable]
        written = [(item, row) for item, value in refused for row in value.written]
        try:
            replacements = deleted + self._opt_outs(unreadable) + self._with_earlier_values(written)
        except Retry as error:
            for item, _ in refused:
                item.error = error
            return
        fates = write(self._client, [document for _, document in replacements])
        for (item, _), fate in zip(replacements, fates, strict=True):
            item.error = item.error or fate
        for item, value in refused:
            item.error = item.error or value

    def _opt_outs(self, rows: Sequence[tuple[Item[Fact], RowChanged]]) -> list[tuple[Item[Fact], VersionedDocument]]:
        """Return the opt-outs of users whose settings cannot be read, but not of those with earlier settings. Raises
        Retry.
        """
        found = []
        for (item, row), known in zip(rows, self._stored([row for _, row in rows]), strict=True):
            stored = (known["_version"], known["_source"]) if known["found"] else None
            if (document := opt_out(row, stored)) is not None:
                found.append((item, document))
        return found

    def _with_earlier_values(
        self, rows: Sequence[tuple[Item[Fact], RowChanged]]
    ) -> list[tuple[Item[Fact], VersionedDocument]]:
        """Return the documents of rows with the stored values of the columns that they have lost. Raises Retry."""
        stored = self._stored([row for _, row in rows])
        return [
            (item, with_earlier_values(row, known.get("_source", {})))
            for (item, row), known in zip(rows, stored, strict=True)
        ]

    def _stored(self, rows: Sequence[RowChanged]) -> list[dict[str, Any]]:
        """Return OpenSearch's answers about the stored versions of rows. Raises Retry."""
        if not rows:
            return []
        places = [{"_index": index_of(row.table, row.generation), "_id": row.id} for row in rows]
        with answering("earlier rows"):
            answer = self._client.mget(body={"docs": places})
        for known in answer["docs"]:
            if "error" in known:
                raise Retry(f"OpenSearch could not look up earlier rows: {known['error']}")
        found: list[dict[str, Any]] = answer["docs"]
        return found

    def _write_rows(self, items: Sequence[Item[Fact]]) -> None:
        """Write each document once, in its newest version. All events with this version are the same change; the
        last one is written.
        """
        versions: dict[tuple[str, str, str], list[tuple[Item[Fact], RowChanged]]] = defaultdict(list)
        for item in items:
            rows = rows_of(item.value)
            if (problem := problem_of_template(rows)) is not None:
                item.error = DeadLetter("invalid", problem)  # guard: templates.saved_template
                continue
            for row in rows:
                versions[row.generation, row.table, row.id].append((item, row))
        for changes in versions.values():
            changes.sort(key=lambda change: change[1].version)
        waiting = list(versions.values())
        while waiting:
            fates = write(self._client, [document_of(changes[-1][1]) for changes in waiting])
            now_ms = self._clock.now_ms()
            again = []
            for changes, fate in zip(waiting, fates, strict=True):
                if isinstance(fate, DeadLetter):
                    # The index refuses the newest version permanently. The previous version is written instead, so that
                    # the result is the same as if the two versions had been in two batches.
                    refused, _ = changes.pop()
                    refused.error = fate
                    if changes:
                        again.append(changes)
                elif fate is not None:
                    # No version of this document could be stored, so all of its events fail.
                    for item, _ in changes:
                        item.error = fate
                else:
                    _count_latency([row for _, row in changes], now_ms)
            waiting = again

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


def _count_latency(rows: Sequence[RowChanged], now_ms: int) -> None:
    """Add the times from the commits of rows to their acknowledged writes. A snapshot's rows have no commit time."""
    for row in rows:
        if row.version != SNAPSHOT_VERSION:
            # The clock of the database may be ahead.
            metrics.add(CHANGE_LATENCY[directory_table(row.table)], max(0, now_ms - row.changed_at_ms))
