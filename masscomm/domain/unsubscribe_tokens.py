"""Signed tokens with which the recipient of an e-mail unsubscribes from its category without signing in.

A token is `PAYLOAD.SIGNATURE`, both in URL-safe base64: the key's id, the user, the club (tenant), the category and the
expiry as JSON, and the HMAC-SHA-256 of the payload. The current key signs; every key verifies, so that links that an
earlier key signed remain valid until it is removed.
"""

import base64
import binascii
import hashlib
import hmac
import json
import re
from typing import Any, NamedTuple

from masscomm.domain.signing_keys import KeySet

# The signature covers this text, too, so that no signature of another kind of message is one of a token.
_CONTEXT = b"masscomm.unsubscribe.1\n"
_FORM = re.compile(r"[A-Za-z0-9_-]{1,1200}\.[A-Za-z0-9_-]{43}")


class Subscription(NamedTuple):
    """A category of a club (tenant) for one user."""

    user_id: int
    club_id: int
    category: str


def sign(keys: KeySet, subscription: Subscription, expires_at_s: int) -> str:
    """Return the token for a subscription. The same arguments have the same token."""
    fields = [keys.current, *subscription, expires_at_s]
    payload = _encoded(json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode())
    return f"{payload}.{_signature(keys.keys[keys.current], payload)}"


def verify(keys: KeySet, token: str, now_s: int) -> Subscription | None:
    """Return the subscription in a token; None if we did not sign it, or if it has expired."""
    if not _FORM.fullmatch(token):
        return None
    payload, _, signature = token.partition(".")
    match _fields(payload):
        case [str(key_id), int(user_id), int(club_id), str(category), int(expires_at_s)]:
            secret = keys.keys.get(key_id)
        case _:
            return None
    if secret is None:
        return None
    if not hmac.compare_digest(_signature(secret, payload), signature):  # guard: unsubscribe.signature
        return None
    if expires_at_s <= now_s:  # guard: unsubscribe.expiry
        return None
    return Subscription(user_id, club_id, category)


def _fields(payload: str) -> Any:
    try:
        return json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (ValueError, binascii.Error, RecursionError):
        return None


def _signature(secret: bytes, payload: str) -> str:
    return _encoded(hmac.new(secret, _CONTEXT + payload.encode(), hashlib.sha256).digest())


def _encoded(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).decode().rstrip("=")
