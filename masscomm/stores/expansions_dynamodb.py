"""The expansions of audiences in DynamoDB, in the table of schemas/dynamodb/audience_expansions.json."""

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import accumulate, pairwise
from typing import Any

from masscomm.aws.dynamodb import ConditionFailed, answering
from masscomm.aws.request import Limits
from masscomm.aws.table import TableAdapter
from masscomm.domain.send_controls import SendKey
from masscomm.domain.send_states import SendState
from masscomm.domain.time_limits import EXPANSIONS_KEPT_S
from masscomm.errors import Retry
from masscomm.observability.unreadable_items import read_each
from masscomm.stores.expansions import ExpandedChunk, Expansion, ListedExpansion, Progress

_WHAT = "expansions of audiences"
_CHUNK, _END, _PROGRESS = "chunk#", "end", "progress"


class DynamoDbExpansions(TableAdapter):
    """The store of expansions in DynamoDB."""

    TABLE, SETTING = "audience_expansions", "AUDIENCE_EXPANSIONS_TABLE"
    LIMITS = Limits(connections=1, connect_s=1, read_s=3, attempts=3)

    def record(self, send: SendKey, index: int, chunk: ExpandedChunk, *, now_ms: int) -> ExpandedChunk:
        item = {
            "user_ids": {"B": _packed(chunk.user_ids)},
            "up_to": {"N": str(chunk.up_to)},
            "users_before": {"N": str(chunk.users_before)},
        }
        return _chunk(self._put(send, _name(index), item, now_ms))

    def last(self, send: SendKey) -> tuple[int, ExpandedChunk] | None:
        with answering(_WHAT):
            answer = self._client.query(
                TableName=self._table,
                KeyConditionExpression="send = :send AND begins_with(part, :chunk)",
                ExpressionAttributeValues={":send": {"S": send.text}, ":chunk": {"S": _CHUNK}},
                ScanIndexForward=False,
                Limit=1,
                ConsistentRead=True,
            )
        for item in answer["Items"]:
            return int(item["part"]["S"].removeprefix(_CHUNK)), _chunk(item)
        return None

    def chunks(self, send: SendKey, first: int, end: int) -> Iterator[ExpandedChunk]:
        for index in range(first, end):
            item = self._item(send, _name(index))
            if item is None:
                raise Retry(f"chunk {index} of an expansion is not recorded")
            yield _chunk(item)

    def records(self, ended: Expansion) -> int:
        if ended.chunks <= 1:
            return min(ended.chunks, ended.users)
        pages = self._pages(
            KeyConditionExpression="send = :send AND part BETWEEN :first AND :last",
            ExpressionAttributeValues={
                ":send": {"S": ended.send.text},
                ":first": {"S": _name(0)},
                ":last": {"S": _name(ended.chunks - 1)},
            },
            ProjectionExpression="users_before",
            ConsistentRead=True,
        )
        users_before = [_users_before(item) for item in pages]
        return sum(before < after for before, after in pairwise([*users_before, ended.users]))

    def progress(self, send: SendKey) -> Progress:
        item = self._item(send, _PROGRESS)
        return Progress() if item is None else _progress(item)

    def advance(self, send: SendKey, progress: Progress, *, now_ms: int) -> None:
        numbers = {name: {"N": str(value)} for name, value in asdict(progress).items() if value is not None}
        with answering(_WHAT):
            self._client.put_item(TableName=self._table, Item=_whole(send, _PROGRESS, numbers, now_ms))

    def end(self, expansion: Expansion, *, now_ms: int) -> Expansion:
        item = {name: {"N": str(getattr(expansion, name))} for name in ("chunks", "users", "requested")}
        if expansion.error is not None:
            item["error"] = {"S": expansion.error}
        return _expansion(expansion.send, self._put(expansion.send, _END, item, now_ms))

    def find(self, send: SendKey) -> Expansion | None:
        item = self._item(send, _END)
        return None if item is None else _expansion(send, item)

    def enlist(self, listed: ListedExpansion, *, now_ms: int) -> None:
        with answering(_WHAT):
            self._client.put_item(
                TableName=self._table,
                Item={
                    **_listed_key(listed),
                    "type": {"S": listed.type},
                    "state": {"S": listed.state},
                    "expires_at": {"N": str(now_ms // 1000 + EXPANSIONS_KEPT_S)},
                },
            )

    def strike(self, listed: ListedExpansion) -> None:
        with answering(_WHAT):
            self._client.delete_item(TableName=self._table, Key=_listed_key(listed))

    def listed(self, club_id: int, *, before_ms: int) -> Iterator[ListedExpansion]:
        items = self._pages(
            KeyConditionExpression="send = :list AND part < :before",
            ExpressionAttributeValues={":list": {"S": _list_id(club_id)}, ":before": {"S": _moment(before_ms)}},
            ScanIndexForward=False,
        )
        yield from read_each(
            items,
            lambda item: _listed(club_id, item),
            store=self._table,
            key=lambda item: {name: item[name]["S"] for name in ("send", "part")},
        )

    def _pages(self, **query: Any) -> Iterator[Mapping[str, Any]]:
        """Yield the items of all pages of a query, each of at most 1 MB."""
        following: dict[str, Any] = {}
        while True:
            with answering(_WHAT):
                answer = self._client.query(TableName=self._table, **query, **following)
            yield from answer["Items"]
            if "LastEvaluatedKey" not in answer:
                return
            following = {"ExclusiveStartKey": answer["LastEvaluatedKey"]}

    def _put(self, send: SendKey, part: str, item: Mapping[str, Any], now_ms: int) -> Mapping[str, Any]:
        """Store an item unless the part exists. Return the stored item."""
        try:
            with answering(_WHAT):
                self._client.put_item(
                    TableName=self._table,
                    Item=_whole(send, part, item, now_ms),
                    ConditionExpression="attribute_not_exists(part)",  # guard: audiences.recorded_chunk
                    ReturnValuesOnConditionCheckFailure="ALL_OLD",
                )
        except ConditionFailed as failed:
            return failed.item
        return item

    def _item(self, send: SendKey, part: str) -> Mapping[str, Any] | None:
        with answering(_WHAT):
            answer = self._client.get_item(
                TableName=self._table, Key={"send": {"S": send.text}, "part": {"S": part}}, ConsistentRead=True
            )
        item: Mapping[str, Any] | None = answer.get("Item")
        return item


def _whole(send: SendKey, part: str, item: Mapping[str, Any], now_ms: int) -> dict[str, Any]:
    """Return an item with its key and its end."""
    expires_at = {"expires_at": {"N": str(now_ms // 1000 + EXPANSIONS_KEPT_S)}}
    return {"send": {"S": send.text}, "part": {"S": part}, **item, **expires_at}


def _name(index: int) -> str:
    return f"{_CHUNK}{index:08d}"


def _list_id(club_id: int) -> str:
    return f"list#{club_id}"  # No send has this key: it begins with the number of a club.


def _moment(at_ms: int) -> str:
    return f"{at_ms:015d}"


def _listed_key(listed: ListedExpansion) -> dict[str, Any]:
    part = f"{_moment(listed.requested_at_ms)}#{listed.send.send_id}"
    return {"send": {"S": _list_id(listed.send.club_id)}, "part": {"S": part}}


def _listed(club_id: int, item: Mapping[str, Any]) -> ListedExpansion:
    """Return the send in an item of a club's list. Raises Retry if the item is malformed."""
    try:
        moment, _, send_id = item["part"]["S"].partition("#")
        return ListedExpansion(
            send=SendKey(club_id, send_id),
            requested_at_ms=int(moment),
            type=item["type"]["S"],
            state=SendState(item["state"]["S"]),
        )
    except (KeyError, ValueError) as error:
        raise Retry(f"a listed expansion is malformed: {error!r}") from error


def _chunk(item: Mapping[str, Any]) -> ExpandedChunk:
    """Return the chunk in an item. Raises Retry if the item is malformed."""
    try:
        return ExpandedChunk(
            user_ids=_unpacked(item["user_ids"]["B"]),
            up_to=int(item["up_to"]["N"]),
            users_before=int(item["users_before"]["N"]),
        )
    except (KeyError, ValueError, TypeError, zlib.error) as error:
        raise Retry(f"a chunk of an expansion is malformed: {error!r}") from error


def _users_before(item: Mapping[str, Any]) -> int:
    try:
        return int(item["users_before"]["N"])
    except (KeyError, ValueError) as error:
        raise Retry(f"a chunk of an expansion is malformed: {error!r}") from error


def _expansion(send: SendKey, item: Mapping[str, Any]) -> Expansion:
    """Return the end of an expansion in an item. Raises Retry if the item is malformed."""
    try:
        return Expansion(
            send=send,
            chunks=int(item["chunks"]["N"]),
            users=int(item["users"]["N"]),
            requested=int(item["requested"]["N"]),
            error=item["error"]["S"] if "error" in item else None,
        )
    except (KeyError, ValueError) as error:
        raise Retry(f"the end of an expansion is malformed: {error!r}") from error


def _progress(item: Mapping[str, Any]) -> Progress:
    """Return the progress in an item. Raises Retry if the item is malformed."""
    try:
        return Progress(
            share=int(item["share"]["N"]),
            chunks=int(item["chunks"]["N"]),
            records=int(item["records"]["N"]),
            record_count=int(item["record_count"]["N"]) if "record_count" in item else None,
        )
    except (KeyError, ValueError) as error:
        raise Retry(f"the progress of an expansion is malformed: {error!r}") from error


def _packed(user_ids: Sequence[int]) -> bytes:
    """Return ascending ids as the compressed JSON of their differences: some 2 bytes an id if ids are dense. 5,000
    random ids of 63 bits take some 50 kB; an item has at most 400 kB.
    """
    differences = [*user_ids[:1], *(after - before for before, after in pairwise(user_ids))]
    return zlib.compress(json.dumps(differences, separators=(",", ":")).encode())


def _unpacked(packed: bytes) -> list[int]:
    return list(accumulate(json.loads(zlib.decompress(packed))))
