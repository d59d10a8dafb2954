"""The store of preferences that users changed through masscomm: the index preference_changes, and one in memory.

A document is written only if it is still the one that was read, so that no change is lost to a concurrent one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from masscomm import fast_json
from masscomm.directory.bulk_writes import answering
from masscomm.directory.client import OpenSearch
from masscomm.domain.preference_changes import INDEX, PreferenceChanges
from masscomm.errors import Retry

# The number of users whose changes are produced again by one sweep.
_SWEPT = 200


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

    def unproduced(self, before_ms: int) -> list[int]:
        """Return users whose newest change is older than that time and not on the topic. A change of the last second
        may be missing.
        """
        ...


class OpenSearchPreferenceChanges:
    """The store in OpenSearch."""

    def __init__(self, client: OpenSearch) -> None:
        self._client = client

    def read(self, user_id: int) -> StoredChanges | None:
        with answering("changed preferences"):
            # The path of a request for several documents does not depend on the user, so that a role can permit it.
            answer = self._client.mget(body={"docs": [{"_index": INDEX, "_id": str(user_id)}]})
        try:
            (document,) = answer["docs"]
            if "error" in document:
                raise Retry(f"the directory is not ready: {document['error'].get('type')} of {INDEX}")
            if document["found"] is False:
                return None
            changes = PreferenceChanges.read(document["_source"])
            return StoredChanges(changes=changes, token=(int(document["_seq_no"]), int(document["_primary_term"])))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise Retry(f"the changed preferences of user {user_id} are malformed") from error

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

    def unproduced(self, before_ms: int) -> list[int]:
        query = {"filter": [{"term": {"is_produced": False}}, {"range": {"version": {"lt": before_ms}}}]}
        body = {"query": {"bool": query}, "sort": [{"version": "asc"}], "size": _SWEPT, "_source": False}
        with answering("changed preferences"):
            answer = self._client.search(index=INDEX, body=body, allow_partial_search_results=False)
        try:
            return [int(hit["_id"]) for hit in answer["hits"]["hits"]]
        except (KeyError, TypeError, ValueError) as error:
            raise Retry("OpenSearch answered a search of changed preferences with something else") from error


class InMemoryPreferenceChanges:
    """The store in a dictionary, for unit tests.

    Args:
        documents: User id → document; InMemoryDirectory.preference_changes.

    Attributes:
        failing: An error that every call raises.
    """

    def __init__(self, documents: dict[int, Mapping[str, Any]] | None = None) -> None:
        self._documents = {} if documents is None else documents
        self._numbers: dict[int, int] = {}
        self.failing: Exception | None = None

    def read(self, user_id: int) -> StoredChanges | None:
        self._answer()
        document = self._documents.get(user_id)
        if document is None:
            return None
        return StoredChanges(changes=PreferenceChanges.read(document), token=(self._numbers.get(user_id, 0), 1))

    def write(self, changes: PreferenceChanges, *, after: StoredChanges | None) -> bool:
        self._answer()
        user_id = changes.user_id
        stored = (self._numbers.get(user_id, 0), 1) if user_id in self._documents else None
        if stored != (after.token if after is not None else None):
            return False
        self._documents[user_id] = changes.document
        self._numbers[user_id] = self._numbers.get(user_id, 0) + 1
        return True

    def unproduced(self, before_ms: int) -> list[int]:
        self._answer()
        found = [each for each in self._documents.values() if not each["is_produced"] and each["version"] < before_ms]
        return [each["user_id"] for each in sorted(found, key=lambda each: each["version"])]

    def _answer(self) -> None:
        if self.failing is not None:
            raise self.failing
