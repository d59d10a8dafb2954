"""Lists and removes suppressions: addresses to which a club (tenant) sends nothing (masscomm.domain.suppressions).

A removed suppression has ended at once. Its document is deleted by a sweep, once the topic directory_document has its
removal (functions.scheduler.publish_documents).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from masscomm.directory.bulk_writes import ChangedDocument, Conflict, answering, write_changed
from masscomm.directory.by_id import documents_by_id
from masscomm.directory.client import OpenSearch
from masscomm.domain.suppressions import INDEX, REMOVED
from masscomm.errors import Retry
from masscomm.observability.unreadable_items import read_each

# The position of a suppression in the list: its time in ms since the epoch, and OpenSearch's sequence number.
type Position = tuple[int, int]
# The attempts to remove a suppression that receipts change.
_ATTEMPTS = 3


@dataclass(frozen=True, kw_only=True)
class StoredSuppression:
    """A suppression as it is stored, without the address."""

    # The id of the document: `club-SHA-256`.
    id: str
    club_id: int
    # The SHA-256 of the address, in hex (masscomm.domain.ids.address_id).
    address_id: str
    reason: str
    # Times in ms since the epoch.
    at_ms: int
    expires_at_ms: int


@dataclass(frozen=True, kw_only=True)
class SuppressionPage:
    rows: Sequence[StoredSuppression]
    # The position of the last row if more suppressions follow it, else None.
    next: Position | None


class SuppressionList(Protocol):
    """Methods raise Retry (down, slow) or Stop (no permission)."""

    def page(
        self, *, clubs: Sequence[int], address_id: str | None, limit: int, after: Position | None
    ) -> SuppressionPage:
        """Return suppressions, the latest first.

        Args:
            clubs: Suppressions of these clubs only; without any, of every club.
            address_id: Suppressions of this address only.
            limit: The maximum number of rows.
            after: The position after which the page begins.
        """
        ...

    def remove(self, id_: str) -> bool:
        """Remove a suppression by its id; return whether it existed."""
        ...


class OpenSearchSuppressionList:
    """The suppressions in OpenSearch."""

    def __init__(self, client: OpenSearch) -> None:
        self._client = client

    def page(
        self, *, clubs: Sequence[int], address_id: str | None, limit: int, after: Position | None
    ) -> SuppressionPage:
        filters: list[dict[str, Any]] = [{"range": {"expires_at": {"gt": REMOVED}}}]
        if clubs:
            filters.append({"terms": {"club_id": list(clubs)}})
        if address_id is not None:
            filters.append({"term": {"address_id": address_id}})
        body: dict[str, Any] = {
            # A START suppresses nothing.
            "query": {"bool": {"filter": filters, "must_not": [{"term": {"is_lifted": True}}]}},
            # The index has one shard, in which sequence numbers are unique.
            "sort": [{"at": "desc"}, {"_seq_no": "desc"}],
            "size": limit + 1,
        }
        if after is not None:
            body["search_after"] = list(after)
        with answering("a search of suppressions"):
            hits = self._client.search(index=INDEX, body=body)["hits"]["hits"]
        shown = hits[:limit]
        at_ms, number = shown[-1]["sort"] if shown else (0, 0)
        return SuppressionPage(
            rows=list(read_each(shown, _suppression, store=INDEX, key=lambda hit: {"id": hit["_id"]})),
            next=(at_ms, number) if len(hits) > limit else None,
        )

    def remove(self, id_: str) -> bool:
        for _ in range(_ATTEMPTS):
            found = documents_by_id(self._client, INDEX, [id_]).get(id_)
            source = {} if found is None else found["_source"]
            if found is None or source.get("expires_at") == REMOVED or source.get("is_lifted"):
                return False
            removed = ChangedDocument(
                index=INDEX,
                id=id_,
                after=(found["_seq_no"], found["_primary_term"]),
                source={**found["_source"], "expires_at": REMOVED},
            )
            (error,) = write_changed(self._client, [removed])
            if error is None:
                with answering("a removal of a suppression"):
                    self._client.indices.refresh(index=INDEX)
                return True
            if not isinstance(error, Conflict):
                raise error
        raise Retry("receipts change the suppression at the same time")


class InMemorySuppressionList:
    """Suppressions in a list, for unit tests."""

    def __init__(self, rows: Sequence[StoredSuppression] = ()) -> None:
        self._rows = list(rows)

    def page(
        self, *, clubs: Sequence[int], address_id: str | None, limit: int, after: Position | None
    ) -> SuppressionPage:
        numbered = [((row.at_ms, number), row) for number, row in enumerate(self._rows)]
        found = [
            (position, row)
            for position, row in sorted(numbered, key=lambda each: each[0], reverse=True)
            if (not clubs or row.club_id in clubs)
            and address_id in (None, row.address_id)
            and (after is None or position < after)
        ]
        shown = found[:limit]
        return SuppressionPage(
            rows=[row for _, row in shown], next=shown[-1][0] if len(found) > limit and shown else None
        )

    def remove(self, id_: str) -> bool:
        before = len(self._rows)
        self._rows = [row for row in self._rows if row.id != id_]
        return len(self._rows) < before


def _suppression(hit: Mapping[str, Any]) -> StoredSuppression:
    source = hit["_source"]
    return StoredSuppression(
        id=hit["_id"],
        club_id=source["club_id"],
        address_id=source["address_id"],
        reason=source["reason"],
        at_ms=source["at"],
        expires_at_ms=source["expires_at"],
    )
