"""The signatures of incoming webhooks, by each scheme."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from masscomm.domain.incoming_messages import InvalidMessage, message_of, read_message
from masscomm.domain.webhook_sources import (
    IncomingWebhook,
    Refusal,
    Scheme,
    SourceKey,
    WebhookRefused,
    is_secret,
    sender_id,
    verify,
)
from tests.support.harness.webhook_sources import (
    AT_MS,
    DOCUMENT,
    SECRET,
    STANDARD_SECRET,
    secret_of,
    source,
    source_key,
    webhook,
)

TIMED = (Scheme.STANDARD, Scheme.STRIPE)


def check(scheme: Scheme, incoming: IncomingWebhook, *secrets: str) -> Refusal | None:
    """Return why a webhook is refused; None if it is not."""
    try:
        verify(source(scheme).signature, secrets or [secret_of(scheme)], incoming)
    except WebhookRefused as error:
        return error.reason
    return None


@pytest.mark.parametrize("scheme", Scheme)
def test_signed_webhook_is_accepted_with_the_id_of_its_sender(scheme: Scheme) -> None:
    incoming = webhook(scheme)
    assert check(scheme, incoming) is None
    assert sender_id(source(scheme).signature, incoming, DOCUMENT) == "m-1"


@pytest.mark.kills(guard="sources.signature")
@pytest.mark.parametrize("scheme", Scheme)
def test_other_body_headers_or_secret_are_refused(scheme: Scheme) -> None:
    signed = webhook(scheme)
    other = STANDARD_SECRET.replace("c3Nz", "dHR0", 1) if scheme is Scheme.STANDARD else f"{SECRET}!"
    assert check(scheme, replace(signed, body=signed.body + b" ")) is Refusal.SIGNATURE
    assert check(scheme, replace(signed, headers={})) is Refusal.SIGNATURE
    assert check(scheme, signed, other) is Refusal.SIGNATURE
    assert check(scheme, signed, other, secret_of(scheme)) is None
    for name in signed.headers:
        for value in ("", "é", "v1,", "sha256=0", "t=1,v1=zz", "v0:AA=="):
            refused = check(scheme, replace(signed, headers={**signed.headers, name: value}))
            assert refused is Refusal.SIGNATURE or name in ("x-shop-id", "x-github-delivery")


@pytest.mark.kills(guard="sources.age_at_receipt")
@pytest.mark.parametrize("scheme", TIMED)
@pytest.mark.parametrize("away_s", [-301, 301])
def test_signed_time_far_from_receipt_is_refused(scheme: Scheme, away_s: int) -> None:
    incoming = webhook(scheme, received_at_ms=AT_MS + away_s * 1000)
    assert check(scheme, incoming) is Refusal.TOO_OLD
    assert check(scheme, webhook(scheme, received_at_ms=AT_MS + 299_000)) is None


@pytest.mark.parametrize("scheme", Scheme)
@given(value=some.text(max_size=40))
def test_any_header_is_accepted_or_refused(scheme: Scheme, value: str) -> None:
    incoming = webhook(scheme)
    for name in incoming.headers:
        check(scheme, replace(incoming, headers={**incoming.headers, name: value}))


def test_sender_may_give_no_id() -> None:
    plain = replace(source(Scheme.HMAC).signature, id_header="")
    assert sender_id(plain, webhook(Scheme.HMAC), DOCUMENT) is None
    assert sender_id(source(Scheme.STRIPE).signature, webhook(Scheme.STRIPE), [1]) is None


@pytest.mark.kills(guard="sources.previous_secret")
def test_previous_secret_is_valid_until_its_end() -> None:
    rotated = source(previous_sealed=b"before", previous_until_ms=AT_MS)
    assert list(rotated.sealed_secrets(AT_MS - 1)) == [rotated.sealed, b"before"]
    assert list(rotated.sealed_secrets(AT_MS)) == [rotated.sealed]


@pytest.mark.parametrize(
    "id_", ["", "src_1_abc", f"src_01_{'a' * 26}", f"src_{'9' * 20}_{'a' * 26}", f"x{source_key().id}"]
)
def test_other_text_is_no_id_of_a_source(id_: str) -> None:
    assert SourceKey.of_id(id_) is None
    assert SourceKey.of_id(source_key().id) == source_key()


def test_new_id_has_the_letters_of_its_seed() -> None:
    key = SourceKey.new(7, bytes(range(26)))
    assert SourceKey.of_id(key.id) == key


@pytest.mark.parametrize("secret", [None, 7, "", "short", "whsec_!!!!!!!!", "whsec_c2hvcnQ=", "é" * 20, "a" * 4_001])
def test_unusable_secret_is_recognised(secret: Any) -> None:
    assert not is_secret(Scheme.STANDARD, secret)
    assert is_secret(Scheme.STANDARD, STANDARD_SECRET)
    assert is_secret(Scheme.GITHUB, SECRET)


@given(body=some.binary(max_size=50), value=some.text(some.characters(exclude_categories=["Cs"])))
def test_message_has_the_unchanged_bytes(body: bytes, value: str) -> None:
    found = read_message("sqs-1", message_of("src_1", {"X-Name": value}, body, AT_MS))
    assert (found.body, found.headers, found.received_at_ms) == (body, {"x-name": value}, AT_MS)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"source":"s","received_at":1,"headers":[],"body":""}', "null"]
    + [
        json.dumps({"source": "s", "received_at": at, "headers": {"a": a}, "body": b})
        for at, a, b in ((None, "", ""), (1, "§", ""), (1, "", "!"), (1, 7, ""))
    ],
)
def test_message_of_another_form_is_invalid(text: str) -> None:
    with pytest.raises(InvalidMessage):
        read_message("sqs-1", text)
