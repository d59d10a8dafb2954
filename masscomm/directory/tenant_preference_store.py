"""The store of the rules of tenants: the index tenant_preferences, and one in memory.

A document is written only if it is still the one that was read, so that no change is lost to a concurrent one. Removed
rules are a document without rules, because a copy of the directory forgets the version of a removed document.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from masscomm.directory.bulk_writes import ChangedDocument, Conflict, write_changed
from masscomm.directory.by_id import documents_by_id
from masscomm.directory.client import OpenSearch
from masscomm.domain.tenant_preferences import INDEX, TenantPreferences


@dataclass(frozen=True, kw_only=True)
class StoredTenantPreferences:
    """The rules of a tenant as they were read. `token` identifies this version of the document."""

    # None: the document is damaged. It can be replaced.
    preferences: TenantPreferences | None
    token: tuple[int, int]


class TenantPreferenceStore(Protocol):
    """The interface of the store. Every method raises Retry (down, slow) or Stop (no permission)."""

    def read(self, club_id: int) -> StoredTenantPreferences | None:
        """Return the rules of a club; None if none were stored. A change is visible as soon as it is written."""
        ...

    def write(self, preferences: TenantPreferences, *, after: StoredTenantPreferences | None) -> bool:
        """Store rules unless others were stored since `after` was read; return whether they were stored."""
        ...


class OpenSearchTenantPreferences:
    """The store in OpenSearch."""

    def __init__(self, client: OpenSearch) -> None:
        self._client = client

    def read(self, club_id: int) -> StoredTenantPreferences | None:
        document = documents_by_id(self._client, INDEX, [str(club_id)]).get(str(club_id))
        if document is None:
            return None
        return _stored(document["_source"], (int(document["_seq_no"]), int(document["_primary_term"])))

    def write(self, preferences: TenantPreferences, *, after: StoredTenantPreferences | None) -> bool:
        changed = ChangedDocument(
            index=INDEX,
            id=str(preferences.club_id),
            after=after.token if after is not None else None,
            source=preferences.document,
        )
        (error,) = write_changed(self._client, [changed])
        if error is not None and not isinstance(error, Conflict):
            raise error
        return error is None


class InMemoryTenantPreferences:
    """The store in a dictionary, for unit tests.

    Attributes:
        documents: Club → document; InMemoryDirectory.tenant_preferences.
        failing: An error that every call raises.
    """

    def __init__(self, documents: dict[int, Mapping[str, Any]] | None = None) -> None:
        self.documents = {} if documents is None else documents
        self._numbers: dict[int, int] = {}
        self.failing: Exception | None = None

    def read(self, club_id: int) -> StoredTenantPreferences | None:
        if self.failing is not None:
            raise self.failing
        document = self.documents.get(club_id)
        return None if document is None else _stored(document, (self._numbers.get(club_id, 0), 1))

    def write(self, preferences: TenantPreferences, *, after: StoredTenantPreferences | None) -> bool:
        if self.failing is not None:
            raise self.failing
        club_id = preferences.club_id
        stored = (self._numbers.get(club_id, 0), 1) if club_id in self.documents else None
        if stored != (after.token if after is not None else None):
            return False
        self.documents[club_id] = preferences.document
        self._numbers[club_id] = self._numbers.get(club_id, 0) + 1
        return True


def _stored(source: Mapping[str, Any], token: tuple[int, int]) -> StoredTenantPreferences:
    preferences = None
    with suppress(ValueError):
        preferences = TenantPreferences.read(source)
    return StoredTenantPreferences(preferences=preferences, token=token)
