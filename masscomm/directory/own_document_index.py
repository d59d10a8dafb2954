"""The indices of masscomm's own documents, as the sweep reads them that publishes what a crash has left out.

OpenSearch numbers the writes of a shard; each of these indices has one. All writes up to the global checkpoint are on
each copy of the shard, so that a later read in the order of the numbers misses none. The numbers belong to the history
of the shard: a restored index, or one that was created again, begins another one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from masscomm.directory.bulk_writes import Conflict, RemovedDocument, answering, remove_unchanged
from masscomm.directory.client import ConflictError, NotFoundError, OpenSearch
from masscomm.directory.document_publisher import document_of
from masscomm.directory.generations import INDEX as DIRECTORY_STATE
from masscomm.directory.own_documents import INDICES, DocumentKey, OwnDocument, Version
from masscomm.domain import preference_changes, suppressions
from masscomm.errors import Retry

PAGE = 500


@dataclass(frozen=True)
class WritePosition:
    """A position in the writes of an index."""

    history_id: str
    # All writes up to this number are on each copy of the shard; -1: none.
    seq_no: int


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far an index has been published."""

    history_id: str
    # Documents whose last write has at most this number are on the topic, without a later record of an earlier write.
    published: int
    # The global checkpoint at a time, in ms since the epoch; the next sweeps publish up to it.
    seen: int
    seen_at_ms: int
    # Whether each document of this history was published once: only then a copy that has read the topic is complete.
    is_filled: bool
    # Whether an earlier history was published: its documents may have higher versions than those of this history.
    is_later_history: bool
    # The sequence number and primary term of the stored progress; None: it was not read from the store.
    token: tuple[int, int] | None = field(default=None, compare=False)


class OwnDocumentIndices(Protocol):
    """Methods raise Retry (down, slow, malformed answer) or Stop (no permission)."""

    def position(self, index: str) -> WritePosition:
        """Return the position up to which each write is on all copies of the index."""
        ...

    def written(self, index: str, *, after: int, until: int) -> Sequence[OwnDocument]:
        """Return the next documents whose last write has a number above `after` and at most `until`, in the order of
        the numbers: PAGE documents, or all if they are fewer.
        """
        ...

    def ended(self, index: str, *, until: int, now_ms: int) -> Sequence[OwnDocument]:
        """Return at most PAGE documents that are to be removed, and whose last write has at most the number `until`:
        expired and removed suppressions, and changes of erased users.
        """
        ...

    def remove(self, documents: Sequence[OwnDocument]) -> list[Exception | None]:
        """Remove documents, each only if it is still the given one. Return the error of each, or None."""
        ...

    def progress(self, index: str) -> Progress | None:
        """Return the stored progress; None if there is none."""
        ...

    def store_progress(self, index: str, progress: Progress) -> Progress | None:
        """Store progress, unless another one was stored since it was read. Return it as it is stored; None if it was
        not stored.
        """
        ...


class OpenSearchOwnDocumentIndices:
    def __init__(self, client: OpenSearch) -> None:
        self._client = client

    def position(self, index: str) -> WritePosition:
        # https://docs.opensearch.org/latest/api-reference/index-apis/stats/
        with answering(f"the position of {index}"):
            answer = self._client.request("GET", f"{index}/_stats/docs", params={"level": "shards"})
        try:
            ((copies),) = answer["indices"][index]["shards"].values()
            (primary,) = [each for each in copies if each["routing"]["primary"]]
            if answer["_shards"]["failed"]:
                raise Retry(f"OpenSearch answered the position of {index} only in part")
            history_id = str(primary["commit"]["user_data"]["history_uuid"])
            return WritePosition(history_id, int(primary["seq_no"]["global_checkpoint"]))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise Retry(f"OpenSearch answered the position of {index} with something else: {error!r}") from error

    def written(self, index: str, *, after: int, until: int) -> Sequence[OwnDocument]:
        return self._found(index, [_numbers(gt=after, lte=until)])

    def ended(self, index: str, *, until: int, now_ms: int) -> Sequence[OwnDocument]:
        if index == suppressions.INDEX:
            is_ended: dict[str, Any] = {"range": {"expires_at": {"lt": now_ms}}}
        elif index == preference_changes.INDEX:
            is_ended = {"term": {"source": preference_changes.ERASURE}}
        else:
            return []
        return self._found(index, [is_ended, _numbers(lte=until)])

    def _found(self, index: str, filters: Sequence[Mapping[str, Any]]) -> Sequence[OwnDocument]:
        body: dict[str, Any] = {
            "query": {"bool": {"filter": filters}},
            "sort": [{"_seq_no": "asc"}],
            "size": PAGE,
            "seq_no_primary_term": True,
            "track_total_hits": False,
        }
        with answering(f"a search of {index}"):
            self._client.indices.refresh(index=index)
            # A replica may show the refresh later.
            answer = self._client.search(
                index=index, body=body, preference="_primary", allow_partial_search_results=False
            )
        try:
            if answer["timed_out"] or answer["_shards"]["failed"]:
                raise Retry(f"OpenSearch answered a search of {index} only in part")
            return [document_of(index, hit) for hit in answer["hits"]["hits"]]
        except (KeyError, TypeError) as error:
            raise Retry(f"OpenSearch answered a search of {index} with something else: {error!r}") from error

    def remove(self, documents: Sequence[OwnDocument]) -> list[Exception | None]:
        removed = [
            RemovedDocument(
                index=each.key.index, id=each.key.id, after=(each.version.seq_no, each.version.primary_term)
            )
            for each in documents
        ]
        return remove_unchanged(self._client, removed)

    def progress(self, index: str) -> Progress | None:
        try:
            with answering("the progress of a publication"):
                found = self._client.get(index=DIRECTORY_STATE, id=document_id(index))
        except Retry as error:
            if isinstance(error.__cause__, NotFoundError) and error.__cause__.error == "":
                return None  # The index exists, and the document does not.
            raise
        try:
            return _progress(found)
        except (KeyError, TypeError) as error:
            raise Retry(f"the progress of {index} is malformed: {error!r}") from error

    def store_progress(self, index: str, progress: Progress) -> Progress | None:
        token = progress.token
        params = {"op_type": "create"} if token is None else {"if_seq_no": token[0], "if_primary_term": token[1]}
        body = {
            "history_id": progress.history_id,
            "published_seq_no": progress.published,
            "seen_seq_no": progress.seen,
            "seen_at": progress.seen_at_ms,
            "is_filled": progress.is_filled,
            "is_later_history": progress.is_later_history,
        }
        try:
            with answering("the progress of a publication"):
                stored = self._client.index(index=DIRECTORY_STATE, id=document_id(index), body=body, params=params)
        except ConflictError:
            return None
        return replace(progress, token=(int(stored["_seq_no"]), int(stored["_primary_term"])))


def unfilled(indices: OwnDocumentIndices) -> list[str]:
    """Return the indices whose documents are not all on the topic yet: in a new installation, or one of 0.1.0, before
    the first sweeps. A copy of the directory that is fed from the topic does not answer until there is none.

    Raises Retry or Stop.
    """
    found = {index: indices.progress(index) for index in INDICES}
    return [index for index, progress in found.items() if progress is None or not progress.is_filled]


def note_empty(indices: OwnDocumentIndices, now_ms: int) -> None:
    """Note that the topic has all documents of the indices that are new and empty. Raises Retry or Stop."""
    for index in INDICES:
        position = indices.position(index)
        if position.seq_no == -1 and indices.progress(index) is None:
            empty = Progress(
                history_id=position.history_id,
                published=-1,
                seen=-1,
                seen_at_ms=now_ms,
                is_filled=True,
                is_later_history=False,
            )
            indices.store_progress(index, empty)


def document_id(index: str) -> str:
    """Return the id of the document with an index's progress."""
    return f"published-{index}"


def _numbers(**bounds: int) -> dict[str, Any]:
    return {"range": {"_seq_no": bounds}}


def _progress(found: Mapping[str, Any]) -> Progress:
    source = found["_source"]
    return Progress(
        history_id=source["history_id"],
        published=source["published_seq_no"],
        seen=source["seen_seq_no"],
        seen_at_ms=source["seen_at"],
        is_filled=source["is_filled"],
        is_later_history=source["is_later_history"],
        token=(found["_seq_no"], found["_primary_term"]),
    )


class InMemoryOwnDocumentIndices:
    """Indices in dictionaries, for unit tests.

    Attributes:
        documents: The stored documents.
        history_ids: The history of each index that does not have the first one.
        failing: An error that every call for an index raises.
    """

    def __init__(self) -> None:
        self.documents: dict[DocumentKey, OwnDocument] = {}
        self.history_ids: dict[str, str] = {}
        self.failing: dict[str, Exception] = {}
        self._seq_nos: dict[str, int] = {}
        self._progress: dict[str, Progress] = {}

    def put(self, key: DocumentKey, source: Mapping[str, Any], *, after: Version | None = None) -> Version | None:
        """Store a document if the stored one has the version `after`. Return its version; None: it was not stored."""
        stored = self.documents.get(key)
        if (stored.version if stored is not None else None) != after:
            return None
        version = Version(1, self._next(key.index))
        self.documents[key] = OwnDocument(key=key, version=version, source=source)
        return version

    def restore(self, index: str, documents: Sequence[OwnDocument], history_id: str) -> None:
        """Replace an index by the state of an earlier time."""
        self.documents = {key: each for key, each in self.documents.items() if key.index != index}
        self.documents |= {each.key: each for each in documents}
        self._seq_nos[index] = max((each.version.seq_no for each in documents), default=-1)
        self.history_ids[index] = history_id

    def _next(self, index: str) -> int:
        self._seq_nos[index] = self._seq_nos.get(index, -1) + 1
        return self._seq_nos[index]

    def position(self, index: str) -> WritePosition:
        self._answer(index)
        return WritePosition(self.history_ids.get(index, "first"), self._seq_nos.get(index, -1))

    def written(self, index: str, *, after: int, until: int) -> Sequence[OwnDocument]:
        return [each for each in self._found(index) if after < each.version.seq_no <= until][:PAGE]

    def ended(self, index: str, *, until: int, now_ms: int) -> Sequence[OwnDocument]:
        found = [each for each in self._found(index) if each.version.seq_no <= until]
        if index == suppressions.INDEX:
            found = [each for each in found if each.source["expires_at"] < now_ms]
        elif index == preference_changes.INDEX:
            found = [each for each in found if each.source["source"] == preference_changes.ERASURE]
        else:
            found = []
        return found[:PAGE]

    def _found(self, index: str) -> list[OwnDocument]:
        self._answer(index)
        found = [each for key, each in self.documents.items() if key.index == index]
        return sorted(found, key=lambda each: each.version.seq_no)

    def remove(self, documents: Sequence[OwnDocument]) -> list[Exception | None]:
        return [self._remove(each) for each in documents]

    def _remove(self, document: OwnDocument) -> Exception | None:
        self._answer(document.key.index)
        stored = self.documents.get(document.key)
        if stored is None or stored.version != document.version:
            return Conflict("the stored document is another one")
        del self.documents[document.key]
        self._next(document.key.index)
        return None

    def progress(self, index: str) -> Progress | None:
        self._answer(index)
        return self._progress.get(index)

    def store_progress(self, index: str, progress: Progress) -> Progress | None:
        self._answer(index)
        stored = self._progress.get(index)
        if (stored.token if stored is not None else None) != progress.token:
            return None
        number = progress.token[0] + 1 if progress.token is not None else 0
        self._progress[index] = replace(progress, token=(number, 1))
        return self._progress[index]

    def _answer(self, index: str) -> None:
        if index in self.failing:
            raise self.failing[index]
