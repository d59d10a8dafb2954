"""Whose message a provider's id is, and what receipts teach us of addresses and endpoints.

A document for each outcome record of delivery, 500 recipients at most, found by any of the message ids in it: what a
recipient costs is a five-hundredth of a write, and a receipt a hundredth of a search (docs/decisions/037).
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import batched
from typing import Any, Protocol

from masscomm.directory.bulk_writes import VersionedDocument, answering, write
from masscomm.directory.client import OpenSearch
from masscomm.domain.records import NotificationOutcome
from masscomm.domain.statuses import Reason
from masscomm.domain.suppressions import INDEX as SUPPRESSIONS
from masscomm.domain.suppressions import Suppression
from masscomm.errors import DeadLetter, Retry
from masscomm.observability.traces import Trace, of_headers

MESSAGES, DEVICE_STATE, USERS = "provider_messages", "device_state", "users"
# As long as a carrier or a mail server may take to say something, twice over.
KEPT_MS = 7 * 86_400_000
# Ids a search; each may be of another document.
_IDS_A_SEARCH = 100
_IDS_A_LOOK_UP = 1_000
_REFUSED = "refused-"
# Bytes of a document's id, and of a term: OpenSearch's limits.
_LONGEST_ID = 512
_LONGEST_KEYWORD = 32_766


@dataclass(frozen=True, kw_only=True)
class Message:
    """A message that a provider took.

    outcome_id: of the outcome record that told of it; siblings: every message of the notification, this one included;
    trace: whose part the delivery was, None where its record did not say.
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
    trace: Trace | None = None


@dataclass(frozen=True)
class Told:
    """Delivery's outcome record, and the trace it came with."""

    outcome: NotificationOutcome
    trace: Trace | None = None


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """That one of several messages of a notification did not arrive, why, and when that was said (ms)."""

    message_id: str
    reason: Reason
    at_ms: int


class Messages(Protocol):
    """Errors of each: Retry, Stop."""

    def remember(self, told: Sequence[Told]) -> list[Exception | None]:
        """Keep whose the message ids of these records are; each one's fate, in their order."""
        ...

    def find(self, message_ids: Collection[str]) -> dict[str, Message]:
        """The messages that are known, by id; what was remembered before is found."""
        ...

    def devices(self, endpoint_arns: Collection[str]) -> dict[str, int]:
        """The device whose endpoint it is, by ARN, where there is one."""
        ...

    def refuse(self, refusals: Sequence[Refusal]) -> list[Exception | None]:
        """Keep that messages did not arrive; each one's fate, in their order."""
        ...

    def refused(self, message_ids: Collection[str]) -> dict[str, Reason]:
        """Those of the messages that are known not to have arrived, and why; what was kept before is found."""
        ...

    def addresses(self, user_ids: Collection[int]) -> dict[int, str]:
        """The e-mail addresses of users, by id, as the directory has them; absent where a user has none."""
        ...

    def suppress(self, suppressions: Sequence[Suppression]) -> list[Exception | None]:
        """Keep addresses from being sent to; each one's fate, in their order."""
        ...

    def forget(self, *, told_before_ms: int, now_ms: int) -> None:
        """Drop messages that were told of longer ago, and suppressions that have ended."""
        ...


def messages_of(told: Told) -> Iterator[tuple[str, Message]]:
    """Each message id of a record, with whose it is."""
    outcome = told.outcome
    rows = zip(outcome.positions, outcome.user_ids, outcome.provider_message_ids, strict=True)
    for position, user_id, ids in rows:
        for message_id in ids:
            yield (
                message_id,
                Message(
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
                    trace=told.trace,
                ),
            )


class OpenSearchMessages:
    """Messages in OpenSearch."""

    def __init__(self, client: OpenSearch) -> None:
        self._client = client

    def remember(self, told: Sequence[Told]) -> list[Exception | None]:
        return write(self._client, [_document(each) for each in told])

    def find(self, message_ids: Collection[str]) -> dict[str, Message]:
        found = self._found(message_ids)
        missing = set(message_ids) - found.keys()
        if missing:
            # A search sees what the last refresh saw.
            with answering("a refresh of messages"):
                self._client.indices.refresh(index=MESSAGES)
            found |= self._found(missing)
        return found

    def _found(self, message_ids: Collection[str]) -> dict[str, Message]:
        found: dict[str, Message] = {}
        for some in batched(sorted(message_ids), _IDS_A_SEARCH, strict=False):
            wanted = set(some)
            for hit in self._search(MESSAGES, {"terms": {"message_ids": list(some)}}, size=2 * _IDS_A_SEARCH):
                told = _told(hit["_id"], hit["_source"])
                found.update((name, message) for name, message in messages_of(told) if name in wanted)
        return found

    def devices(self, endpoint_arns: Collection[str]) -> dict[str, int]:
        found: dict[str, int] = {}
        for some in batched(sorted(endpoint_arns), _IDS_A_SEARCH, strict=False):
            query = {"bool": {"filter": [{"terms": {"endpoint_arn": list(some)}}, {"term": {"enabled": True}}]}}
            for hit in self._search(DEVICE_STATE, query, size=2 * _IDS_A_SEARCH):
                found[hit["_source"]["endpoint_arn"]] = int(hit["_id"])
        return found

    def refuse(self, refusals: Sequence[Refusal]) -> list[Exception | None]:
        return write(
            self._client,
            [
                VersionedDocument(
                    index=MESSAGES,
                    id=f"{_REFUSED}{each.message_id}",
                    version=1,
                    source={"told_at": each.at_ms, "refused": each.reason.value},
                )
                for each in refusals
            ],
        )

    def refused(self, message_ids: Collection[str]) -> dict[str, Reason]:
        found: dict[str, Reason] = {}
        for some in batched(sorted(message_ids), _IDS_A_LOOK_UP, strict=False):
            # By id, which sees what another has just written: of two that each keep one refusal, one sees both.
            with answering("a look-up of refusals"):
                answer = self._client.mget(index=MESSAGES, body={"ids": [f"{_REFUSED}{name}" for name in some]})
            for document in answer["docs"]:
                if "error" in document:
                    raise Retry("OpenSearch answered a look-up of refusals only in part")
                if document["found"]:
                    found[document["_id"].removeprefix(_REFUSED)] = Reason(document["_source"]["refused"])
        return found

    def addresses(self, user_ids: Collection[int]) -> dict[int, str]:
        found: dict[int, str] = {}
        for some in batched(sorted(user_ids), _IDS_A_LOOK_UP, strict=False):
            with answering("a look-up of addresses"):
                answer = self._client.mget(index=USERS, body={"ids": [str(user_id) for user_id in some]})
            for document in answer["docs"]:
                if "error" in document:
                    raise Retry("OpenSearch answered a look-up of addresses only in part")
                source = document.get("_source") or {}
                if document["found"] and not source.get("deleted") and source.get("email"):
                    found[int(document["_id"])] = source["email"]
        return found

    def suppress(self, suppressions: Sequence[Suppression]) -> list[Exception | None]:
        return write(
            self._client,
            [
                VersionedDocument(index=SUPPRESSIONS, id=each.id, version=each.version, source=each.source)
                for each in suppressions
            ],
        )

    def forget(self, *, told_before_ms: int, now_ms: int) -> None:
        ended = ((MESSAGES, "told_at", told_before_ms), (SUPPRESSIONS, "expires_at", now_ms))
        for index, field, before_ms in ended:
            with answering(f"a removal from {index}"):
                self._client.delete_by_query(
                    index=index,
                    body={"query": {"range": {field: {"lt": before_ms}}}},
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


def _document(told: Told) -> VersionedDocument:
    outcome = told.outcome
    return VersionedDocument(
        index=MESSAGES,
        id=outcome.record_id,
        version=1,
        source={
            "message_ids": [name for ids in outcome.provider_message_ids for name in ids],
            "told_at": outcome.timestamp,
            "outcome": {
                "trace": {} if told.trace is None else {name: text.decode() for name, text in told.trace.headers},
                "send_id": outcome.send_id,
                "chunk_index": outcome.chunk_index,
                "club_id": outcome.club_id,
                "type": outcome.type,
                "channel": outcome.channel,
                "requested_at": outcome.requested_at,
                "positions": outcome.positions,
                "user_ids": outcome.user_ids,
                "provider_message_ids": outcome.provider_message_ids,
            },
        },
    )


def _told(record_id: str, source: dict[str, Any]) -> Told:
    kept = dict(source["outcome"])
    headers = kept.pop("trace", {})  # what was written before there was one has none
    outcome = NotificationOutcome(
        **kept,
        record_id=record_id,
        parent_id="",
        step="delivery",
        range_start=0,
        range_end=0,
        timestamp=source["told_at"],
        results=[],
        result_index=[],
    )
    return Told(outcome, of_headers([(name, text.encode()) for name, text in headers.items()]))


def _unstorable(outcome: NotificationOutcome) -> DeadLetter | None:
    """What OpenSearch says of a document that it cannot hold."""
    names = (name for ids in outcome.provider_message_ids for name in ids)
    if (
        not 0 < len(outcome.record_id.encode()) <= _LONGEST_ID
        or outcome.timestamp == -(2**63)
        or any(len(name.encode()) > _LONGEST_KEYWORD for name in names)
    ):
        return DeadLetter("unmappable", "OpenSearch does not take the document")
    return None


class InMemoryMessages:
    """The contract in dictionaries, for unit tests; failing: raised by every method."""

    def __init__(self) -> None:
        self.failing: Exception | None = None
        self.suppressed: dict[str, Suppression] = {}
        self.emails: dict[int, str] = {}
        self.endpoints: dict[str, int] = {}
        self._told: dict[str, Told] = {}
        self._refusals: dict[str, Refusal] = {}

    def remember(self, told: Sequence[Told]) -> list[Exception | None]:
        self._answer()
        fates: list[Exception | None] = [_unstorable(each.outcome) for each in told]
        kept = [each for each, fate in zip(told, fates, strict=True) if fate is None]
        self._told.update((each.outcome.record_id, each) for each in kept)
        return fates

    def find(self, message_ids: Collection[str]) -> dict[str, Message]:
        self._answer()
        return {
            name: message for told in self._told.values() for name, message in messages_of(told) if name in message_ids
        }

    def devices(self, endpoint_arns: Collection[str]) -> dict[str, int]:
        self._answer()
        return {arn: self.endpoints[arn] for arn in endpoint_arns if arn in self.endpoints}

    def refuse(self, refusals: Sequence[Refusal]) -> list[Exception | None]:
        self._answer()
        long = [len(each.message_id.encode()) + len(_REFUSED) > _LONGEST_ID for each in refusals]
        self._refusals.update((each.message_id, each) for each, bad in zip(refusals, long, strict=True) if not bad)
        return [DeadLetter("unmappable", "a long id") if bad else None for bad in long]

    def refused(self, message_ids: Collection[str]) -> dict[str, Reason]:
        self._answer()
        return {name: self._refusals[name].reason for name in message_ids if name in self._refusals}

    def suppress(self, suppressions: Sequence[Suppression]) -> list[Exception | None]:
        self._answer()
        for each in suppressions:
            known = self.suppressed.get(each.id)
            if known is None or known.version <= each.version:
                self.suppressed[each.id] = each
        return [None] * len(suppressions)

    def addresses(self, user_ids: Collection[int]) -> dict[int, str]:
        self._answer()
        return {user_id: self.emails[user_id] for user_id in user_ids if user_id in self.emails}

    def forget(self, *, told_before_ms: int, now_ms: int) -> None:
        self._answer()
        self._told = {name: each for name, each in self._told.items() if each.outcome.timestamp >= told_before_ms}
        self._refusals = {name: each for name, each in self._refusals.items() if each.at_ms >= told_before_ms}
        self.suppressed = {name: each for name, each in self.suppressed.items() if each.expires_ms >= now_ms}

    def _answer(self) -> None:
        if self.failing is not None:
            raise self.failing
