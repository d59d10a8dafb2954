"""Stores the messages that providers accepted, by the provider's message id, and the failures and suppressions that
follow from receipts.

Each outcome record of delivery is one document with at most 500 recipients; any message id in it finds the document. So
a recipient costs a five-hundredth of a write, and a receipt a hundredth of a search (docs/decisions/037).
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import batched
from typing import Any, Protocol

from masscomm.directory.bulk_writes import ChangedDocument, VersionedDocument, answering, write, write_changed
from masscomm.directory.by_id import documents_by_id
from masscomm.directory.client import OpenSearch
from masscomm.directory.device_states import INDEX as DEVICE_STATE
from masscomm.directory.device_states import some_state, states_in
from masscomm.domain.records import NotificationOutcome
from masscomm.domain.statuses import Reason
from masscomm.domain.suppressions import INDEX as SUPPRESSIONS
from masscomm.domain.suppressions import NumberAnswer, Suppression, newest_of, with_answer, with_bounce
from masscomm.errors import DeadLetter, Retry
from masscomm.observability.traces import Trace, of_headers
from masscomm.observability.unreadable_items import read_each

MESSAGES, USERS = "provider_messages", "users"
# The number of message ids in one search; each may belong to another document.
_IDS_A_SEARCH = 100
_REFUSED = "refused-"
# The fields of an outcome record that its document has.
_OUTCOME = (
    *("send_id", "chunk_index", "club_id", "type", "channel", "requested_at"),
    *("positions", "user_ids", "provider_message_ids", "fallback", "due_at"),
)
# Those that a document of an earlier version may lack.
_ADDED = ("fallback", "due_at")
# The maximum size in bytes of a document's id and of a term, as OpenSearch limits them.
_LONGEST_ID = 512
_LONGEST_KEYWORD = 32_766


@dataclass(frozen=True, kw_only=True)
class SentMessage:
    """A message that a provider accepted.

    Attributes:
        outcome_id: The id of delivery's outcome record.
        siblings: The ids of all messages of the notification, this one included.
        trace: The trace of the delivery; None if its record had none.
    """

    outcome_id: str
    send_id: str
    chunk_index: int
    club_id: int
    type: str
    channel: str
    requested_at: int
    position: int
    user_id: int
    siblings: tuple[str, ...]
    # As in the outcome record.
    fallback: str | None = None
    due_at: int | None = None
    trace: Trace | None = None


@dataclass(frozen=True)
class OutcomeWithTrace:
    """An outcome record of delivery, with the trace in its headers."""

    outcome: NotificationOutcome
    trace: Trace | None = None


@dataclass(frozen=True, kw_only=True)
class MessageFailure:
    """One of several messages of a notification did not arrive. `at_ms` is the time at which the provider reported
    it.
    """

    message_id: str
    reason: Reason
    at_ms: int


class SentMessages(Protocol):
    """The interface of the store of sent messages. Every method raises Retry or Stop."""

    def store(self, sent: Sequence[OutcomeWithTrace]) -> list[Exception | None]:
        """Store the messages in these records; return, in the order of the records, the error of each or None."""
        ...

    def find(self, message_ids: Collection[str]) -> dict[str, SentMessage]:
        """Return the known messages by id. A message is found immediately after it was stored."""
        ...

    def devices(self, endpoint_arns: Collection[str]) -> dict[str, int]:
        """Return the device of each known endpoint, by the endpoint's ARN."""
        ...

    def store_failures(self, new_failures: Sequence[MessageFailure]) -> list[Exception | None]:
        """Store that messages did not arrive; return, in their order, the error of each or None."""
        ...

    def failures(self, message_ids: Collection[str]) -> dict[str, Reason]:
        """Return, by id, the reasons of messages that did not arrive. A failure is found immediately after it was
        stored.
        """
        ...

    def addresses(self, user_ids: Collection[int], column: str) -> dict[int, str]:
        """Return the e-mail addresses or phone numbers of users in the directory, by user id. Users without one are
        omitted.

        Args:
            user_ids: The users.
            column: The column of the address: email or phone.
        """
        ...

    def suppress(self, suppressions: Sequence[Suppression]) -> list[Exception | None]:
        """Store suppressions; return, in their order, the error of each or None. Of two suppressions of an address, the
        one that ends later is kept.
        """
        ...

    def answer(self, answers: Sequence[NumberAnswer]) -> list[NumberAnswer | Exception]:
        """Store answers to SMS; return, in their order, the newest answer of the number to the club, or the error."""
        ...

    def purge(self, *, sent_before_ms: int) -> None:
        """Delete messages that were sent before a given time."""
        ...


def messages_of(sent: OutcomeWithTrace) -> Iterator[tuple[str, SentMessage]]:
    """Yield (message id, message) for all messages in a record."""
    outcome = sent.outcome
    rows = zip(outcome.positions, outcome.user_ids, outcome.provider_message_ids, strict=True)
    for position, user_id, ids in rows:
        for message_id in ids:
            yield (
                message_id,
                SentMessage(
                    outcome_id=outcome.record_id,
                    send_id=outcome.send_id,
                    chunk_index=outcome.chunk_index,
                    club_id=outcome.club_id,
                    type=outcome.type,
                    channel=outcome.channel,
                    requested_at=outcome.requested_at,
                    position=position,
                    user_id=user_id,
                    siblings=tuple(ids),
                    fallback=outcome.fallback,
                    due_at=outcome.due_at,
                    trace=sent.trace,
                ),
            )


class OpenSearchSentMessages:
    def __init__(self, client: OpenSearch) -> None:
        self._client = client

    def store(self, sent: Sequence[OutcomeWithTrace]) -> list[Exception | None]:
        return write(self._client, [_document(each) for each in sent])

    def find(self, message_ids: Collection[str]) -> dict[str, SentMessage]:
        found = self._found(message_ids)
        missing = set(message_ids) - found.keys()
        if missing:
            # A search finds only documents that were written before the last refresh, so the index is refreshed first.
            with answering("a refresh of messages"):
                self._client.indices.refresh(index=MESSAGES)
            found |= self._found(missing)
        return found

    def _found(self, message_ids: Collection[str]) -> dict[str, SentMessage]:
        found: dict[str, SentMessage] = {}
        for chunk in batched(sorted(message_ids), _IDS_A_SEARCH, strict=False):
            wanted = set(chunk)
            hits = self._search(MESSAGES, {"terms": {"message_ids": list(chunk)}}, size=2 * _IDS_A_SEARCH)
            for sent in read_each(hits, _outcome_in, store=MESSAGES, key=_key_of):
                found.update((name, message) for name, message in messages_of(sent) if name in wanted)
        return found

    def devices(self, endpoint_arns: Collection[str]) -> dict[str, int]:
        found: dict[str, int] = {}
        for chunk in batched(sorted(endpoint_arns), _IDS_A_SEARCH, strict=False):
            query = some_state(("terms", "endpoint_arn", list(chunk)), ("term", "enabled", True))
            hits = self._search(DEVICE_STATE, query, size=2 * _IDS_A_SEARCH)
            for device_id, enabled in read_each(hits, _enabled_endpoints, store=DEVICE_STATE, key=_key_of):
                found |= {arn: device_id for arn in chunk if arn in enabled}
        return found

    def store_failures(self, new_failures: Sequence[MessageFailure]) -> list[Exception | None]:
        return write(
            self._client,
            [
                VersionedDocument(
                    index=MESSAGES,
                    id=f"{_REFUSED}{each.message_id}",
                    version=1,
                    source={"told_at": each.at_ms, "refused": each.reason.value},
                )
                for each in new_failures
            ],
        )

    def failures(self, message_ids: Collection[str]) -> dict[str, Reason]:
        # A look-up by id sees concurrent writes: if two invocations each store one failure, at least one of them sees
        # both.
        found = documents_by_id(self._client, MESSAGES, [f"{_REFUSED}{name}" for name in sorted(message_ids)])
        return dict(read_each(found.values(), _failure_in, store=MESSAGES, key=_key_of))

    def addresses(self, user_ids: Collection[int], column: str) -> dict[int, str]:
        found = documents_by_id(self._client, USERS, map(str, sorted(user_ids)))
        sources = {int(id_): document["_source"] for id_, document in found.items()}
        return {
            user_id: source[column]
            for user_id, source in sources.items()
            if not source.get("deleted") and source.get(column)
        }

    def suppress(self, suppressions: Sequence[Suppression]) -> list[Exception | None]:
        after = {each.id: partial(with_bounce, added=each) for each in sorted(suppressions, key=_end_of)}
        _, error_of = self._change_suppressions(list(after.items()))
        return [error_of.get(each.id) for each in suppressions]

    def answer(self, answers: Sequence[NumberAnswer]) -> list[NumberAnswer | Exception]:
        sources, error_of = self._change_suppressions(
            [(each.id, partial(with_answer, answer=each)) for each in answers]
        )
        return [error_of.get(each.id) or newest_of(each, sources[each.id]) for each in answers]

    def _change_suppressions(
        self, changes: Sequence[tuple[str, Callable[[Mapping[str, Any] | None], Mapping[str, Any] | None]]]
    ) -> tuple[dict[str, Mapping[str, Any]], dict[str, Exception | None]]:
        """Apply functions, in their order, to documents. Return the documents, and the error of each changed one."""
        stored = documents_by_id(self._client, SUPPRESSIONS, sorted({id_ for id_, _ in changes}))
        sources = {id_: found["_source"] for id_, found in stored.items()}
        changed: dict[str, None] = {}
        for id_, change in changes:
            after = change(sources.get(id_))
            if after is not None:
                sources[id_], changed[id_] = after, None
        documents = [
            ChangedDocument(
                index=SUPPRESSIONS,
                id=id_,
                after=(stored[id_]["_seq_no"], stored[id_]["_primary_term"]) if id_ in stored else None,
                source=sources[id_],
            )
            for id_ in changed
        ]
        errors = write_changed(self._client, documents)
        return sources, {document.id: error for document, error in zip(documents, errors, strict=True)}

    def purge(self, *, sent_before_ms: int) -> None:
        with answering(f"a removal from {MESSAGES}"):
            self._client.delete_by_query(
                index=MESSAGES,
                body={"query": {"range": {"told_at": {"lt": sent_before_ms}}}},
                params={"conflicts": "proceed", "wait_for_completion": "false"},
            )

    def _search(self, index: str, query: dict[str, Any], *, size: int) -> list[dict[str, Any]]:
        with answering(f"a search of {index}"):
            answer = self._client.search(
                index=index, body={"query": query, "size": size}, allow_partial_search_results=False
            )
        if answer["timed_out"] or answer["_shards"]["failed"]:
            raise Retry(f"OpenSearch answered a search of {index} only in part")
        hits: list[dict[str, Any]] = answer["hits"]["hits"]
        return hits


def _end_of(suppression: Suppression) -> int:
    return suppression.expires_ms


def _key_of(hit: Mapping[str, Any]) -> dict[str, str]:
    return {"id": str(hit["_id"])}


def _outcome_in(hit: Mapping[str, Any]) -> OutcomeWithTrace:
    return _outcome_of(hit["_id"], hit["_source"])


def _enabled_endpoints(hit: Mapping[str, Any]) -> tuple[int, set[str]]:
    """Return a device and its enabled endpoints."""
    return int(hit["_id"]), {state["endpoint_arn"] for state in states_in(hit["_source"]) if state["enabled"]}


def _failure_in(document: Mapping[str, Any]) -> tuple[str, Reason]:
    return document["_id"].removeprefix(_REFUSED), Reason(document["_source"]["refused"])


def _document(sent: OutcomeWithTrace) -> VersionedDocument:
    outcome = sent.outcome
    return VersionedDocument(
        index=MESSAGES,
        id=outcome.record_id,
        version=1,
        source={
            "message_ids": [name for ids in outcome.provider_message_ids for name in ids],
            "told_at": outcome.timestamp,
            "outcome": {
                "trace": {} if sent.trace is None else {name: text.decode() for name, text in sent.trace.headers},
                **{name: getattr(outcome, name) for name in _OUTCOME},
            },
        },
    )


def _outcome_of(record_id: str, source: dict[str, Any]) -> OutcomeWithTrace:
    kept = source["outcome"]
    headers = kept["trace"]
    outcome = NotificationOutcome(
        **{name: kept.get(name) if name in _ADDED else kept[name] for name in _OUTCOME},
        record_id=record_id,
        parent_id="",
        step="delivery",
        range_start=0,
        range_end=0,
        timestamp=source["told_at"],
        results=[],
        result_index=[],
    )
    return OutcomeWithTrace(outcome, of_headers([(name, text.encode()) for name, text in headers.items()]))


def _unstorable(outcome: NotificationOutcome) -> DeadLetter | None:
    """Return OpenSearch's error if it can never store a document; None for other errors."""
    names = (name for ids in outcome.provider_message_ids for name in ids)
    if (
        not 0 < len(outcome.record_id.encode()) <= _LONGEST_ID
        or outcome.timestamp == -(2**63)
        or any(len(name.encode()) > _LONGEST_KEYWORD for name in names)
    ):
        return DeadLetter("unmappable", "OpenSearch does not take the document")
    return None


class InMemorySentMessages:
    """A store of sent messages in dictionaries, for unit tests. `failing` is an error that every method raises."""

    def __init__(self) -> None:
        self.failing: Exception | None = None
        # The documents of suppressions by their ids.
        self.suppressions: dict[str, Mapping[str, Any]] = {}
        self.emails: dict[int, str] = {}
        self.phones: dict[int, str] = {}
        self.endpoints: dict[str, int] = {}
        self._outcomes: dict[str, OutcomeWithTrace] = {}
        self._failures_by_id: dict[str, MessageFailure] = {}

    def store(self, sent: Sequence[OutcomeWithTrace]) -> list[Exception | None]:
        self._answer()
        errors: list[Exception | None] = [_unstorable(each.outcome) for each in sent]
        kept = [each for each, error in zip(sent, errors, strict=True) if error is None]
        self._outcomes.update((each.outcome.record_id, each) for each in kept)
        return errors

    def find(self, message_ids: Collection[str]) -> dict[str, SentMessage]:
        self._answer()
        return {
            name: message
            for sent in self._outcomes.values()
            for name, message in messages_of(sent)
            if name in message_ids
        }

    def devices(self, endpoint_arns: Collection[str]) -> dict[str, int]:
        self._answer()
        return {arn: self.endpoints[arn] for arn in endpoint_arns if arn in self.endpoints}

    def store_failures(self, new_failures: Sequence[MessageFailure]) -> list[Exception | None]:
        self._answer()
        long = [len(each.message_id.encode()) + len(_REFUSED) > _LONGEST_ID for each in new_failures]
        self._failures_by_id.update(
            (each.message_id, each) for each, bad in zip(new_failures, long, strict=True) if not bad
        )
        return [DeadLetter("unmappable", "a long id") if bad else None for bad in long]

    def failures(self, message_ids: Collection[str]) -> dict[str, Reason]:
        self._answer()
        return {name: self._failures_by_id[name].reason for name in message_ids if name in self._failures_by_id}

    def suppress(self, suppressions: Sequence[Suppression]) -> list[Exception | None]:
        self._answer()
        for each in suppressions:
            self._change(each.id, with_bounce(self.suppressions.get(each.id), each))
        return [None] * len(suppressions)

    def answer(self, answers: Sequence[NumberAnswer]) -> list[NumberAnswer | Exception]:
        self._answer()
        for each in answers:
            self._change(each.id, with_answer(self.suppressions.get(each.id), each))
        return [newest_of(each, self.suppressions[each.id]) for each in answers]

    def _change(self, id_: str, source: Mapping[str, Any] | None) -> None:
        if source is not None:
            self.suppressions[id_] = source

    def addresses(self, user_ids: Collection[int], column: str) -> dict[int, str]:
        self._answer()
        rows = {"email": self.emails, "phone": self.phones}[column]
        return {user_id: rows[user_id] for user_id in user_ids if user_id in rows}

    def purge(self, *, sent_before_ms: int) -> None:
        self._answer()
        self._outcomes = {
            name: each for name, each in self._outcomes.items() if each.outcome.timestamp >= sent_before_ms
        }
        self._failures_by_id = {
            name: each for name, each in self._failures_by_id.items() if each.at_ms >= sent_before_ms
        }

    def _answer(self) -> None:
        if self.failing is not None:
            raise self.failing
