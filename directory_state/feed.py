"""Feeds the store from Kafka: the changelogs of the monolith's tables and of masscomm's own documents.

The store has the offsets up to which it contains each partition, in the same transaction as the documents, so that a
feeder needs no consumer group. Each feeder has a share of the partitions.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools import Logger

from directory_state.generations import Notice, state_of, store_state
from directory_state.store import FED_AT, Store, UnstorableKey, Writer, source_of, version_of
from directory_state.token_digests import document_without_tokens, row_without_token
from masscomm.cdc.captured_tables import captured_tables, table_topics
from masscomm.cdc.change_events import (
    ChangeDecoder,
    Heartbeat,
    MissedDelete,
    RefusedRow,
    RowChanged,
    SnapshotCompleted,
    SnapshotStarted,
    TableTruncated,
    rows_of,
)
from masscomm.cdc.changelogs import MARK
from masscomm.directory import own_documents
from masscomm.directory.bulk_writes import VersionedDocument
from masscomm.directory.changed_documents import (
    document_of,
    index_of,
    missed_row,
    opt_out,
    problem_of_template,
    with_earlier_values,
)
from masscomm.directory.own_documents import DocumentKey
from masscomm.domain.lanes import Lane
from masscomm.errors import DeadLetter, Retry
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec
from masscomm.kafka.event import KafkaRecord
from masscomm.kafka.topic_reading import record_of

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

# The most records of one transaction, and how long the feeder waits for the first one.
_RECORDS = 500
_WAIT_S = 0.1
_REQUEST_S = 10
# How often a feeder without records notes that it reads.
_FED_EVERY_MS = 1_000
# More sequence numbers than an index of OpenSearch can have in one primary term.
_SEQUENCE_NUMBERS = 2**44


# What applies one record to the store.
type Step = Callable[[Writer], None]


def fed_topics(generations: Sequence[str]) -> list[str]:
    """Return the names of all topics that the store is fed from."""
    captured = topics.resolve(topics.ALL_OF_CDC, lane=Lane.BULK, generation=",".join(generations))
    return [*captured, topics.DIRECTORY_DOCUMENT]


@dataclass
class Applier:
    """Applies records to the store."""

    generations: Sequence[str]
    codec: Codec
    logger: Logger

    def __post_init__(self) -> None:
        self._decoder = ChangeDecoder(*self.generations)
        self._tables = {topic for generation in self.generations for topic in table_topics(generation)}

    def prepare(self, record: KafkaRecord) -> Step:
        """Return what applies a record to the store. Records are prepared and applied in their order.

        It needs no transaction, so that feeders decode side by side. A record that cannot be read changes nothing:
        cdc_consumer dead-letters it.
        """
        try:
            return self._prepare(record)
        except DeadLetter as error:
            self._not_applied(record, error)
            return _nothing

    def _not_applied(self, record: KafkaRecord, error: Exception) -> None:
        self.logger.warning("a record is not applied", position=record.source_position, error=str(error))

    def _prepare(self, record: KafkaRecord) -> Step:
        if record.topic == topics.DIRECTORY_DOCUMENT:
            # A mark of the changelog concerns no document.
            return _nothing if record.value is None and record.key == MARK else self._own(record)
        try:
            change = self._decoder.decode(record)
        except RefusedRow as refused:
            self._not_applied(record, refused)
            return partial(self._refused, refused)
        rows = [row_without_token(row) for row in rows_of(change)]
        if (problem := problem_of_template(rows)) is not None:
            raise DeadLetter("invalid", problem)
        match change:
            case MissedDelete():
                return partial(self._missed, change)
            case Heartbeat() | SnapshotStarted() | SnapshotCompleted() | TableTruncated():
                return partial(self._notice, topics.generation_of(record.topic), change)
        return partial(_put, [document_of(row) for row in rows])

    def apply(self, writer: Writer, record: KafkaRecord, step: Step) -> None:
        """Apply a prepared record."""
        try:
            step(writer)
        except UnstorableKey as error:
            self._not_applied(record, error)

    def began(self, writer: Writer, topic: str, offset: int) -> None:
        """Note the first offset of a partition of a new store. A table whose earlier records are gone, because its
        topic was not always compacted, cannot be copied from it.
        """
        if offset and topic in self._tables:  # guard: directory_state.whole_topic
            generation = topics.generation_of(topic)
            reason = f"the records of {topic} before the offset {offset} are gone"
            store_state(writer, generation, replace(state_of(writer, generation), rebuild_reason=reason))
            self.logger.error("the directory needs a new generation", generation=generation, reason=reason)

    def _own(self, record: KafkaRecord) -> Step:
        """Return what applies a record about one of masscomm's own documents."""
        found = own_documents.decoded(record.key, record.value, self.codec)
        if isinstance(found, DocumentKey):
            return partial(_remove, found)
        key, number = found.key, found.version.primary_term * _SEQUENCE_NUMBERS + found.version.seq_no
        known = document_without_tokens(key.index, found.source)
        return partial(_put, [VersionedDocument(index=key.index, id=key.id, version=number, source=known)])

    def _refused(self, refused: RefusedRow, writer: Writer) -> None:
        for row in refused.deleted:
            writer.put(document_of(row))
        for row in refused.unreadable:
            known = self._stored(writer, row)
            document = opt_out(row, None if known is None else (version_of(known), source_of(known)))
            if document is not None:
                writer.put(document)
        for row in map(row_without_token, refused.written):
            known = self._stored(writer, row)
            writer.put(with_earlier_values(row, {} if known is None else source_of(known)))

    def _missed(self, change: MissedDelete, writer: Writer) -> None:
        for table in change.tables:
            (stored,) = writer.values(index_of(table, change.generation), [captured_tables()[table].id_of(change.id)])
            known = None if stored is None else (version_of(stored), source_of(stored))
            if (row := missed_row(change, table, known)) is not None:
                writer.put(document_of(row))  # guard: directory_state.missed_delete

    def _stored(self, writer: Writer, row: RowChanged) -> bytes | None:
        (found,) = writer.values(index_of(row.table, row.generation), [captured_tables()[row.table].id_of(row.id)])
        return found

    def _notice(self, generation: str, notice: Notice, writer: Writer) -> None:
        before = state_of(writer, generation)
        after = before.after(notice)
        if after != before:
            store_state(writer, generation, after)
        if after.rebuild_reason is not None and before.rebuild_reason is None:
            self.logger.error(
                "the directory needs a new generation", generation=generation, reason=after.rebuild_reason
            )


def _nothing(_: Writer) -> None:
    pass


def _put(documents: Sequence[VersionedDocument], writer: Writer) -> None:
    for document in documents:
        writer.put(document)


def _remove(key: DocumentKey, writer: Writer) -> None:
    writer.remove(key.index, key.id)


class Feeder:
    """Reads a share of the partitions.

    Args:
        settings: The settings of the Kafka client.
        codec: Decodes the records of masscomm's own documents.
        share: (i, n): this is the i-th of n feeders, from 0.
    """

    def __init__(
        self,
        store: Store,
        settings: Mapping[str, Any],
        *,
        generations: Sequence[str],
        share: tuple[int, int],
        codec: Codec,
        logger: Logger,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._store = store
        self._settings = dict(settings)
        self._topics = fed_topics(generations)
        self._share = share
        self._applier = Applier(generations, codec, logger)
        self._now_ms = now_ms
        self._consumer: Consumer | None = None
        self._fed_at = 0

    def run(self, ended: Callable[[], bool]) -> None:
        """Feed the store until `ended` returns True. Raises Retry if Kafka does not answer, or not without a gap."""
        try:
            while not ended():
                self.step()
        finally:
            if self._consumer is not None:
                self._consumer.close()

    def step(self, wait_s: float = _WAIT_S) -> int:
        """Apply the records that Kafka has within a time; return their number."""
        if self._consumer is None:
            self._consumer = self._opened()
        first = self._consumer.poll(wait_s)
        # `consume` alone would wait for as many records as it may return.
        messages = [] if first is None else [first, *self._consumer.consume(_RECORDS - 1, 0)]
        now_ms = self._now_ms()
        if not messages and now_ms - self._fed_at < _FED_EVERY_MS:
            return 0
        ends: dict[tuple[str, int], int] = {}
        steps: list[tuple[KafkaRecord, Step]] = []
        for message in messages:
            record = _record(message)
            steps.append((record, self._applier.prepare(record)))
            ends[record.topic, record.partition] = record.offset + 1
        with self._store.writing() as writer:
            for record, step in steps:
                self._applier.apply(writer, record, step)
            for (topic, partition), offset in ends.items():
                writer.set_offset(topic, partition, offset)
            writer.set_meta(f"{FED_AT}/{self._share[0]}", now_ms)
        self._fed_at = now_ms
        return len(messages)

    def _opened(self) -> "Consumer":
        """Return a consumer that reads on where the store ends. Raises Retry."""
        from confluent_kafka import Consumer, KafkaException

        consumer = Consumer(
            self._settings
            | {
                # A client must name a group; this one never joins it or commits.
                "group.id": topics.CDC_PROGRESS_GROUP,
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                # An offset outside of its topic is a gap.
                "auto.offset.reset": "error",  # guard: directory_state.gap
                "fetch.wait.max.ms": 100,
            }
        )
        try:
            self._assign(consumer)
        except KafkaException as error:
            consumer.close()
            raise Retry(f"Kafka does not answer: {error}") from error
        except BaseException:
            consumer.close()
            raise
        return consumer

    def _assign(self, consumer: "Consumer") -> None:
        from confluent_kafka import TopicPartition

        known = consumer.list_topics(timeout=_REQUEST_S).topics
        places = []
        for topic in self._topics:
            if topic not in known or known[topic].error is not None or not known[topic].partitions:
                raise Retry(f"the directory is not ready: there is no topic {topic}")
            places += [(topic, partition) for partition in known[topic].partitions]
        index, count = self._share
        mine = [place for number, place in enumerate(sorted(places)) if number % count == index]
        with self._store.writing() as writer:
            assigned = [TopicPartition(*place, self._first(consumer, writer, *place)) for place in mine]
        consumer.assign(assigned)

    def _first(self, consumer: "Consumer", writer: Writer, topic: str, partition: int) -> int:
        """Return the offset from which a partition is read."""
        from confluent_kafka import TopicPartition

        applied = writer.offset(topic, partition)
        if applied is not None:
            return applied
        low, _ = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=_REQUEST_S, cached=False)
        self._applier.began(writer, topic, low)
        return low


class GapError(Exception):
    """Records that the store has not applied are no longer in their topic: the store must be rebuilt."""


def _record(message: "Message") -> KafkaRecord:
    """Return a record. Raises Retry or GapError."""
    from confluent_kafka import KafkaError

    error = message.error()
    if error is not None:
        if error.code() in (KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET):
            raise GapError(str(error))
        raise Retry(f"Kafka does not hand over records: {error}")
    return record_of(message)
