"""Publishes masscomm's own documents: produces them, as they are in the index now, to the topic directory_document.

A writer publishes each document that it has written, before it acknowledges its own caller. It reads the documents
again, so that a repeated call also publishes what an earlier one has written and not published, and what another writer
has written since then.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Protocol

from masscomm.directory.by_id import documents_by_id
from masscomm.directory.client import OpenSearch
from masscomm.directory.own_documents import DocumentKey, OwnDocument, Version, is_published
from masscomm.domain.time_limits import API_FLUSH_S
from masscomm.errors import Retry
from masscomm.kafka.avro import Codec
from masscomm.kafka.producer import Producer
from masscomm.kafka.topics import DIRECTORY_DOCUMENT
from masscomm.observability.unreadable_items import UnreadableItem, report_unreadable


class DocumentPublisher(Protocol):
    """The interface with which writers publish documents."""

    def publish(self, index: str, ids: Collection[str]) -> None:
        """Produce documents as they are now. When the method returns, Kafka has those that exist.

        Raises:
            Retry: OpenSearch, Kafka or the schema registry is down.
            Stop: No permission, or the schema is not deployed.
        """
        ...


class OpenSearchDocumentPublisher:
    def __init__(self, client: OpenSearch, codec: Codec, producer: Producer) -> None:
        self._client = client
        self._codec = codec
        self._producer = producer

    def publish(self, index: str, ids: Collection[str]) -> None:
        if ids:
            found = documents_by_id(self._client, index, sorted(ids))
            produce((document_of(index, each) for each in found.values()), self._codec, self._producer)


def document_of(index: str, found: Mapping[str, Any]) -> OwnDocument:
    """Return a document that OpenSearch has returned with its sequence number."""
    return OwnDocument(
        key=DocumentKey(index, found["_id"]),
        version=Version(found["_primary_term"], found["_seq_no"]),
        source=found["_source"],
    )


def produce(records: Iterable[OwnDocument | DocumentKey], codec: Codec, producer: Producer) -> None:
    """Produce documents, and the removal of each document of which only the key is given, in this order.

    A document that Kafka can never accept is counted and logged: it must not stop its writer.

    Raises:
        Retry: Kafka has not acknowledged each of the others.
        Stop: The schema is not deployed.
    """
    errors: dict[DocumentKey, Exception] = {}

    def report_for(key: DocumentKey) -> Callable[[Exception | None], None]:
        def report(error: Exception | None) -> None:
            if error is not None:
                errors[key] = error

        return report

    for record in records:
        key, value = (record, None) if isinstance(record, DocumentKey) else (record.key, record.encoded(codec))
        if is_published(key.index, key.id):
            producer.produce(DIRECTORY_DOCUMENT, key.encoded(), value, [], report_for(key))
    producer.flush(API_FLUSH_S)
    for key, error in errors.items():
        if isinstance(error, Retry):  # guard: own_documents.acknowledged
            raise Retry(f"Kafka has not taken each document of {key.index}: {error}") from error
        report_unreadable(UnreadableItem(store=key.index, key={"id": key.id}, error=str(error)))


class InMemoryDocumentPublisher:
    """A publisher that keeps the published ids, for unit tests.

    Attributes:
        published: (index, id) in their order.
        failing: An error that every call raises.
    """

    def __init__(self) -> None:
        self.published: list[tuple[str, str]] = []
        self.failing: Exception | None = None

    def publish(self, index: str, ids: Collection[str]) -> None:
        if self.failing is not None:
            raise self.failing
        self.published += [(index, id_) for id_ in sorted(ids)]
