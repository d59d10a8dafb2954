"""Verifies webhooks, as the specification Standard Webhooks 1.0.0 requires."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any


class WebhookError(Exception):
    """A webhook that none of the secrets signed, or not in time."""


def verify_webhook(
    secrets: Sequence[str],
    headers: Mapping[str, str],
    body: bytes,
    *,
    tolerance_s: float = 300,
    now_s: float | None = None,
) -> Any:
    """Return the event in a webhook.

    Args:
        secrets: The secrets of the endpoint; while one is rotated, the new and the previous one.
        headers: The headers of the request, in any case.
        body: The body as it was received: JSON that was parsed and written again has another signature.
        tolerance_s: The greatest difference between the webhook's time and now, in seconds.
        now_s: The time now, in seconds since 1970; None is that of the clock.

    Raises WebhookError, or ValueError if a secret is not base64.
    """
    given = {name.lower(): value for name, value in headers.items()}
    id_, timestamp, signature = (given.get(f"webhook-{name}") for name in ("id", "timestamp", "signature"))
    if not id_ or not timestamp or not signature:
        raise WebhookError("a header of the webhook is missing")
    now_s = time.time() if now_s is None else now_s
    # guard: client.webhook_time
    if not (timestamp.isascii() and timestamp.isdecimal()) or abs(now_s - int(timestamp)) > tolerance_s:
        raise WebhookError("the time of the webhook is too far from now")
    content = f"{id_}.{timestamp}.".encode() + body
    signatures = [each.encode() for each in signature.split(" ")]
    for secret in secrets:
        digest = hmac.new(_key_of(secret), content, hashlib.sha256).digest()
        expected = b"v1," + base64.b64encode(digest)
        # A comparison in constant time reveals nothing about the signature.
        if any(hmac.compare_digest(expected, each) for each in signatures):
            return json.loads(body)
    raise WebhookError("none of the secrets signed the webhook")


def _key_of(secret: str) -> bytes:
    """Return the key in a secret. An empty key, with which anybody could sign, is refused."""
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except binascii.Error:
        key = b""
    if not key:
        raise ValueError("a secret of the webhook is not base64")
    return key
