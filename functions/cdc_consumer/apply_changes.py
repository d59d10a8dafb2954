"""Applies a batch of change events to the indices of the directory."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from aws_lambda_powertools import Logger

from functions.cdc_consumer.generation import Generation
from masscomm.cdc.captured_tables import DEVICES, TEMPLATES, settings_tables
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
from masscomm.directory.client import OpenSearch
from masscomm.domain.channels import CHANNELS
from masscomm.domain.users import Template
from masscomm.errors import DeadLetter, Retry
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec
from masscomm.kafka.event import KafkaRecord
from masscomm.observability import logs, metrics
from masscomm.observability.metric_names import CHANGE_DATA_AGE

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
        deleted = [(item, self._document(row)) for item, value in refused for row in value.deleted]
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

        The version of an opt-out is that of the missing or deleted document in whose place it is, so that each valid
        row replaces it.
        """
        if not rows:
            return []
        documents = [(item, self._document(row)) for item, row in rows]
        found = []
        for (item, document), known in zip(documents, self._stored([each for _, each in documents]), strict=True):
            if not known["found"]:
                found.append((item, replace(document, version=0)))
            elif known["_source"].get("deleted"):
                found.append((item, replace(document, version=known["_version"])))
        return found

    def _with_earlier_values(
        self, rows: Sequence[tuple[Item[Fact], RowChanged]]
    ) -> list[tuple[Item[Fact], VersionedDocument]]:
        """Return the documents of rows with the stored values of the columns that they have lost. Raises Retry."""
        if not rows:
            return []
        documents = [self._document(row) for _, row in rows]
        found = []
        for (item, row), document, known in zip(rows, documents, self._stored(documents), strict=True):
            stored = known.get("_source", {})
            kept = {name: stored[name] for name in row.kept if name in stored}
            found.append((item, replace(document, source={**document.source, **kept})))
        return found

    def _stored(self, documents: Sequence[VersionedDocument]) -> list[dict[str, Any]]:
        """Return OpenSearch's answers about the stored versions of documents. Raises Retry."""
        with answering("earlier rows"):
            answer = self._client.mget(body={"docs": [{"_index": each.index, "_id": each.id} for each in documents]})
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
            if (problem := _problem_of_template(item.value)) is not None:
                # The previous version of the template stays in use.
                item.error = DeadLetter("invalid", problem)  # guard: templates.saved_template
                continue
            for row in rows_of(item.value):
                versions[row.generation, row.table, row.id].append((item, row))
        for changes in versions.values():
            changes.sort(key=lambda change: change[1].version)
        waiting = list(versions.values())
        while waiting:
            fates = write(self._client, [self._document(changes[-1][1]) for changes in waiting])
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
            waiting = again

    def _document(self, row: RowChanged) -> VersionedDocument:
        # A deleted row keeps a document: because of its version, the index refuses older changes that are redelivered.
        source = row.columns if row.columns is not None else {"deleted": True, "deleted_at_ms": row.changed_at_ms}
        if row.applied_version is not None:
            # Changes that a deleted row had must not apply again.
            source = {**source, "preference_version": row.applied_version}  # guard: preferences.deleted_row
        if row.columns is not None and row.version == SNAPSHOT_VERSION and row.table in settings_tables():
            # A change of preferences belongs to a row. The rows of all snapshots have one version.
            source = {**row.columns, "snapshot_lsn": row.lsn}
        if row.columns is not None and row.table == DEVICES:
            # Delivery reads this time, because it waits for the endpoint of a device whose row is only seconds old.
            source = {**row.columns, "changed_at_ms": row.changed_at_ms}
        return VersionedDocument(
            index=self._generations[row.generation].index(row.table), id=row.id, version=row.version, source=source
        )

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


def _problem_of_template(change: Fact) -> str | None:
    """Return the reason why no message can be rendered from the template in a change; None for any other change."""
    for row in rows_of(change):
        # A channel that is not known here may belong to another service.
        if row.table != TEMPLATES or row.columns is None or row.columns["channel"] not in CHANNELS:
            continue
        # Most batches have no template, so the compiler is not imported for them.
        from masscomm.rendering.preview import problem_of

        columns = row.columns
        template = Template(
            template_id=int(row.id),
            club_id=columns.get("club_id"),
            type=columns["type"],
            channel=columns["channel"],
            locale=columns["locale"],
            title=columns["title"],
            body=columns["body"],
            html=columns.get("html"),
            url=columns.get("url"),
        )
        if (problem := problem_of(template)) is not None:
            return f"the template {row.id} cannot be rendered: {problem}"
    return None
