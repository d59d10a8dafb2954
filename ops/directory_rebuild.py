"""Fills the indices of a snapshot generation from the changelogs of the monolith's tables, without the monolith, and
those of masscomm's own documents from theirs: after OpenSearch, or an index of it, was lost.

The rows are written as cdc_consumer writes them, each with its version, so that both may run. Look-ups are refused
until the generation is complete: the state of its snapshot is written after all rows, and cdc_consumer's own steps
follow it. A rebuild that was interrupted begins again.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import batched

from functions.cdc_consumer.generation import Generation
from functions.cdc_consumer.write_rows import Fact, WriteRows
from masscomm.cdc.captured_tables import captured_tables, table_topics
from masscomm.cdc.change_events import (
    ChangeDecoder,
    RefusedRow,
    SnapshotCompleted,
    SnapshotStarted,
    TableTruncated,
    rows_of,
)
from masscomm.cdc.progress import CdcProgress
from masscomm.chain.batch import Item
from masscomm.clock import Clock
from masscomm.directory.bulk_writes import answering
from masscomm.directory.by_id import documents_by_id
from masscomm.directory.changed_documents import index_of
from masscomm.directory.client import NotFoundError, OpenSearch
from masscomm.directory.generations import INDEX, document_id
from masscomm.directory.own_document_index import OpenSearchOwnDocumentIndices
from masscomm.directory.own_documents import OwnDocument
from masscomm.errors import DeadLetter, MasscommError, Retry
from masscomm.kafka.event import KafkaRecord
from masscomm.kafka.topic_reading import TopicReader, record_of
from masscomm.kafka.topics import cdc_topic
from ops.own_document_rebuild import restore

# The records of one write, and how often a write is repeated that OpenSearch does not accept now.
_RECORDS = 2_000
_ATTEMPTS = 6
_PAUSE_S = 2.0


class CannotRebuild(MasscommError):
    """The generation cannot be rebuilt from its topics."""


@dataclass(frozen=True, kw_only=True)
class Rebuilt:
    """What a rebuild has done."""

    records: int
    # Table → changes of its rows.
    rows: Mapping[str, int]
    # The records that cannot be applied. cdc_consumer dead-lettered them when they came.
    refused: int
    # Whether look-ups are answered from the indices.
    is_complete: bool
    # Index → masscomm's own documents that it had lost.
    own_documents: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class DirectoryRebuild:
    """Rebuilds one snapshot generation.

    Args:
        generation: Its name.
        report: Receives the number of records after each write.
        pause: Sleeps for a number of seconds.
    """

    client: OpenSearch
    generation: str
    progress: CdcProgress
    clock: Clock
    pause: Callable[[float], object]
    report: Callable[[int], object] = field(default=lambda _: None)

    def run(self, records: Iterable[KafkaRecord], lost: Iterable[Sequence[OwnDocument]]) -> Rebuilt:
        """Apply the records of the generation's topics, from their beginnings to their ends.

        Args:
            records: See records_of.
            lost: See published_documents.

        Raises:
            CannotRebuild: The generation answers look-ups, or needs a new snapshot.
            Retry: OpenSearch or Kafka does not answer; a repetition continues.
            Stop: OpenSearch denies access.
        """
        self._check()
        # Before a look-up is answered, suppressions and opt-outs are back.
        own = restore(self.client, OpenSearchOwnDocumentIndices(self.client), lost, self.clock)
        generation = Generation(self.client, name=self.generation, progress=self.progress, clock=self.clock)
        rows = WriteRows(self.client, self.clock)
        decoder = ChangeDecoder(self.generation)
        read, refused, changes = 0, 0, Counter[str]()
        states: list[SnapshotStarted | SnapshotCompleted] = []
        for some in batched(records, _RECORDS, strict=False):
            items = list(self._decoded(decoder, some))
            found = [item.value for item in items if isinstance(item.value, SnapshotStarted | SnapshotCompleted)]
            states = [*states, *found]  # guard: rebuild.state_after_rows
            self._write(rows, items)
            read += len(some)
            refused += len(some) - sum(item.error is None for item in items)
            changes.update(row.table for item in items for row in rows_of(item.value))
            self.report(read)
        for state in states:
            if isinstance(state, SnapshotStarted):
                generation.snapshot_started(state.snapshot_id)
            else:
                generation.snapshot_completed(state.at_ms)
        is_complete = self._complete(generation)
        return Rebuilt(records=read, rows=changes, refused=refused, is_complete=is_complete, own_documents=own)

    def _check(self) -> None:
        """Raise CannotRebuild if the indices do not exist, are in use, or can never be complete."""
        indices = ",".join(index_of(table, self.generation) for table in captured_tables())
        try:
            with answering("its indices"):
                self.client.indices.refresh(index=indices)
        except Retry as error:
            if isinstance(error.__cause__, NotFoundError):
                raise CannotRebuild(f"an index is missing: `masscomm upgrade` makes those of {indices}") from error
            raise
        state = self._state()
        if state.get("complete") is True:  # guard: rebuild.answering_generation
            raise CannotRebuild(f"the indices of {self.generation} answer look-ups: delete them and their state first")
        if "rebuild_reason" in state:
            raise CannotRebuild(f"{self.generation} needs a new snapshot: {state['rebuild_reason']}")

    def _state(self) -> Mapping[str, object]:
        id_ = document_id(self.generation)
        found = documents_by_id(self.client, INDEX, [id_])
        source: Mapping[str, object] = found[id_]["_source"] if id_ in found else {}
        return source

    def _decoded(self, decoder: ChangeDecoder, records: Iterable[KafkaRecord]) -> Iterator[Item[Fact]]:
        for record in records:
            try:
                change = decoder.decode(record)
            except RefusedRow as refused:
                yield Item(record, refused)
            except DeadLetter:
                continue
            else:
                if isinstance(change, TableTruncated):
                    raise CannotRebuild(f"{change.table} was truncated: a new generation needs a new snapshot")
                yield Item(record, change)

    def _write(self, rows: WriteRows, items: Sequence[Item[Fact]]) -> None:
        waiting = items
        for attempt in range(_ATTEMPTS):
            rows.write(waiting)
            failed = [(item, error) for item in waiting if not isinstance(error := item.error, DeadLetter | None)]
            if not failed:
                return
            _, first = failed[0]
            if attempt == _ATTEMPTS - 1 or not isinstance(first, Retry):
                raise first
            waiting = [item for item, _ in failed]
            for item in waiting:
                item.error = None
            self.pause(_PAUSE_S * 2**attempt)

    def _complete(self, generation: Generation) -> bool:
        """Take the last steps, which wait until cdc_consumer has consumed its topics. It may take them, too."""
        error: Retry | None = None
        for _ in range(_ATTEMPTS):
            try:
                generation.advance()
            except Retry as conflict:
                error = conflict
            if self._state().get("complete") is True:
                return True
            self.pause(_PAUSE_S)
        if error is not None:
            raise error
        return False


def records_of(reader: TopicReader, generation: str) -> Iterator[KafkaRecord]:
    """Yield all records about the generation's rows and its snapshot. Raises CannotRebuild if the first ones are gone,
    because a topic was not always compacted.
    """
    partitions = []
    for topic in (*table_topics(generation), cdc_topic("notification", generation)):
        for found in reader.partitions(topic):
            if found.offset:  # guard: rebuild.whole_topic
                raise CannotRebuild(f"the records of {topic} before the offset {found.offset} are gone")
            partitions.append(found)
    for message in reader.read(partitions):
        yield record_of(message)
