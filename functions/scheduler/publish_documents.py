"""Publishes the own documents of the directory that a writer has stored and not published, and removes ended ones.

Each sweep reads the writes of an index in their order, from the number up to which everything is published. It
publishes each document of them, published or not: the records of two writers may be in the reverse order of their
writes, and compaction keeps the last record of a document. A write is published when it is so old that no other writer
has yet to publish an earlier one.

A document is removed after Kafka has the record without a value. If another writer has changed it meanwhile, it stays,
and is published again.

An index that was restored, or created again, has another history: its documents may have lower versions than their
records. Therefore each of its documents is published as removed first. Records of documents that such an index has lost
stay, which keeps suppressions and opt-outs.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from aws_lambda_powertools import Logger

from masscomm.clock import Clock
from masscomm.directory.document_publisher import DocumentPublisher, produce
from masscomm.directory.own_document_index import PAGE, OwnDocumentIndices, Progress
from masscomm.directory.own_documents import INDICES, DocumentKey, OwnDocument
from masscomm.domain.time_limits import DOCUMENTS_SETTLED_S, DOCUMENTS_SWEEP_RESERVE_S
from masscomm.errors import Retry
from masscomm.kafka.avro import Codec
from masscomm.kafka.producer import Producer


@dataclass(frozen=True, kw_only=True)
class PublishDocuments:
    """The use case that publishes own documents. Each function environment has one instance."""

    indices: OwnDocumentIndices
    publisher: DocumentPublisher
    codec: Codec
    producer: Producer
    clock: Clock
    logger: Logger

    def sweep(self, remaining_s: Callable[[], float]) -> None:
        """Publish the documents of each index. The next sweep continues where this one has no time left.

        Raises:
            Retry: OpenSearch or Kafka is down; the other indices were swept.
            Stop: No permission.
        """
        errors: list[Retry] = []
        for number, index in enumerate(INDICES):
            if remaining_s() < DOCUMENTS_SWEEP_RESERVE_S:  # OpenSearch or Kafka is slow.
                break
            # Each index gets its share of the time, however many documents another one has.
            kept_s = remaining_s() * (1 - 1 / (len(INDICES) - number))
            try:
                self._sweep(index, _all_but(kept_s, remaining_s))
            except Retry as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def _sweep(self, index: str, remaining_s: Callable[[], float]) -> None:
        position, now_ms = self.indices.position(index), self.clock.now_ms()
        progress = self.indices.progress(index)
        # guard: own_documents.another_history
        if progress is None or progress.history_id != position.history_id:
            progress = Progress(
                history_id=position.history_id,
                published=-1,
                seen=position.seq_no,
                seen_at_ms=now_ms,
                is_filled=False,
                is_later_history=progress is not None,
                token=None if progress is None else progress.token,
            )
            if progress.is_later_history:
                self.logger.error("an index has another history: all its documents are published again", index=index)
            self.indices.store_progress(index, progress)
            return
        # guard: own_documents.settled
        if now_ms - progress.seen_at_ms < DOCUMENTS_SETTLED_S * 1000:
            return
        published = self._publish(index, progress, remaining_s)
        if published == progress.seen:
            progress = replace(progress, seen=position.seq_no, seen_at_ms=now_ms, is_filled=True)
            self._remove_ended(index, published, remaining_s)
        self.indices.store_progress(index, replace(progress, published=published))

    def _publish(self, index: str, progress: Progress, remaining_s: Callable[[], float]) -> int:
        """Publish the documents of the writes that were seen. Return the number up to which they are published."""
        published, count = progress.published, 0
        while published < progress.seen and remaining_s() >= DOCUMENTS_SWEEP_RESERVE_S:
            page = self.indices.written(index, after=published, until=progress.seen)
            produce(_records(page, is_later_history=progress.is_later_history), self.codec, self.producer)
            count += len(page)
            published = page[-1].version.seq_no if len(page) == PAGE else progress.seen
        if count:
            self.logger.info("documents are published", index=index, documents=count)
        return published

    def _remove_ended(self, index: str, published: int, remaining_s: Callable[[], float]) -> None:
        while remaining_s() >= DOCUMENTS_SWEEP_RESERVE_S:
            page = self.indices.ended(index, until=published, now_ms=self.clock.now_ms())
            if not page:
                return
            produce([each.key for each in page], self.codec, self.producer)  # guard: own_documents.removed_record_first
            errors = self.indices.remove(page)
            kept = [each.key.id for each, error in zip(page, errors, strict=True) if error is not None]
            self.publisher.publish(index, kept)  # guard: own_documents.changed_meanwhile
            self.logger.info("ended documents are removed", index=index, documents=len(page) - len(kept))
            if kept:
                return


def _all_but(kept_s: float, remaining_s: Callable[[], float]) -> Callable[[], float]:
    return lambda: remaining_s() - kept_s


def _records(page: Sequence[OwnDocument], *, is_later_history: bool) -> Iterator[OwnDocument | DocumentKey]:
    for document in page:
        if is_later_history:  # guard: own_documents.lower_versions
            yield document.key
        yield document
