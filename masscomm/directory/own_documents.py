"""The documents that masscomm itself stores in the directory, as records of the compacted topic directory_document.

The index in OpenSearch has the truth. A record has the whole document, and the primary term and sequence number of its
write: of two records about a document, the one with the higher pair is newer, in whatever order they are consumed. A
record without a value says that the document is removed; its version is forgotten.
https://docs.opensearch.org/latest/api-reference/document-apis/index-document/
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from masscomm import fast_json
from masscomm.directory import device_states
from masscomm.domain import preference_changes, suppressions, tenant_preferences
from masscomm.domain.records import DirectoryDocumentChanged
from masscomm.errors import DeadLetter
from masscomm.kafka.avro import Codec
from masscomm.kafka.topics import DIRECTORY_DOCUMENT

SCHEMA = "DirectoryDocumentChanged"
INDICES = (suppressions.INDEX, preference_changes.INDEX, device_states.INDEX, tenant_preferences.INDEX)


def is_published(index: str, id_: str) -> bool:
    """Return whether the topic has the documents with this id: all but the holders of tokens, which only the device
    registrar reads.
    """
    return index in INDICES and not (index == device_states.INDEX and id_.startswith(device_states.HOLDERS_PREFIX))


class Version(NamedTuple):
    """The write of a document. A later write of the same document has the higher version."""

    # It increases when another shard becomes the primary one, which may assign sequence numbers of lost writes again.
    primary_term: int
    seq_no: int


@dataclass(frozen=True, order=True)
class DocumentKey:
    index: str
    id: str

    def encoded(self) -> bytes:
        return f"{self.index}/{self.id}".encode()

    @classmethod
    def decoded(cls, key: bytes | None) -> "DocumentKey":
        """Return the key of a record. Raises DeadLetter if it is malformed."""
        try:
            index, slash, id_ = (key or b"").decode().partition("/")
        except UnicodeDecodeError as error:
            raise DeadLetter("invalid", f"the key of a document is not text: {error}") from error
        if not slash or not id_ or index not in INDICES:
            raise DeadLetter("invalid", "the key of a document names no index of masscomm's own documents")
        return cls(index, id_)


@dataclass(frozen=True, kw_only=True)
class OwnDocument:
    """A document as a write has stored it."""

    key: DocumentKey
    version: Version
    source: Mapping[str, Any]

    def encoded(self, codec: Codec) -> bytes:
        """Return the value of the document's record. Raises Retry or Stop."""
        record = DirectoryDocumentChanged(
            index=self.key.index,
            id=self.key.id,
            primary_term=self.version.primary_term,
            seq_no=self.version.seq_no,
            document=fast_json.encoded(self.source).decode(),
        )
        return codec.encode(DIRECTORY_DOCUMENT, SCHEMA, record.to_avro())


def decoded(key: bytes | None, value: bytes | None, codec: Codec) -> OwnDocument | DocumentKey:
    """Return the document of a record, or the key of a removed one.

    Raises:
        DeadLetter: The record is malformed.
        Retry: The schema registry is unavailable.
    """
    document_key = DocumentKey.decoded(key)
    if value is None:
        return document_key
    record = DirectoryDocumentChanged.from_avro(codec.decode(SCHEMA, value))
    if DocumentKey(record.index, record.id) != document_key:
        raise DeadLetter("invalid", f"the record of {record.index}/{record.id} has another document's key")
    try:
        source = fast_json.parsed(record.document.encode())
    except ValueError as error:
        raise DeadLetter("invalid", f"the document {record.index}/{record.id} is not JSON: {error}") from error
    if not isinstance(source, dict):
        raise DeadLetter("invalid", f"the document {record.index}/{record.id} is not a JSON object")
    return OwnDocument(key=document_key, version=Version(record.primary_term, record.seq_no), source=source)
