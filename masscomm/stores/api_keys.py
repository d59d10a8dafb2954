"""API keys in DynamoDB: the table of schemas/dynamodb/api_keys.json. Only digests of the keys are stored."""

import os
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Protocol, Self

from masscomm.aws.client import DynamoDb
from masscomm.aws.dynamodb import ConditionFailed, answering
from masscomm.aws.request import Limits
from masscomm.domain.key_limits import LIMITS
from masscomm.errors import Retry

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

TABLE = "api_keys"
# The prefix of the keys in this table; keys of the earlier form, which are in the secret, do not have it.
PREFIX = "mc_"
_WHAT = "API keys"
# The minimum number of seconds between two writes of a key's last use.
_USE_RECORDED_S = 60
LIVE, TEST = "live", "test"
LIMIT_SETTINGS = tuple(kind.setting for kind in LIMITS)
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

    @property
    def key_id(self) -> str:
        """The id that names the key in lists, logs and commands."""
        return self.digest[:16]

    def is_valid(self, now_s: float) -> bool:
        """Return whether the key has not expired. It is checked here, because DynamoDB deletes an expired item only
        within days.
        """
        return self.expires_at is None or self.expires_at > now_s

    @property
    def context(self) -> dict[str, str]:
        """Return the context that an authorizer passes to the functions."""
        clubs = {"all_clubs": "true"} if self.clubs == "*" else {"club_ids": self.clubs}
        limits = {name: getattr(self, name) for name in LIMIT_SETTINGS}
        return {
            **clubs,
            "scopes": self.scopes,
            **({} if self.mode == LIVE else {"mode": self.mode}),
            **{name: str(value) for name, value in limits.items() if value is not None},
        }


class KeyStore(Protocol):
    """The interface of the store of API keys. Methods raise Retry (down, slow) or Stop (no table, no permission)."""

    def put(self, key: ApiKey) -> None:
        """Store a key, in place of a stored one with its digest."""
        ...

    def all(self) -> Iterator[ApiKey]:
        """Yield every key, in no particular order."""
        ...

    def end(self, digest: str, expires_at: int) -> bool:
        """Set the time at which a key expires; return whether the key exists."""
        ...


class ApiKeys:
    """The table of API keys."""

    def __init__(self, client: "DynamoDBClient | DynamoDb", table: str = TABLE) -> None:
        self._client: Any = client
        self._table = table

    @classmethod
    def from_environment(cls) -> Self:
        """Return the store over the table that API_KEYS_TABLE names, for a function."""
        client = DynamoDb(Limits(connections=2, connect_s=0.5, read_s=3, attempts=2))
        return cls(client, os.environ.get("API_KEYS_TABLE") or TABLE)

    def put(self, key: ApiKey) -> None:
        texts = {"id": key.digest, "name": key.name, "clubs": key.clubs, "scopes": key.scopes}
        numbers = {name: getattr(key, name) for name in _NUMBERS}
        item = {name: {"S": text} for name, text in texts.items()}
        # Items of live keys are as those of earlier versions.
        item |= {} if key.mode == LIVE else {"mode": {"S": key.mode}}
        item |= {name: {"N": str(number)} for name, number in numbers.items() if number is not None}
        with answering(_WHAT):
            self._client.put_item(TableName=self._table, Item=item)

    def find(self, digest: str) -> ApiKey | None:
        """Return the key with this digest; None if there is none."""
        with answering(_WHAT):
            item = self._client.get_item(TableName=self._table, Key={"id": {"S": digest}}, ConsistentRead=True)
        return _key(item["Item"]) if "Item" in item else None

    def all(self) -> Iterator[ApiKey]:
        with answering(_WHAT):
            for page in self._client.get_paginator("scan").paginate(TableName=self._table, ConsistentRead=True):
                yield from map(_key, page["Items"])

    def end(self, digest: str, expires_at: int) -> bool:
        return self._set(digest, "expires_at", expires_at)

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

    def put(self, key: ApiKey) -> None:
        self._keys[key.digest] = key

    def all(self) -> Iterator[ApiKey]:
        yield from list(self._keys.values())

    def end(self, digest: str, expires_at: int) -> bool:
        if digest not in self._keys:
            return False
        self._keys[digest] = replace(self._keys[digest], expires_at=expires_at)
        return True


def _key(item: Mapping[str, Any]) -> ApiKey:
    """Return the key in an item. Raises Retry if the item is malformed."""
    try:
        numbers: dict[str, Any] = {name: int(item[name]["N"]) for name in _NUMBERS if name in item}
        texts: dict[str, Any] = {name: item[name]["S"] for name in ("name", "clubs", "scopes")}
        mode = item["mode"]["S"] if "mode" in item else LIVE
        if mode not in (LIVE, TEST):
            raise ValueError(f"mode {mode!r}")  # noqa: TRY301 - reported as any malformed value
        return ApiKey(digest=item["id"]["S"], mode=mode, **texts, **numbers)
    except (KeyError, ValueError, TypeError) as error:
        raise Retry(f"the item of an API key is malformed: {error!r}") from error
