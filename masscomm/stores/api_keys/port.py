"""API keys: their values, and the interface of their store. Only digests of the keys are stored."""

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import NamedTuple, Protocol

from masscomm.domain.key_limits import COUNTED_UNDER, LIMITS
from masscomm.domain.time_limits import IDEMPOTENCY_KEPT_S

# By this prefix, tools that search for secrets recognise a key.
PREFIX = "mc_"
LIVE, TEST = "live", "test"
LIMIT_SETTINGS = tuple(kind.setting for kind in LIMITS)


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


def every_key(keys: KeyStore, *, a_page: int = 100) -> Iterator[ApiKey]:
    """Yield every key, the latest first."""
    before: Position | None = None
    while True:
        page = keys.page(lambda _: True, before=before, limit=a_page)
        yield from page.keys
        if (before := page.next) is None:
            return
