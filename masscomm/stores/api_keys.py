"""API keys in DynamoDB: the table of schemas/dynamodb/api_keys.json. Only digests of the keys are stored.

An item of its own finds a key by its id, and an index of the table lists the keys. The table is scanned only once, to
list the keys of earlier versions (provisioning/api_keys.py).

A key that is made by a request with an Idempotency-Key is stored together with the request, in one transaction: a
repeated request finds the key. The text of the key is in the first response only.
"""

import os
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

from masscomm.aws.client import DynamoDb
from masscomm.aws.dynamodb import ConditionFailed, answering, read_items, transact
from masscomm.aws.request import Limits
from masscomm.domain.key_limits import COUNTED_UNDER, LIMITS
from masscomm.domain.time_limits import IDEMPOTENCY_KEPT_S
from masscomm.errors import Retry
from masscomm.observability.unreadable_items import read_each

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

TABLE = "api_keys"
# The table of requests with an Idempotency-Key.
REQUESTS_TABLE = "idempotency_keys"
# The prefix of the keys in this table; keys of the earlier form, which are in the secret, do not have it.
PREFIX = "mc_"
_WHAT = "API keys"
# The minimum number of seconds between two writes of a key's last use.
_USE_RECORDED_S = 60
LIVE, TEST = "live", "test"
LIMIT_SETTINGS = tuple(kind.setting for kind in LIMITS)
_ID = re.compile(r"[0-9a-f]{16}")
# The prefix of the id of the item with the digest of a key. No digest begins with it.
_BY_ID = "key_id#"
_INDEX = "by_creation"
_LISTING = {"S": "keys"}
# The number of entries that one request to the index reads.
_ENTRIES_A_READ = 1_000
_NUMBERS = ("created_at", "expires_at", "last_used_at", *LIMIT_SETTINGS)


def new_key(mode: str = LIVE) -> str:
    return PREFIX + ("" if mode == LIVE else f"{mode}_") + secrets.token_urlsafe(32)


def digest_of(key: str) -> str:
    """Return the SHA-256 of a key, in hex, under which it is stored."""
    return sha256(key.encode()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class ApiKey:
    """An API key without its secret text. All times are in seconds since the epoch."""

    digest: str
    name: str
    # The ids of the clubs (tenants), separated by commas, or `*` for every club.
    clubs: str
    # The scopes (permissions) of the key, separated by spaces.
    scopes: str
    created_at: int
    # The time at which the key expires; None if it does not expire.
    expires_at: int | None = None
    # The time of the last use; None if the key was never used.
    last_used_at: int | None = None
    # The maximum number of requests in a minute, and of recipients in a UTC day; None: no limit.
    requests_a_minute: int | None = None
    recipients_a_day: int | None = None
    # `live`, or `test`: the key sends to simulator recipients only.
    mode: str = LIVE
    # The principal with whose use the limits are counted: the first maker, if it has limits; None: the key itself.
    counted_under: str | None = None

    @property
    def key_id(self) -> str:
        """The id that names the key in lists, logs and commands."""
        return self.digest[:16]

    @property
    def limits(self) -> Mapping[str, int]:
        """Return the limits that the key has: the name of each with its maximum."""
        maxima = {name: getattr(self, name) for name in LIMIT_SETTINGS}
        return {name: maximum for name, maximum in maxima.items() if maximum is not None}

    @property
    def position(self) -> "Position":
        return Position(self.created_at, self.key_id)

    def is_valid(self, now_s: float) -> bool:
        """Return whether the key has not expired. It is checked here, because DynamoDB deletes an expired item only
        within days.
        """
        return self.expires_at is None or self.expires_at > now_s

    @property
    def context(self) -> dict[str, str]:
        """Return the context that an authorizer passes to the functions."""
        clubs = {"all_clubs": "true"} if self.clubs == "*" else {"club_ids": self.clubs}
        return {
            **clubs,
            "scopes": self.scopes,
            **({} if self.mode == LIVE else {"mode": self.mode}),
            **({} if self.counted_under is None else {COUNTED_UNDER: self.counted_under}),
            **{name: str(maximum) for name, maximum in self.limits.items()},
        }


class Position(NamedTuple):
    """The position of a key in lists. Later keys have higher positions."""

    created_at: int
    key_id: str

    @property
    def text(self) -> str:
        """Return the position as text, in the same order."""
        return f"{self.created_at:012d}#{self.key_id}"


class KeyPage(NamedTuple):
    """A part of the list of keys, the latest first."""

    keys: Sequence[ApiKey]
    # The position before which the next page begins; None if there is no further key.
    next: Position | None


@dataclass(frozen=True, kw_only=True)
class KeyRequest:
    """A request with an Idempotency-Key that makes an API key."""

    # As request_id computes it.
    id: str
    # The digest of the request (masscomm.http.idempotency.digest_of).
    request: str
    # The time of the request, in seconds since the epoch.
    at_s: int

    @property
    def expires_at(self) -> int:
        """Return the time at which the Idempotency-Key may be used for another request, in seconds since the epoch."""
        return self.at_s + IDEMPOTENCY_KEPT_S


class MadeBefore(NamedTuple):
    """What an earlier request under the same id has made."""

    # The digest of that request.
    request: str
    # The digest of its API key.
    digest: str


def request_id(principal: str, idempotency_key: str) -> str:
    """Return the id of a principal's request that makes an API key. It does not reveal the idempotency key."""
    return f"keys#{sha256(f'{principal}#{idempotency_key}'.encode()).hexdigest()}"  # guard: api_keys.principals_request


class KeyStore(Protocol):
    """The interface of the store of API keys. Methods raise Retry (down, slow) or Stop (no table, no permission)."""

    def put(self, key: ApiKey) -> None:
        """Store a key, in place of a stored one with its digest."""
        ...

    def put_once(self, key: ApiKey, request: KeyRequest) -> MadeBefore | None:
        """Store a key together with the request that makes it, unless a request under the same id is stored and has
        not expired. Return what that request has made; None if this key is stored.
        """
        ...

    def made_before(self, request: KeyRequest) -> MadeBefore | None:
        """Return what a request under the same id has made; None if there was none, or only an expired one."""
        ...

    def find(self, digest: str) -> ApiKey | None:
        """Return the key with this digest; None if there is none."""
        ...

    def find_by_id(self, key_id: str) -> ApiKey | None:
        """Return the key with this id; None if there is none."""
        ...

    def page(self, sees: Callable[[str], bool], *, before: Position | None, limit: int) -> KeyPage:
        """Return the latest keys, at most `limit`. A key that was stored less than a second ago may be missing.

        Args:
            sees: Returns whether a key with these clubs is listed.
            before: Only keys with lower positions.
            limit: The maximum number of keys.
        """
        ...

    def end(self, digest: str, expires_at: int) -> bool:
        """Set the time at which a key expires, unless an earlier one is stored, such as that of a concurrent
        revocation; return whether it was set.
        """
        ...


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
        # Items of live keys are as those of earlier versions.
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

    def unlisted(self) -> list[ApiKey]:
        """Return the keys that an earlier version has stored: no list has them, and no id finds them."""
        with answering(_WHAT):
            pages = self._client.get_paginator("scan").paginate(
                TableName=self._table,
                FilterExpression="attribute_exists(clubs) AND attribute_not_exists(listing)",
                ConsistentRead=True,
            )
            return list(self._read_each((item for page in pages for item in page["Items"]), _key))

    def list_earlier(self, key: ApiKey) -> None:
        """Add a key that an earlier version has stored to lists, and its id. It may be repeated."""
        with suppress(ConditionFailed), answering(_WHAT):
            self._client.put_item(TableName=self._table, Item=_by_id(key))
            self._client.update_item(
                TableName=self._table,
                Key={"id": {"S": key.digest}},
                UpdateExpression="SET listing = :listing, #position = :position",
                ConditionExpression="attribute_exists(id)",  # The key may have been deleted at its end.
                ExpressionAttributeNames={"#position": "position"},
                ExpressionAttributeValues={f":{name}": value for name, value in _listed(key).items()},
            )

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


class InMemoryApiKeys:
    """A store of keys in a dictionary, for unit tests."""

    def __init__(self) -> None:
        self._keys: dict[str, ApiKey] = {}
        self._requests: dict[str, tuple[KeyRequest, str]] = {}

    def put(self, key: ApiKey) -> None:
        self._keys[key.digest] = key

    def put_once(self, key: ApiKey, request: KeyRequest) -> MadeBefore | None:
        if (before := self.made_before(request)) is None:
            self._requests[request.id] = request, key.digest
            self.put(key)
        return before

    def made_before(self, request: KeyRequest) -> MadeBefore | None:
        stored, digest = self._requests.get(request.id, (None, ""))
        return MadeBefore(stored.request, digest) if stored is not None and stored.expires_at > request.at_s else None

    def find(self, digest: str) -> ApiKey | None:
        return self._keys.get(digest)

    def delete(self, digest: str) -> None:
        del self._keys[digest]

    def find_by_id(self, key_id: str) -> ApiKey | None:
        return next((key for key in self._keys.values() if key.key_id == key_id), None)

    def page(self, sees: Callable[[str], bool], *, before: Position | None, limit: int) -> KeyPage:
        found = sorted(
            (key for key in self._keys.values() if sees(key.clubs) and (before is None or key.position < before)),
            key=lambda key: key.position,
            reverse=True,
        )
        return KeyPage(found[:limit], found[limit - 1].position if len(found) > limit else None)

    def end(self, digest: str, expires_at: int) -> bool:
        key = self._keys.get(digest)
        if key is None or (key.expires_at is not None and key.expires_at <= expires_at):
            return False
        self._keys[digest] = replace(key, expires_at=expires_at)
        return True


def every_key(keys: KeyStore, *, a_page: int = 100) -> Iterator[ApiKey]:
    """Yield every key, the latest first."""
    before: Position | None = None
    while True:
        page = keys.page(lambda _: True, before=before, limit=a_page)
        yield from page.keys
        if (before := page.next) is None:
            return


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
