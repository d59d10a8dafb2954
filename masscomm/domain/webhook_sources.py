"""Sources of incoming webhooks: who sends them, how their signatures are verified, and which events they become.

Sources: https://github.com/standard-webhooks/standard-webhooks, spec/standard-webhooks.md;
https://docs.stripe.com/webhooks/signature;
https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries.
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from masscomm.domain import webhook_signatures as standard
from masscomm.domain.event_mapping import EventMapping
from masscomm.domain.time_limits import INCOMING_WEBHOOK_AGE_S
from masscomm.domain.webhook_authentication import PURPOSE
from masscomm.integers import integer_or
from masscomm.json_reader import InvalidJson, read_json

MAX_SOURCES = 100
MAX_SECRET = 4_000
MAX_SOURCE_CLUBS = 1_000
# The refused webhooks of a source that are listed: the last ones.
MAX_REFUSALS = 100
# The accepted webhooks of a source that are listed: the last ones.
MAX_ACCEPTED = 10

_ID_LETTERS = 26
_LETTERS = "abcdefghijklmnopqrstuvwxyz234567"
_ID = re.compile(rf"src_(?P<club>[1-9][0-9]{{0,18}})_[a-z2-7]{{{_ID_LETTERS}}}", re.ASCII)
_FORM = "application/x-www-form-urlencoded"
_FORM_FIELDS = 1_000
HEADER_PATTERN = r"^[a-z0-9!#$%&'*+.^_`|~-]{1,100}$"
_HEADER = re.compile(HEADER_PATTERN)


class Scheme(StrEnum):
    """How a sender signs its webhooks."""

    STANDARD = "standard"  # Standard Webhooks: webhook-id, webhook-timestamp, webhook-signature.
    STRIPE = "stripe"  # Stripe-Signature, with a time.
    GITHUB = "github"  # X-Hub-Signature-256, without a time.
    HMAC = "hmac"  # The HMAC-SHA256 of the body in a header of the sender's choice, without a time.


class Encoding(StrEnum):
    """How a signature is written."""

    HEX = "hex"
    BASE64 = "base64"


class Refusal(StrEnum):
    """Why an incoming webhook became no event."""

    UNKNOWN_SOURCE = "unknown_source"  # There is no source with this id.
    SIGNATURE = "signature"  # The signature is missing or wrong.
    TOO_OLD = "too_old"  # Its signed time is too far from that of its receipt.
    UNREADABLE = "unreadable"  # The body is neither JSON nor a form.
    UNMAPPED = "unmapped"  # The mapping finds no event in it.
    NOT_PERMITTED = "not_permitted"  # The event is of a tenant that the source may not report for.
    UNKNOWN_TYPE = "unknown_type"  # There is no event type with this name.
    MISFIT = "misfit"  # The data does not fit the schema of the type.
    OTHER_EVENT = "other_event"  # Another webhook of the last 24 hours has this event_id.


class SourceKey(NamedTuple):
    """Identifies a source."""

    club_id: int
    id: str

    @classmethod
    def of_id(cls, id_: str) -> "SourceKey | None":
        """Return the key of a source's id, which contains its club; None if no source has this id."""
        found = _ID.fullmatch(id_)
        club_id = None if found is None else integer_or(found["club"], None)
        return None if club_id is None else cls(club_id, id_)

    @classmethod
    def new(cls, club_id: int, seed: bytes) -> "SourceKey":
        """Return the key of a new source. `seed` has 26 random bytes or more: the id cannot be guessed."""
        letters = "".join(_LETTERS[each % len(_LETTERS)] for each in seed[:_ID_LETTERS])
        return cls(club_id, f"src_{club_id}_{letters}")


@dataclass(frozen=True, kw_only=True)
class Signature:
    """How the signatures of a source are verified."""

    scheme: Scheme
    # Of the scheme hmac: the header with the signature, its encoding, and the text before it.
    header: str = ""
    encoding: Encoding = Encoding.HEX
    prefix: str = ""
    # Of the scheme hmac: the header with the sender's id of a webhook; "": it has none.
    id_header: str = ""

    @property
    def signs_id(self) -> bool:
        """Return whether the sender's id is signed: one in a header of the schemes github and hmac is not."""
        return self.scheme in (Scheme.STANDARD, Scheme.STRIPE)


@dataclass(frozen=True, kw_only=True)
class WebhookSource:
    """A system that sends webhooks to the door. Times are in milliseconds since the epoch."""

    key: SourceKey
    description: str = ""
    signature: Signature
    # The tenants for which it may report events; None: every tenant.
    club_ids: tuple[int, ...] | None
    # As masscomm.domain.event_mapping reads it.
    mapping: Mapping[str, Any]
    # The secret (masscomm.aws.sealed_secrets), for the context of the source.
    sealed: bytes = field(repr=False)
    # The previous secret, and the end of its validity; None: there is none.
    previous_sealed: bytes | None = field(default=None, repr=False)
    previous_until_ms: int | None = None
    created_at_ms: int

    @cached_property
    def event_mapping(self) -> EventMapping:
        return EventMapping.of(self.mapping)

    def sealed_secrets(self, at_ms: int) -> Iterator[bytes]:
        """Yield the secrets with which a webhook of this time may be signed."""
        yield self.sealed
        # guard: sources.previous_secret
        if self.previous_sealed is not None and at_ms < (self.previous_until_ms or 0):
            yield self.previous_sealed


@dataclass(frozen=True, kw_only=True)
class IncomingWebhook:
    """A webhook as the door received it."""

    source_id: str
    # The id of its message in the queue.
    message_id: str
    # By their names in lower case.
    headers: Mapping[str, str]
    body: bytes = field(repr=False)
    received_at_ms: int


@dataclass(frozen=True, kw_only=True)
class RefusedWebhook:
    """A webhook that became no event. It has no values of the webhook."""

    # The time of its receipt, in milliseconds since the epoch.
    at_ms: int
    message_id: str
    reason: Refusal
    # The field of the event and its problem; "" if the reason says all.
    detail: str = ""


class AcceptedWebhook(NamedTuple):
    """A webhook that became an event, without the event's data."""

    # The time of its receipt, in milliseconds since the epoch.
    at_ms: int
    event_id: str
    type: str
    club_id: int


class WebhookRefused(Exception):
    """An incoming webhook becomes no event."""

    def __init__(self, reason: Refusal, detail: str = "") -> None:
        super().__init__(f"{reason} {detail}".rstrip())
        self.reason, self.detail = reason, detail


def sealing_context(source_id: str) -> Mapping[str, str]:
    """Return the context for which the secret of a source is sealed."""
    return {"purpose": PURPOSE, "source": source_id}


def is_header(name: object) -> bool:
    """Return whether a value is the name of a header in lower case."""
    return isinstance(name, str) and _HEADER.fullmatch(name) is not None


def is_secret(scheme: Scheme, secret: object) -> bool:
    """Return whether a value can be the secret of a scheme. Those of Standard Webhooks are base64 of 24 to 64 bytes."""
    if not isinstance(secret, str) or not 8 <= len(secret) <= MAX_SECRET or not secret.isascii():
        return False
    if scheme is not Scheme.STANDARD:
        return True
    try:
        return 24 <= len(base64.b64decode(secret.removeprefix(standard.PREFIX), validate=True)) <= 64
    except ValueError:
        return False


def verify(signature: Signature, secrets: Sequence[str], webhook: IncomingWebhook) -> None:
    """Check the signature of a webhook's unchanged bytes, and its signed time against that of its receipt.

    Args:
        signature: How the source signs.
        secrets: The secrets with which the webhook may be signed.
        webhook: The webhook.

    Raises:
        WebhookRefused: The signature is missing or wrong, or the time is too far from that of the receipt.
    """
    signed_at, content, given = _SCHEMES[signature.scheme](signature, webhook)
    expected = [_hmac(signature.scheme, secret, content) for secret in secrets]
    # guard: sources.signature
    if not any(hmac.compare_digest(one, other) for one in expected for other in given):
        raise WebhookRefused(Refusal.SIGNATURE)
    # Its receipt counts, so that an outage expires no webhook.
    age_s = 0 if signed_at is None else abs(webhook.received_at_ms / 1000 - signed_at)
    if age_s > INCOMING_WEBHOOK_AGE_S:  # guard: sources.age_at_receipt
        raise WebhookRefused(Refusal.TOO_OLD)


def read_document(webhook: IncomingWebhook) -> Any:
    """Return the document in a body: JSON, or a form, which is an object of its fields. A form with the only field
    `payload`, as GitHub sends it, has the document in this field. Raises WebhookRefused.
    """
    kind = webhook.headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        if kind != _FORM:
            return read_json(webhook.body)
        fields = parse_qsl(webhook.body.decode(), keep_blank_values=True, errors="strict", max_num_fields=_FORM_FIELDS)
        form = dict(fields)
        if len(form) != len(fields):
            raise WebhookRefused(Refusal.UNREADABLE, "a form with a field twice")
        return read_json(form["payload"]) if form.keys() == {"payload"} else form
    except ValueError as error:
        detail = str(error) if isinstance(error, InvalidJson) else "a form that is not UTF-8, or has too many fields"
        raise WebhookRefused(Refusal.UNREADABLE, detail) from error


def sender_id(signature: Signature, webhook: IncomingWebhook, document: Any) -> str | None:
    """Return the id that the sender has given to a webhook and its repetitions; None if it gives none."""
    match signature.scheme:
        case Scheme.STANDARD:
            return webhook.headers.get(standard.ID)
        case Scheme.GITHUB:
            return webhook.headers.get("x-github-delivery")
        case Scheme.STRIPE:
            found = document.get("id") if isinstance(document, Mapping) else None
            return found if isinstance(found, str) else None
    return webhook.headers.get(signature.id_header) if signature.id_header else None


# The signed time in seconds (None: none is signed), the signed content, and the signatures of a webhook.
type _Signed = tuple[int | None, bytes, list[bytes]]


def _standard(_signature: Signature, webhook: IncomingWebhook) -> _Signed:
    id_, at = webhook.headers.get(standard.ID, ""), webhook.headers.get(standard.TIMESTAMP, "")
    given = webhook.headers.get(standard.SIGNATURE, "").split()
    found = [each.removeprefix("v1,") for each in given if each.startswith("v1,")]
    return _time(at), f"{id_}.{at}.".encode() + webhook.body, _decoded(found, Encoding.BASE64)


def _stripe(_signature: Signature, webhook: IncomingWebhook) -> _Signed:
    pairs = [each.partition("=") for each in webhook.headers.get("stripe-signature", "").split(",")]
    at = next((value for name, _, value in pairs if name.strip() == "t"), "")
    found = [value for name, _, value in pairs if name.strip() == "v1"]
    return _time(at), f"{at}.".encode() + webhook.body, _decoded(found, Encoding.HEX)


def _github(_signature: Signature, webhook: IncomingWebhook) -> _Signed:
    return None, webhook.body, _prefixed(webhook.headers.get("x-hub-signature-256"), "sha256=", Encoding.HEX)


def _own_header(signature: Signature, webhook: IncomingWebhook) -> _Signed:
    found = webhook.headers.get(signature.header)
    return None, webhook.body, _prefixed(found, signature.prefix, signature.encoding)


_SCHEMES: Mapping[Scheme, Callable[[Signature, IncomingWebhook], _Signed]] = {
    Scheme.STANDARD: _standard,
    Scheme.STRIPE: _stripe,
    Scheme.GITHUB: _github,
    Scheme.HMAC: _own_header,
}


def _time(text: str) -> int:
    """Return a signed time in seconds since the epoch. Raises WebhookRefused."""
    found = integer_or(text, None)
    if found is None:
        raise WebhookRefused(Refusal.SIGNATURE, "it has no time")
    return found


def _prefixed(found: str | None, prefix: str, encoding: Encoding) -> list[bytes]:
    if found is None or not found.startswith(prefix):
        return []
    return _decoded([found.removeprefix(prefix)], encoding)


def _decoded(texts: Sequence[str], encoding: Encoding) -> list[bytes]:
    """Return the signatures in texts; a text that is none is left out."""
    found: list[bytes] = []
    for text in texts:
        try:
            found.append(base64.b64decode(text, validate=True) if encoding is Encoding.BASE64 else bytes.fromhex(text))
        except ValueError:
            continue
    return found


def _hmac(scheme: Scheme, secret: str, content: bytes) -> bytes:
    key = base64.b64decode(secret.removeprefix(standard.PREFIX)) if scheme is Scheme.STANDARD else secret.encode()
    return hmac.new(key, content, hashlib.sha256).digest()
