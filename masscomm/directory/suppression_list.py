"""Lists and removes suppressions: addresses to which a club (tenant) sends no e-mail (masscomm.domain.suppressions)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from masscomm.directory.bulk_writes import answering
from masscomm.directory.client import OpenSearch
from masscomm.domain.suppressions import INDEX
from masscomm.observability.unreadable_items import read_each

# The position of a suppression in the list: its time in ms since the epoch, and OpenSearch's sequence number.
type Position = tuple[int, int]


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
        filters: list[dict[str, Any]] = [{"terms": {"club_id": list(clubs)}}] if clubs else []
        if address_id is not None:
            filters.append({"term": {"address_id": address_id}})
        body: dict[str, Any] = {
            "query": {"bool": {"filter": filters}},
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
        wanted = {"query": {"ids": {"values": [id_]}}}
        with answering("a removal of a suppression"):
            self._client.indices.refresh(index=INDEX)
            answer = self._client.delete_by_query(index=INDEX, body=wanted, params={"refresh": True})
        return bool(answer["deleted"])


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
