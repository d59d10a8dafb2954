"""The devices that have one token, in the OpenSearch index device_state: one document for each token.

Two rows with one token are in different partitions, so several environments change a document. It is changed on the
condition that it is still the one that was read. It names the token by its digest, and no user.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Protocol

from masscomm.directory.bulk_writes import ChangedDocument, Conflict, write_changed
from masscomm.directory.by_id import documents_by_id
from masscomm.directory.client import OpenSearch
from masscomm.directory.device_states import HOLDERS_PREFIX, INDEX


@dataclass(frozen=True)
class Holders:
    """The devices that have a token."""

    device_ids: frozenset[str] = frozenset()
    # The sequence number and primary term of the document that was read; None: there was none.
    read_from: tuple[int, int] | None = field(default=None, compare=False)


class TokenHolders(Protocol):
    """The interface of the store of the holders of tokens. Each method can raise Retry."""

    def read(self, tokens: Collection[str]) -> dict[str, Holders]:
        """Return the holders of each token."""
        ...

    def write(self, holders: Mapping[str, Holders]) -> dict[str, Exception | None]:
        """Store the holders by token, except where the stored ones have changed since they were read. Return the error
        of each write (Conflict in that case) or None.
        """
        ...


class OpenSearchTokenHolders:
    def __init__(self, client: OpenSearch) -> None:
        self._client = client

    def read(self, tokens: Collection[str]) -> dict[str, Holders]:
        ids = {token: _document_id(token) for token in sorted(tokens)}
        documents = documents_by_id(self._client, INDEX, ids.values())
        return {token: _read(documents.get(id_)) for token, id_ in ids.items()}

    def write(self, holders: Mapping[str, Holders]) -> dict[str, Exception | None]:
        documents = [
            ChangedDocument(
                index=INDEX,
                id=_document_id(token),
                after=each.read_from,
                source={"holders": sorted(each.device_ids)},
            )
            for token, each in holders.items()
        ]
        return dict(zip(holders, write_changed(self._client, documents), strict=True))


def _read(document: Mapping[str, Any] | None) -> Holders:
    if document is None:
        return Holders()
    return Holders(frozenset(document["_source"]["holders"]), (document["_seq_no"], document["_primary_term"]))


def _document_id(token: str) -> str:
    return f"{HOLDERS_PREFIX}{sha256(token.encode()).hexdigest()}"


class InMemoryTokenHolders:
    def __init__(self) -> None:
        self.stored: dict[str, Holders] = {}

    def read(self, tokens: Collection[str]) -> dict[str, Holders]:
        return {token: self.stored.get(token, Holders()) for token in tokens}

    def write(self, holders: Mapping[str, Holders]) -> dict[str, Exception | None]:
        return {token: self._write(token, each) for token, each in holders.items()}

    def _write(self, token: str, holders: Holders) -> Exception | None:
        known = self.stored.get(token, Holders()).read_from
        if known != holders.read_from:
            return Conflict("the stored holders have changed")
        self.stored[token] = Holders(holders.device_ids, (known[0] + 1 if known else 0, 1))
        return None
