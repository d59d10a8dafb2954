"""Fills the indices of masscomm's own documents from the compacted topic directory_document, after they were lost:
suppressions, changed preferences, rules of tenants, and states of devices.

A document that exists was written since then, and stays. Changed preferences are merged with those that were lost,
because a user's earlier opt-outs are still in force.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import batched
from typing import Any

from masscomm.clock import Clock
from masscomm.directory.bulk_writes import ChangedDocument, Conflict, write_changed
from masscomm.directory.by_id import documents_by_id
from masscomm.directory.client import OpenSearch
from masscomm.directory.own_document_index import OwnDocumentIndices, Progress
from masscomm.directory.own_documents import INDICES, DocumentKey, OwnDocument, decoded
from masscomm.domain.preference_changes import ERASURE, PreferenceChanges
from masscomm.domain.preference_changes import INDEX as PREFERENCES
from masscomm.errors import DeadLetter, Retry
from masscomm.kafka.avro import Codec
from masscomm.kafka.topic_reading import TopicReader, record_of
from masscomm.kafka.topics import DIRECTORY_DOCUMENT

_DOCUMENTS = 1_000
# How often a document is written that others change at the same time.
_ATTEMPTS = 5


def published_documents(reader: TopicReader, codec: Codec) -> Iterator[list[OwnDocument]]:
    """Yield the newest documents of each partition of the topic. A record that cannot be read has none.

    Raises Retry if the schema registry does not answer.
    """
    for partition in reader.partitions(DIRECTORY_DOCUMENT):
        found: dict[DocumentKey, OwnDocument] = {}
        for message in reader.read([partition]):
            record = record_of(message)
            try:
                change = decoded(record.key, record.value, codec)
            except DeadLetter:
                continue
            if isinstance(change, DocumentKey):
                found.pop(change, None)
            elif change.key not in found or found[change.key].version <= change.version:
                found[change.key] = change
        yield list(found.values())


def restore(
    client: OpenSearch, indices: OwnDocumentIndices, lost: Iterable[Sequence[OwnDocument]], clock: Clock
) -> Counter[str]:
    """Write lost documents; return the number of written ones by index.

    Raises Retry or Stop; a repetition continues.
    """
    written = Counter[str]()
    published_again = set[str]()
    for documents in lost:
        for index in INDICES:
            of_index = [each for each in documents if each.key.index == index]
            for some in batched(of_index, _DOCUMENTS, strict=False):
                stored = documents_by_id(client, index, [each.key.id for each in some])
                missing = [each for each in some if each.key.id not in stored]
                if missing and index not in published_again:  # guard: rebuild.lower_versions
                    _publish_again(indices, index, clock)
                    published_again.add(index)
                conflicts = _conflicts(missing, write_changed(client, [_new(each) for each in missing]))
                written[index] += len(missing) - len(conflicts)
                if index == PREFERENCES:
                    existing = [each for each in some if each.key.id in stored]
                    written[index] += _merge(client, existing + conflicts)
    return +written


def _new(document: OwnDocument) -> ChangedDocument:
    return ChangedDocument(index=document.key.index, id=document.key.id, after=None, source=document.source)


def _conflicts[T](documents: Sequence[T], errors: Sequence[Exception | None]) -> list[T]:
    """Return the documents that others have written meanwhile. Raises any other error."""
    for error in errors:
        if error is not None and not isinstance(error, Conflict):
            raise error
    return [document for document, error in zip(documents, errors, strict=True) if error is not None]


def _merge(client: OpenSearch, lost: Sequence[OwnDocument]) -> int:
    """Write changed preferences over the lost ones; return the number of written documents."""
    written = 0
    for _ in range(_ATTEMPTS):
        stored = documents_by_id(client, PREFERENCES, [each.key.id for each in lost])
        merged = [
            document
            for each in lost
            if each.key.id in stored and (document := _over(stored[each.key.id], each)) is not None
        ]
        conflicts = _conflicts(merged, write_changed(client, merged))
        written += len(merged) - len(conflicts)
        if not conflicts:
            return written
    raise Retry("the changes of a user's preferences are written by others at the same time")


def _over(stored: Mapping[str, Any], lost: OwnDocument) -> ChangedDocument | None:
    """Return the stored changes of a user with the lost ones; None if these add nothing."""
    source = stored["_source"]
    if source["source"] == ERASURE:  # guard: rebuild.erased_user
        return None
    try:
        present, earlier = PreferenceChanges.read(source), PreferenceChanges.read(lost.source)
    except ValueError:
        return None  # A document that cannot be read opts the user out of everything.
    whole = present.over(earlier)
    if whole == present:
        return None
    after = (stored["_seq_no"], stored["_primary_term"])
    return ChangedDocument(index=PREFERENCES, id=lost.key.id, after=after, source=whole.document)


def _publish_again(indices: OwnDocumentIndices, index: str, clock: Clock) -> None:
    """Have the sweep publish all documents of an index, whose versions are lower than those on the topic."""
    for _ in range(_ATTEMPTS):
        progress = indices.progress(index)
        if progress is not None:
            again = replace(progress, published=-1, is_later_history=True)
        else:
            position = indices.position(index)
            again = Progress(
                history_id=position.history_id,
                published=-1,
                seen=position.seq_no,
                seen_at_ms=clock.now_ms(),
                is_filled=False,
                is_later_history=True,
            )
        if indices.store_progress(index, again) is not None:
            return
    raise Retry(f"the progress of {index} is changed by others at the same time")
