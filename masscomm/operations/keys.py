"""Creates, rotates and revokes API keys. Each action is in the audit log of the key's clubs (tenants)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from masscomm.domain.audit import Action
from masscomm.http.tenant import Clubs, clubs_of
from masscomm.stores.api_keys.port import ApiKey, KeyRequest, KeyStore, MadeBefore, digest_of, new_key
from masscomm.stores.audit_log.port import Audit

EVERY_CLUB = "*"
HOUR_S = 3_600


class KeyHasEnded(Exception):
    """The key is expired or revoked, so that it cannot be rotated."""


class KeyEndsFirst(Exception):
    """The key ends before the hours of its rotation, and the new key would end with it."""

    def __init__(self, end: int) -> None:
        super().__init__(end)
        # In seconds since the epoch.
        self.end = end


class MadeAlready(Exception):
    """A request under the same Idempotency-Key has made a key already; its text is known no longer."""

    def __init__(self, before: MadeBefore) -> None:
        super().__init__(before.digest)
        self.before = before


@dataclass(frozen=True, kw_only=True)
class NewKey:
    """A key with its secret text, which is known only now."""

    text: str
    key: ApiKey


def is_readable(clubs: str) -> bool:
    """Return whether the functions can read the clubs (tenants) of a key."""
    return clubs == EVERY_CLUB or clubs_of({"club_ids": clubs}) != Clubs()


def clubs_in(text: str) -> Clubs:
    """Return the clubs (tenants) of a key."""
    return clubs_of({"all_clubs": "true"} if text == EVERY_CLUB else {"club_ids": text})


def create(keys: KeyStore, made: ApiKey, audit: Audit, *, once: KeyRequest | None = None) -> NewKey:
    """Store a key with a new secret text.

    Args:
        keys: The store.
        made: The key, without a digest.
        audit: Records the action.
        once: The request, if it has an Idempotency-Key.

    Raises:
        MadeAlready: The request has made a key before.
    """
    new = _stored(keys, made, once)
    _record(audit, Action.KEY_CREATED, new.key)
    return new


def rotate(
    keys: KeyStore,
    previous: ApiKey,
    *,
    now_s: int,
    hours: int,
    audit: Audit,
    once: KeyRequest | None = None,
    maker: str | None = None,
) -> NewKey:
    """Create a key with the name, clubs, scopes, limits and end of the previous one, which ends after some hours. Its
    use is counted with that of the previous one, or under `maker`, the caller if it has limits.

    Raises:
        KeyHasEnded: The previous key has ended.
        KeyEndsFirst: It ends within the hours, for example because it was rotated before.
        MadeAlready: The request has made a key before; the previous key has its end.
    """
    end = now_s + hours * HOUR_S
    if once is not None and (before := keys.made_before(once)) is not None:
        # The earlier attempt may have been killed before it stored the end.
        if before.request == once.request:  # guard: api_keys.repeated_rotation_ends_the_key
            keys.end(previous.digest, end)
        raise MadeAlready(before)
    if not previous.is_valid(now_s):
        raise KeyHasEnded(previous.key_id)
    # guard: api_keys.rotated_key_outlives
    if previous.expires_at is not None and previous.expires_at <= end:
        raise KeyEndsFirst(previous.expires_at)
    under = maker or previous.counted_under
    if under is None and previous.limits:  # guard: limits.rotated_key
        under = previous.key_id
    new = _stored(keys, replace(previous, created_at=now_s, last_used_at=None, counted_under=under), once)
    _record(audit, Action.KEY_ROTATED, new.key, detail=f"in place of {previous.key_id}")
    keys.end(previous.digest, end)
    return new


def revoke(keys: KeyStore, key: ApiKey, *, now_s: int, audit: Audit) -> int:
    """End a key now, and return its end. API Gateway may accept it for another minute, because it caches the
    authorizer's answer.
    """
    keys.end(key.digest, now_s)
    _record(audit, Action.KEY_REVOKED, key)
    return now_s if key.expires_at is None else min(now_s, key.expires_at)


def _stored(keys: KeyStore, made: ApiKey, once: KeyRequest | None) -> NewKey:
    text = new_key(made.mode)
    stored = replace(made, digest=digest_of(text))
    if once is None:
        keys.put(stored)
    elif (before := keys.put_once(stored, once)) is not None:
        raise MadeAlready(before)
    return NewKey(text=text, key=stored)


def _record(audit: Audit, action: Action, key: ApiKey, *, detail: str = "") -> None:
    clubs: Sequence[int | None] = [None] if key.clubs == EVERY_CLUB else sorted(clubs_in(key.clubs).ids)
    about = f"{key.name}: {key.scopes}" + (f", {detail}" if detail else "")
    audit(action, subject=key.key_id, clubs=clubs, detail=about)
