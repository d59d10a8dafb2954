"""The store of preferences that users changed through masscomm: the index preference_changes, and one in memory.

A document is written only if it is still the one that was read, so that no change is lost to a concurrent one.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from masscomm import fast_json
from masscomm.directory.bulk_writes import answering
from masscomm.directory.client import OpenSearch
from masscomm.domain.preference_changes import INDEX, PreferenceChanges
from masscomm.errors import Retry
from masscomm.observability.unreadable_items import UnreadableItem

# The number of users in one search of a sweep.
_USERS_A_PAGE = 200

type SweptChanges = PreferenceChanges | UnreadableItem


@dataclass(frozen=True, kw_only=True)
class StoredChanges:
    """The changes of a user as they were read. `token` identifies this version of the document; None: there is none."""

    changes: PreferenceChanges
    token: tuple[int, int] | None = None


class PreferenceChangeStore(Protocol):
    """The interface of the store. Every method raises Retry (down, slow, malformed) or Stop (no permission)."""

    def read(self, user_id: int) -> StoredChanges | None:
        """Return the changes of a user; None if there are none. A change is visible as soon as it is written."""
        ...

    def write(self, changes: PreferenceChanges, *, after: StoredChanges | None) -> bool:
        """Store changes unless others were stored since `after` was read; return whether they were stored."""
        ...

    def unproduced(self, before_ms: int) -> Iterator[Sequence[SweptChanges]]:
        """Yield pages of the changes that are older than that time and not on the topic, the oldest first. A change of
        the last second may be missing.
        """
        ...


class OpenSearchPreferenceChanges:
    """The store in OpenSearch."""

    def __init__(self, client: OpenSearch) -> None:
        self._client = client

    def read(self, user_id: int) -> StoredChanges | None:
        (document,) = self._documents([str(user_id)])
        try:
            if document["found"] is False:
                return None
            changes = PreferenceChanges.read(document["_source"])
            return StoredChanges(changes=changes, token=(int(document["_seq_no"]), int(document["_primary_term"])))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise Retry(f"the changed preferences of user {user_id} are malformed") from error

    def _documents(self, ids: Sequence[str]) -> Sequence[Mapping[str, Any]]:
        """Return the documents with these ids, including those that do not exist. A change is visible as soon as it is
        written. Raises Retry or Stop.
        """
        with answering("changed preferences"):
            # The path of a request for several documents does not depend on the user, so that a role can permit it.
            answer = self._client.mget(body={"docs": [{"_index": INDEX, "_id": each} for each in ids]})
        documents: Any = answer.get("docs") if isinstance(answer, dict) else None
        if not isinstance(documents, list) or len(documents) != len(ids):
            raise Retry("OpenSearch answered a look-up of changed preferences with something else")
        for document in documents:
            if "error" in document:
                raise Retry(f"the directory is not ready: {document['error'].get('type')} of {INDEX}")
        return documents

    def write(self, changes: PreferenceChanges, *, after: StoredChanges | None) -> bool:
        token = after.token if after is not None else None
        place: dict[str, Any] = {"_index": INDEX, "_id": str(changes.user_id)}
        action = (
            {"create": place}
            if token is None
            else {"index": {**place, "if_seq_no": token[0], "if_primary_term": token[1]}}
        )
        lines = b"%s\n%s\n" % (fast_json.encoded(action), fast_json.encoded(changes.document))
        with answering("changed preferences"):
            answer = self._client.bulk(body=lines)
        try:
            (item,) = answer["items"]
            (result,) = item.values()
            status = int(result["status"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise Retry("OpenSearch answered a write of changed preferences with something else") from error
        if status not in (200, 201, 409):
            raise Retry(f"OpenSearch answered {status} to a write of changed preferences: {result.get('error')}")
        return status != 409

    def unproduced(self, before_ms: int) -> Iterator[Sequence[SweptChanges]]:
        query = {"filter": [{"term": {"is_produced": False}}, {"range": {"version": {"lt": before_ms}}}]}
        body: dict[str, Any] = {
            "query": {"bool": query},
            # The index has one shard, in which sequence numbers are unique.
            "sort": [{"version": "asc"}, {"_seq_no": "asc"}],
            "size": _USERS_A_PAGE,
            "_source": False,
            "track_total_hits": False,
        }
        while True:
            with answering("changed preferences"):
                answer = self._client.search(index=INDEX, body=body, allow_partial_search_results=False)
            try:
                found = [(str(hit["_id"]), hit["sort"]) for hit in answer["hits"]["hits"]]
            except (KeyError, TypeError) as error:
                raise Retry("OpenSearch answered a search of changed preferences with something else") from error
            if found:
                yield self._swept([id_ for id_, _ in found])
            if len(found) < _USERS_A_PAGE:  # guard: preferences.page_after_unreadable_changes
                return
            body["search_after"] = found[-1][1]

    def _swept(self, ids: Sequence[str]) -> Sequence[SweptChanges]:
        """Return the changes under these ids as they are now: a search is behind by a second."""
        found = [(id_, document) for id_, document in zip(ids, self._documents(ids), strict=True) if document["found"]]
        swept = [_swept(id_, document["_source"]) for id_, document in found]
        return [each for each in swept if isinstance(each, UnreadableItem) or not each.is_produced]


def _swept(id_: str, source: Mapping[str, Any]) -> SweptChanges:
    try:
        changes = PreferenceChanges.read(source)
        if str(changes.user_id) != id_:
            raise ValueError(f"the document names user {changes.user_id}")  # noqa: TRY301 - as any malformed document
    except ValueError as error:  # guard: preferences.unreadable_changes
        return UnreadableItem(store=INDEX, key={"id": id_}, error=str(error))
    return changes


class InMemoryPreferenceChanges:
    """The store in a dictionary, for unit tests.

    Attributes:
        documents: User id → document; InMemoryDirectory.preference_changes.
        failing: An error that every call raises.
    """

    def __init__(self, documents: dict[int, Mapping[str, Any]] | None = None) -> None:
        self.documents = {} if documents is None else documents
        self._numbers: dict[int, int] = {}
        self.failing: Exception | None = None

    def read(self, user_id: int) -> StoredChanges | None:
        self._answer()
        document = self.documents.get(user_id)
        if document is None:
            return None
        return StoredChanges(changes=PreferenceChanges.read(document), token=(self._numbers.get(user_id, 0), 1))

    def write(self, changes: PreferenceChanges, *, after: StoredChanges | None) -> bool:
        self._answer()
        user_id = changes.user_id
        stored = (self._numbers.get(user_id, 0), 1) if user_id in self.documents else None
        if stored != (after.token if after is not None else None):
            return False
        self.documents[user_id] = changes.document
        self._numbers[user_id] = self._numbers.get(user_id, 0) + 1
        return True

    def unproduced(self, before_ms: int) -> Iterator[Sequence[SweptChanges]]:
        self._answer()
        found = [
            (each["version"], id_)
            for id_, each in self.documents.items()
            if not each["is_produced"] and each["version"] < before_ms
        ]
        for _, id_ in sorted(found):
            yield [_swept(str(id_), self.documents[id_])]

    def _answer(self) -> None:
        if self.failing is not None:
            raise self.failing
