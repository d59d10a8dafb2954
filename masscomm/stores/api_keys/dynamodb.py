"""API keys in DynamoDB: the table of schemas/dynamodb/api_keys.json. Only digests of the keys are stored.

An item of its own finds a key by its id, and an index of the table lists the keys.

A key that is made by a request with an Idempotency-Key is stored together with the request, in one transaction: a
repeated request finds the key. The text of the key is in the first response only.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from masscomm.aws.client import DynamoDb
from masscomm.aws.dynamodb import ConditionFailed, answering, read_items, transact
from masscomm.aws.request import Limits
from masscomm.domain.key_limits import COUNTED_UNDER
from masscomm.errors import Retry
from masscomm.observability.unreadable_items import read_each
from masscomm.stores.api_keys.port import LIMIT_SETTINGS, LIVE, TEST, ApiKey, KeyPage, KeyRequest, MadeBefore, Position

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

TABLE = "api_keys"
# The table of requests with an Idempotency-Key.
REQUESTS_TABLE = "idempotency_keys"
_WHAT = "API keys"
# The minimum number of seconds between two writes of a key's last use.
_USE_RECORDED_S = 60
_ID = re.compile(r"[0-9a-f]{16}")
# The prefix of the id of the item with the digest of a key. No digest begins with it.
_BY_ID = "key_id#"
_INDEX = "by_creation"
_LISTING = {"S": "keys"}
# The number of entries that one request to the index reads.
_ENTRIES_A_READ = 1_000
_NUMBERS = ("created_at", "expires_at", "last_used_at", *LIMIT_SETTINGS)


class ApiKeys:
    """The table of API keys."""

    def __init__(
        self, client: "DynamoDBClient | DynamoDb", table: str = TABLE, requests_table: str = REQUESTS_TABLE
    ) -> None:
        self._client: Any = client
        self._table = table
        self._requests_table = requests_table

    @classmethod
    def from_environment(cls) -> Self:
        """Return the store over the table that API_KEYS_TABLE names, for a function."""
        client = DynamoDb(Limits(connections=2, connect_s=0.5, read_s=3, attempts=2))
        return cls(
            client,
            os.environ.get("API_KEYS_TABLE") or TABLE,
            os.environ.get("IDEMPOTENCY_KEYS_TABLE") or REQUESTS_TABLE,
        )

    def put(self, key: ApiKey) -> None:
        if transact(self._client, _WHAT, self._puts(key)):
            raise Retry("another request stores this API key")

    def put_once(self, key: ApiKey, request: KeyRequest) -> MadeBefore | None:
        cancelled = transact(self._client, _WHAT, [self._put_request(key, request), *self._puts(key)])
        if not cancelled:
            return None
        # Without the stored item, the transaction was cancelled by a conflict with a concurrent request.
        if not (item := cancelled.get(0)):
            raise Retry("a request with this Idempotency-Key is in progress")
        return _made(item)

    def made_before(self, request: KeyRequest) -> MadeBefore | None:
        with answering(_WHAT):
            item = self._client.get_item(
                TableName=self._requests_table, Key={"id": {"S": request.id}}, ConsistentRead=True
            ).get("Item")
        return _made(item) if item is not None and int(item["expires_at"]["N"]) > request.at_s else None

    def _put_request(self, key: ApiKey, request: KeyRequest) -> dict[str, Any]:
        """Return the parameters of the action that stores a request."""
        return {
            "TableName": self._requests_table,
            "Item": {
                "id": {"S": request.id},
                "request": {"S": request.request},
                "api_key": {"S": key.digest},
                "expires_at": {"N": str(request.expires_at)},
            },
            # guard: api_keys.made_once
            "ConditionExpression": "attribute_not_exists(id) OR expires_at <= :now",
            "ExpressionAttributeValues": {":now": {"N": str(request.at_s)}},
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }

    def _puts(self, key: ApiKey) -> list[dict[str, Any]]:
        """Return the parameters of the actions that store a key, and its digest under its id."""
        return [{"TableName": self._table, "Item": item} for item in (self._item(key), _by_id(key))]

    def _item(self, key: ApiKey) -> dict[str, Any]:
        texts = {"id": key.digest, "name": key.name, "clubs": key.clubs, "scopes": key.scopes}
        numbers = {name: getattr(key, name) for name in _NUMBERS}
        item = {name: {"S": text} for name, text in texts.items()}
        item |= {} if key.mode == LIVE else {"mode": {"S": key.mode}}
        item |= {} if key.counted_under is None else {COUNTED_UNDER: {"S": key.counted_under}}
        item |= {name: {"N": str(number)} for name, number in numbers.items() if number is not None}
        return item | _listed(key)

    def find(self, digest: str) -> ApiKey | None:
        with answering(_WHAT):
            item = self._client.get_item(TableName=self._table, Key={"id": {"S": digest}}, ConsistentRead=True)
        return _key(item["Item"]) if "Item" in item else None

    def find_by_id(self, key_id: str) -> ApiKey | None:
        if not _ID.fullmatch(key_id):
            return None
        with answering(_WHAT):
            item = self._client.get_item(
                TableName=self._table, Key={"id": {"S": _BY_ID + key_id}}, ConsistentRead=True
            ).get("Item")
        return None if item is None else self.find(item["digest"]["S"])

    def page(self, sees: Callable[[str], bool], *, before: Position | None, limit: int) -> KeyPage:
        chosen: list[_Entry] = []
        for entry in self._read_each(self._entries(before), _entry):
            if sees(entry.clubs):
                chosen.append(entry)
            if len(chosen) > limit:
                break
        keys = [{"id": {"S": entry.digest}} for entry in chosen[:limit]]
        # The index may have a key that expired a moment ago.
        found = self._read_each(read_items(self._client, _WHAT, self._table, keys), _key)
        shown = sorted(found, key=lambda key: key.position, reverse=True)
        return KeyPage(shown, chosen[limit - 1].position if len(chosen) > limit else None)

    def _read_each[T](self, items: Iterable[Mapping[str, Any]], read: Callable[[Mapping[str, Any]], T]) -> Iterator[T]:
        return read_each(items, read, store=self._table, key=lambda item: {"id": item["id"]["S"]})

    def _entries(self, before: Position | None) -> Iterator[Mapping[str, Any]]:
        """Yield the entries of the index, the latest first."""
        values: dict[str, Any] = {":listing": _LISTING}
        condition = "listing = :listing"
        if before is not None:
            values[":before"] = {"S": before.text}
            condition += " AND #position < :before"
        with answering(_WHAT):
            pages = self._client.get_paginator("query").paginate(
                TableName=self._table,
                IndexName=_INDEX,
                KeyConditionExpression=condition,
                ExpressionAttributeValues=values,
                **({} if before is None else {"ExpressionAttributeNames": {"#position": "position"}}),
                ScanIndexForward=False,
                Limit=_ENTRIES_A_READ,
            )
            for page in pages:
                yield from page["Items"]

    def end(self, digest: str, expires_at: int) -> bool:
        # guard: api_keys.no_later_end
        no_earlier = "(attribute_not_exists(expires_at) OR expires_at > :number)"
        is_set = self._set(digest, "expires_at", expires_at, no_earlier)
        if is_set:
            # DynamoDB deletes both items.
            self._set(_BY_ID + digest[:16], "expires_at", expires_at)
        return is_set

    def record_use(self, digest: str, now_s: int) -> bool:
        """Set the time of a key's last use, unless the stored one is less than a minute old; return whether it was
        set.
        """
        recent = {":recent": {"N": str(now_s - _USE_RECORDED_S)}}
        return self._set(
            digest, "last_used_at", now_s, "(attribute_not_exists(last_used_at) OR last_used_at <= :recent)", recent
        )

    def _set(
        self, digest: str, name: str, number: int, condition: str = "", values: Mapping[str, Any] | None = None
    ) -> bool:
        """Set a number of an existing key under a further condition; return whether it was set."""
        try:
            with answering(_WHAT):
                self._client.update_item(
                    TableName=self._table,
                    Key={"id": {"S": digest}},
                    UpdateExpression=f"SET {name} = :number",
                    ConditionExpression=" AND ".join(filter(None, ("attribute_exists(id)", condition))),
                    ExpressionAttributeValues={":number": {"N": str(number)}, **(values or {})},
                )
        except ConditionFailed:
            return False
        return True


def _listed(key: ApiKey) -> dict[str, Any]:
    """Return the attributes by which the index lists a key."""
    return {"listing": _LISTING, "position": {"S": key.position.text}}


def _by_id(key: ApiKey) -> dict[str, Any]:
    """Return the item with the digest of a key under the key's id."""
    end = {} if key.expires_at is None else {"expires_at": {"N": str(key.expires_at)}}
    return {"id": {"S": _BY_ID + key.key_id}, "digest": {"S": key.digest}, **end}


class _Entry(NamedTuple):
    """An entry of the index that lists the keys."""

    digest: str
    clubs: str
    position: Position


def _entry(item: Mapping[str, Any]) -> _Entry:
    created_at, _, key_id = item["position"]["S"].partition("#")
    return _Entry(item["id"]["S"], item["clubs"]["S"], Position(int(created_at), key_id))


def _made(item: Mapping[str, Any]) -> MadeBefore:
    """Return what the request in an item has made. Raises Retry if the item is malformed."""
    try:
        return MadeBefore(item["request"]["S"], item["api_key"]["S"])
    except (KeyError, TypeError) as error:
        raise Retry(f"the item of a request for an API key is malformed: {error!r}") from error


def _key(item: Mapping[str, Any]) -> ApiKey:
    """Return the key in an item. Raises Retry if the item is malformed."""
    try:
        numbers: dict[str, Any] = {name: int(item[name]["N"]) for name in _NUMBERS if name in item}
        texts: dict[str, Any] = {name: item[name]["S"] for name in ("name", "clubs", "scopes")}
        mode = item["mode"]["S"] if "mode" in item else LIVE
        if mode not in (LIVE, TEST):
            raise ValueError(f"mode {mode!r}")  # noqa: TRY301 - reported as any malformed value
        under = item[COUNTED_UNDER]["S"] if COUNTED_UNDER in item else None
        return ApiKey(digest=item["id"]["S"], mode=mode, counted_under=under, **texts, **numbers)
    except (KeyError, ValueError, TypeError) as error:
        raise Retry(f"the item of an API key is malformed: {error!r}") from error
