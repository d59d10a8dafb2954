"""Erases a person's documents from all snapshot generations in OpenSearch, and the SNS endpoints of the person's
devices.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from botocore.exceptions import ClientError

from masscomm.aws import sdk_errors
from masscomm.cdc.captured_tables import DEVICES, USER_SETTINGS, USERS, personal_tables
from masscomm.directory.bulk_writes import ChangedDocument, VersionedDocument, answering, write, write_changed
from masscomm.directory.client import OpenSearch
from masscomm.directory.device_states import INDEX as DEVICE_STATE
from masscomm.directory.device_states import document_of, some_state, states_in
from masscomm.directory.disabled_devices import DisabledReason
from masscomm.domain import preference_changes, suppressions
from masscomm.errors import Retry
from ops.erasure.person import ERASED_USER, Person

MESSAGES = "provider_messages"
_PAGE = 1_000
_SCROLL = "2m"
_NOT_FOUND = {"NotFound", "NotFoundException"}


class Endpoints(Protocol):
    """The part of boto3's SNS client that this module uses."""

    def delete_endpoint(self, *, EndpointArn: str) -> object: ...


@dataclass(frozen=True, kw_only=True)
class Document:
    """A document that a search returned."""

    index: str
    id: str
    version: int
    # The sequence number and primary term.
    read_from: tuple[int, int]
    source: Mapping[str, Any]


@dataclass(frozen=True)
class SearchIndices:
    """The OpenSearch indices with personal data. Every method raises Retry or Stop."""

    client: OpenSearch
    endpoints: Endpoints
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000

    def learn(self, person: Person) -> bool:
        """Add the addresses and tenants in the person's documents to `person`.

        Returns:
            Whether the OpenSearch indices that serve look-ups now still have the user.
        """
        for document in self._rows(person, USERS, USER_SETTINGS):
            if isinstance(club := document.source.get("club_id"), int):
                person.clubs.add(club)
            person.learn_address(document.source.get("email"))
            person.learn_address(document.source.get("phone"))
        serving = self._search(USERS, {"ids": {"values": [str(person.user_id)]}})
        return any(not document.source.get("deleted") for document in serving)

    def erase_messages(self, person: Person) -> int:
        """Replace the user id in the index of published messages. Returns the number of documents."""
        erased = 0
        for page in self._pages(MESSAGES):
            changed = [
                replace(document, source=_without_user(document.source, person))
                for document in page
                if _names(document.source, person)
            ]
            self._write(changed)
            erased += len(changed)
        return erased

    def erase_endpoints(self, person: Person) -> int:
        """Delete the endpoints of the person's devices that no other device uses, and the devices' states.

        Returns:
            The number of erased device states.
        """
        states = self._states(person)
        arns = {arn for state in states for arn in _endpoints(state)}
        # guard: erasure.other_users_endpoints
        for arn in arns - self._shared_endpoints(arns, [state.id for state in states]):
            self._delete_endpoint(arn)
        # The device registrar stores the same values for a device whose row is deleted.
        deleted: dict[str, Any] = {"token": None, "endpoint_arn": None, "enabled": False, "reason": "deleted"}
        deleted |= {"user_id": None, "taken_in": None, "taken_at": None}
        updated = {"updated_at": self.now_ms()}
        # The device registrar may store another state meanwhile, which has to be erased instead.
        return self._replace(
            [
                (state, document_of([each | deleted | updated for each in states_in(state.source)]))
                for state in states
                if any(each.get("token") or each.get("endpoint_arn") for each in states_in(state.source))
            ]
        )

    def erase_suppressions(self, person: Person) -> int:
        """End the tenant's suppressions of the person's addresses; a sweep of the scheduler deletes their documents.

        Returns:
            The number of ended suppressions.
        """
        names = [suppressions.id_of(person.club_id, address) for address in person.addresses]
        return self._replace(
            [
                (found, {**found.source, "expires_at": suppressions.REMOVED})
                for found in self._search(suppressions.INDEX, {"ids": {"values": names}})
                if found.source.get("expires_at") != suppressions.REMOVED
            ]
        )

    def erase_preference_changes(self, person: Person) -> int:
        """Empty the person's changes of preferences; a sweep of the scheduler deletes the document.

        Returns:
            The number of emptied documents.
        """
        now_ms = self.now_ms()
        emptied = preference_changes.PreferenceChanges(
            user_id=person.user_id,
            club_id=person.club_id,
            version=now_ms,
            produced_version=now_ms,
            source=preference_changes.ERASURE,
        )
        return self._replace(
            [
                (found, emptied.document)
                for found in self._search(preference_changes.INDEX, {"ids": {"values": [str(person.user_id)]}})
                if found.source.get("source") != preference_changes.ERASURE
            ]
        )

    def _replace(self, replaced: Sequence[tuple[Document, Mapping[str, Any]]]) -> int:
        """Replace documents, each only if it is still the one that was found. Return their number."""
        changed = [
            ChangedDocument(index=found.index, id=found.id, after=found.read_from, source=source)
            for found, source in replaced
        ]
        _raise_first(write_changed(self.client, changed))  # guard: erasure.changed_device_state
        return len(changed)

    def erase_rows(self, person: Person) -> int:
        """Replace the person's rows in every snapshot generation by the mark of a deleted row.

        The mark keeps the row's version, so that older changes cannot restore the row.

        Returns:
            The number of rows.
        """
        rows = [row for row in self._rows(person, *personal_tables()) if not row.source.get("deleted")]
        deleted = {"deleted": True, "deleted_at_ms": self.now_ms()}
        self._write([replace(row, source=deleted) for row in rows])
        return len(rows)

    def _rows(self, person: Person, *tables: str) -> list[Document]:
        """Return the person's rows of these tables in all snapshot generations."""
        columns = personal_tables()
        return [row for table in tables for row in self._search(f"{table}-*", _rows_of(person.user_id, columns[table]))]

    def _states(self, person: Person) -> list[Document]:
        ids = {row.id for row in self._rows(person, DEVICES)}
        # In an earlier snapshot generation, a device of the person may now belong to another user.
        serving = self._search(DEVICES, {"ids": {"values": sorted(ids)}})
        ids -= {row.id for row in serving if row.source.get("user_id", person.user_id) != person.user_id}
        return list(self._search(DEVICE_STATE, {"ids": {"values": sorted(ids)}}))

    def _shared_endpoints(self, arns: set[str], ours: Sequence[str]) -> set[str]:
        of_arns = ("terms", "endpoint_arn", sorted(arns))
        enabled = some_state(of_arns, ("term", "enabled", True))
        # The token of such a device comes back to it when the person's row ends.
        moved = some_state(of_arns, ("term", "reason", DisabledReason.TOKEN_MOVED))  # guard: erasure.moved_token
        users = {"bool": {"should": [enabled, moved], "minimum_should_match": 1}}
        query = {"bool": {"filter": [users], "must_not": [{"ids": {"values": list(ours)}}]}}
        return {arn for state in self._search(DEVICE_STATE, query) for arn in _endpoints(state)} if arns else set()

    def _delete_endpoint(self, arn: str) -> None:
        try:
            with sdk_errors.answering("SNS"):
                self.endpoints.delete_endpoint(EndpointArn=arn)
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") not in _NOT_FOUND:
                raise Retry(f"SNS did not delete an endpoint: {error.response.get('Error', {}).get('Code')}") from error

    def _write(self, documents: Sequence[Document]) -> None:
        versioned = [VersionedDocument(index=d.index, id=d.id, version=d.version, source=d.source) for d in documents]
        _raise_first(write(self.client, versioned))

    def _search(self, index: str, query: Mapping[str, Any]) -> Iterator[Document]:
        """Return the documents that match a query.

        Raises:
            Retry: The alias is missing, because no snapshot of the monolith's tables is complete.
        """
        for page in self._pages(index, query):
            yield from page

    def _pages(self, index: str, query: Mapping[str, Any] | None = None) -> Iterator[list[Document]]:
        with answering(f"a search of {index}"):
            self.client.indices.refresh(index=index)
            body = {
                "query": query or {"match_all": {}},
                "size": _PAGE,
                "version": True,
                "seq_no_primary_term": True,
                "sort": ["_doc"],
            }
            answer = self.client.search(index=index, body=body, scroll=_SCROLL)
            while hits := _hits(index, answer):
                yield hits
                answer = self.client.request(
                    "POST", "_search/scroll", {"scroll": _SCROLL, "scroll_id": answer["_scroll_id"]}
                )


def _raise_first(fates: Iterable[Exception | None]) -> None:
    for fate in fates:
        if fate is not None:
            raise fate


def _endpoints(state: Document) -> set[str]:
    return {arn for each in states_in(state.source) if isinstance(arn := each.get("endpoint_arn"), str)}


def _rows_of(user_id: int, column: str) -> dict[str, Any]:
    """Return the query for the rows with the user's id; in the table of users, the document's id is the user's id."""
    return {"ids": {"values": [str(user_id)]}} if column == "id" else {"term": {column: user_id}}


def _hits(index: str, answer: Any) -> list[Document]:
    if answer["timed_out"] or answer["_shards"]["failed"]:
        raise Retry(f"OpenSearch answered a search of {index} only partially")
    return [
        Document(
            index=hit["_index"],
            id=hit["_id"],
            version=hit["_version"],
            read_from=(hit["_seq_no"], hit["_primary_term"]),
            source=hit["_source"],
        )
        for hit in answer["hits"]["hits"]
    ]


def _names(source: Mapping[str, Any], person: Person) -> bool:
    outcome = source.get("outcome", {})
    return outcome.get("club_id") == person.club_id and person.user_id in outcome.get("user_ids", ())


def _without_user(source: Mapping[str, Any], person: Person) -> dict[str, Any]:
    outcome = source["outcome"]
    others = [ERASED_USER if user_id == person.user_id else user_id for user_id in outcome["user_ids"]]
    return {**source, "outcome": {**outcome, "user_ids": others}}
