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

    # The id of the document: `club-SHA-256`, in the form of earlier versions the SHA-256 alone.
    id: str
    # None: every club, in the form of earlier versions.
    club_id: int | None
    # The SHA-256 of the address, in hex (masscomm.domain.ids.address_id).
    address_id: str
    reason: str
    # Times in ms since the epoch; expires_at_ms is None if the suppression does not expire.
    at_ms: int
    expires_at_ms: int | None


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

    def remove(self, ids: Sequence[str]) -> int:
        """Remove suppressions by their ids; return the number of those that existed."""
        ...

    def existing(self, ids: Sequence[str]) -> set[str]:
        """Return the ids of suppressions that exist."""
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
            either = [{"term": {"address_id": address_id}}, {"ids": {"values": [address_id]}}]
            filters.append({"bool": {"should": either}})
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

    def remove(self, ids: Sequence[str]) -> int:
        wanted = {"query": {"ids": {"values": list(ids)}}}
        with answering("a removal of suppressions"):
            self._client.indices.refresh(index=INDEX)
            answer = self._client.delete_by_query(index=INDEX, body=wanted, params={"refresh": True})
        return int(answer["deleted"])

    def existing(self, ids: Sequence[str]) -> set[str]:
        with answering("a look-up of suppressions"):
            documents = self._client.mget(index=INDEX, body={"ids": list(ids)})["docs"]
        return {document["_id"] for document in documents if document["found"]}


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

    def remove(self, ids: Sequence[str]) -> int:
        before = len(self._rows)
        self._rows = [row for row in self._rows if row.id not in ids]
        return before - len(self._rows)

    def existing(self, ids: Sequence[str]) -> set[str]:
        return {row.id for row in self._rows} & set(ids)


def _suppression(hit: Mapping[str, Any]) -> StoredSuppression:
    id_, source = hit["_id"], hit["_source"]
    return StoredSuppression(
        id=id_,
        club_id=source.get("club_id"),
        address_id=source.get("address_id", id_),
        reason=source["reason"],
        at_ms=source["at"],
        expires_at_ms=source.get("expires_at"),
    )
