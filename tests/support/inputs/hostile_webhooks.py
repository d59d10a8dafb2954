"""Incoming webhooks of a source with the scheme hmac. Some are hostile, each with the reason of its refusal."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote_plus

from masscomm.domain.webhook_sources import Refusal, Scheme
from tests.support.harness.webhook_sources import AT_MS, signed, source_key

HOSTILE_MAPPING: Mapping[str, Any] = {
    "type": {"value": "match.finished"},
    "club_id": {"path": "club"},
    "unit": {"path": "unit"},
    "occurred_at": {"path": "created", "unit": "s"},
    "data": {"path": "match"},
}


@dataclass(frozen=True, kw_only=True)
class HostileWebhook:
    number: int
    body: bytes
    headers: Mapping[str, str]
    # None: it becomes an event.
    reason: Refusal | None
    source: str = source_key().id


def hostile_webhooks(count: int) -> Iterator[HostileWebhook]:
    """Yield this many webhooks with different numbers. The first of each kind of refusal is followed by a good one."""
    number = 0
    while True:
        for reason, body in _bodies(number):
            for made in (_hostile(number, reason, body), _good(number + 1)):
                if number == count:
                    return
                yield made
                number += 1


def _good(number: int) -> HostileWebhook:
    body = json.dumps(_document(number)).encode()
    if number % 3 == 0:
        return _signed(number, b"payload=" + quote_plus(body).encode(), kind="application/x-www-form-urlencoded")
    return _signed(number, body)


def _hostile(number: int, reason: Refusal, body: bytes) -> HostileWebhook:
    made = _signed(number, body, reason)
    if reason is Refusal.SIGNATURE:
        return HostileWebhook(
            number=number, body=body, headers={"content-type": "text/plain", "x-shop-hmac": "v0:AAAA"}, reason=reason
        )
    if reason is Refusal.UNKNOWN_SOURCE:
        return HostileWebhook(number=number, body=body, headers=made.headers, reason=reason, source=f"src_1_{'z' * 26}")
    return made


def _signed(number: int, body: bytes, reason: Refusal | None = None, kind: str = "application/json") -> HostileWebhook:
    headers = {"content-type": kind, **signed(Scheme.HMAC, body, id_=f"m-{number}")}
    return HostileWebhook(number=number, body=body, headers=headers, reason=reason)


def _document(number: int, **changes: Any) -> dict[str, Any]:
    return {"club": 1, "unit": "100/7", "created": AT_MS // 1000, "match": {"number": number}} | changes


def _bodies(number: int) -> Iterator[tuple[Refusal, bytes]]:
    """Yield one hostile body of each kind."""
    good = json.dumps(_document(number)).encode()
    yield Refusal.SIGNATURE, good
    yield Refusal.UNKNOWN_SOURCE, good
    unreadable: list[bytes] = [
        b"",
        b"%d {" % number,
        b"\xff\x00%d" % number,
        b'{"n": %d, "x": NaN}' % number,
        b'{"n": %d, "x": 1e999}' % number,
        b'{"n": %d, "x": %d}' % (number, 2**64),
        b'{"n": %d, "x": "\\ud800"}' % number,
        b'{"n": %d, "n": 1}' % number,
        b"[" * 300 + b"%d" % number + b"]" * 300,
        b"[" * 100_000 + b"%d" % number,
    ]
    for body in unreadable:
        yield Refusal.UNREADABLE, body
    changes: list[tuple[Refusal, Mapping[str, Any]]] = [
        (Refusal.UNMAPPED, {"club": None}),
        (Refusal.UNMAPPED, {"club": "one"}),
        (Refusal.UNMAPPED, {"club": [number]}),
        (Refusal.UNMAPPED, {"unit": "100//7"}),
        (Refusal.UNMAPPED, {"unit": "/".join("123456")}),
        (Refusal.UNMAPPED, {"created": AT_MS}),
        (Refusal.UNMAPPED, {"created": "yesterday"}),
        (Refusal.UNMAPPED, {"created": 1e308}),
        (Refusal.UNMAPPED, {"created": True}),
        (Refusal.UNMAPPED, {"match": [number]}),
        (Refusal.UNMAPPED, {"match": {"number": number, "text": "x" * 70_000}}),
        (Refusal.NOT_PERMITTED, {"club": 2}),
        (Refusal.MISFIT, {"match": {"other": number}}),
    ]
    for reason, change in changes:
        yield reason, json.dumps(_document(number, **change)).encode()
    for body in (b"[%d]" % number, b'"%d"' % number, b"%d" % number, b"null"):
        yield Refusal.UNMAPPED, body
