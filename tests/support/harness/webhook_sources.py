"""Sources of incoming webhooks, their secrets, and the requests of their senders."""

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from masscomm.aws.sealed_secrets import SecretBox
from masscomm.domain import webhook_signatures
from masscomm.domain.incoming_messages import message_of
from masscomm.domain.webhook_sources import (
    Encoding,
    IncomingWebhook,
    Scheme,
    Signature,
    SourceKey,
    WebhookSource,
    sealing_context,
)
from tests.support.fakes.data_keys import InMemoryDataKeys

AT_MS = 1_700_000_000_000
STANDARD_SECRET = "whsec_" + base64.b64encode(b"s" * 24).decode()
SECRET = "a secret of the sender"
HMAC = Signature(
    scheme=Scheme.HMAC, header="x-shop-hmac", encoding=Encoding.BASE64, prefix="v0:", id_header="x-shop-id"
)
MAPPING: Mapping[str, Any] = {
    "type": {"value": "match.finished"},
    "club_id": {"path": "club"},
    "occurred_at": {"path": "created", "unit": "s"},
    "data": {"path": "match"},
}
DOCUMENT: Mapping[str, Any] = {"id": "m-1", "club": 1, "created": AT_MS // 1000, "match": {"goals": [2, 1]}}


KEYS = InMemoryDataKeys()
BOX = SecretBox(KEYS)


def source_key(club_id: int = 1) -> SourceKey:
    return SourceKey(club_id, f"src_{club_id}_{'abcdefghijklmnopqrstuvwxyz'}")


def secret_of(scheme: Scheme) -> str:
    return STANDARD_SECRET if scheme is Scheme.STANDARD else SECRET


def source(scheme: Scheme = Scheme.STANDARD, key: SourceKey | None = None, **changes: Any) -> WebhookSource:
    key = key or source_key()
    sealed = BOX.seal({"secret": secret_of(scheme)}, sealing_context(key.id))
    made = WebhookSource(
        key=key,
        signature=HMAC if scheme is Scheme.HMAC else Signature(scheme=scheme),
        club_ids=(key.club_id,),
        mapping=MAPPING,
        sealed=sealed,
        created_at_ms=AT_MS,
    )
    return replace(made, **changes)


def signed(scheme: Scheme, body: bytes, *, id_: str = "m-1", at_s: int = AT_MS // 1000) -> dict[str, str]:
    """Return the headers with which a sender signs a body."""
    secret = secret_of(scheme)
    match scheme:
        case Scheme.STANDARD:
            return dict(webhook_signatures.headers([secret], message_id=id_, at_s=at_s, body=body))
        case Scheme.STRIPE:
            return {"stripe-signature": f"t={at_s},v0=00,v1={_hmac(secret, f'{at_s}.'.encode() + body).hex()}"}
        case Scheme.GITHUB:
            return {"x-hub-signature-256": f"sha256={_hmac(secret, body).hex()}", "x-github-delivery": id_}
    return {HMAC.header: f"v0:{base64.b64encode(_hmac(secret, body)).decode()}", HMAC.id_header: id_}


def webhook(
    scheme: Scheme = Scheme.STANDARD, document: Any = DOCUMENT, *, id_: str = "m-1", received_at_ms: int = AT_MS
) -> IncomingWebhook:
    body = json.dumps(document).encode()
    return IncomingWebhook(
        source_id=source_key().id,
        message_id=f"sqs-{id_}",
        headers=signed(scheme, body, id_=id_),
        body=body,
        received_at_ms=received_at_ms,
    )


def queued(given: IncomingWebhook) -> dict[str, Any]:
    """Return the record of an event of SQS with a webhook."""
    return {
        "messageId": given.message_id,
        "body": message_of(given.source_id, given.headers, given.body, given.received_at_ms),
    }


def _hmac(secret: str, content: bytes) -> bytes:
    return hmac.new(secret.encode(), content, hashlib.sha256).digest()
