"""The settings of unsubscribe links, and their keys."""

import json
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masscomm.channels.signing_keys import SigningKeys
from masscomm.channels.unsubscribe_links import UnsubscribeLinks, checked_mailbox, checked_url, token_in_subject
from masscomm.clock import FixedClock
from masscomm.domain.signing_keys import KeySet
from masscomm.domain.unsubscribe_tokens import Subscription, sign, verify
from masscomm.errors import Retry, Stop

TEXT = json.dumps({"current": "1", "1": "a key of at least thirty-two bytes"})
KEYS = KeySet.read(TEXT)
ADA = Subscription(1, 7, "news")


@given(
    user_id=st.integers(-(2**63), 2**63 - 1),
    club_id=st.integers(1, 2**63 - 1),
    category=st.text(max_size=64),
    lifetime=st.integers(1, 10**9),
)
def test_signed_token_is_verified(user_id: int, club_id: int, category: str, lifetime: int) -> None:
    subscription = Subscription(user_id, club_id, category.encode(errors="ignore").decode())
    token = sign(KEYS, subscription, 1_000 + lifetime)
    assert verify(KEYS, token, 1_000) == subscription
    assert verify(KEYS, token, 1_000 + lifetime) is None
    assert len(token) < 900, "a line of an e-mail has at most 998 characters"


@given(token=st.text(max_size=80))
def test_any_other_text_is_refused_as_token(token: str) -> None:
    assert verify(KEYS, token, 0) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no JSON object"),
        ("[]", "no JSON object"),
        ('{"1": "x"}', "no JSON object with `current`"),
        ('{"current": "2", "1": "a key of at least thirty-two bytes"}', "does not exist"),
        ('{"current": "1", "1": "short key"}', "shorter than 32"),
        ('{"current": ["1"], "1": "a key of at least thirty-two bytes"}', "does not exist"),
    ],
)
def test_invalid_keys_stop_without_showing_them(text: str, message: str) -> None:
    with pytest.raises(Stop, match=message) as caught:
        KeySet.read(text)
    assert "key of at" not in str(caught.value)
    assert "short key" not in str(caught.value)
    assert "thirty" not in repr(KEYS)


@pytest.mark.kills(guard="unsubscribe.https")
@pytest.mark.parametrize(
    "url", ["http://example.org/u", "ftp://example.org/u", "example.org/u", "https:///u", "http://127.0.0.1.example/u"]
)
def test_link_needs_https(url: str) -> None:
    with pytest.raises(Stop, match="https"):
        checked_url(url)


@pytest.mark.parametrize("url", ["https://example.org/u?a=1", "https://example.org/u#a", "https://example.org/u v"])
def test_link_is_an_address_without_a_query(url: str) -> None:
    with pytest.raises(Stop, match="without a query"):
        checked_url(url)


@pytest.mark.parametrize("url", ["https://example.org/v1/u/", "http://127.0.0.1:8080/v1/u", "http://localhost/u"])
def test_https_and_loopback_are_accepted(url: str) -> None:
    assert checked_url(url) == url.rstrip("/")


def test_links_need_an_address_and_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FixedClock()
    for name in ("UNSUBSCRIBE_URL", "UNSUBSCRIBE_KEYS", "UNSUBSCRIBE_KEYS_SECRET_ARN"):
        monkeypatch.delenv(name, raising=False)
    assert UnsubscribeLinks.from_environment(clock) is None
    monkeypatch.setenv("UNSUBSCRIBE_URL", "https://example.org/u/")
    with pytest.raises(Stop, match="UNSUBSCRIBE_KEYS_SECRET_ARN"):
        UnsubscribeLinks.from_environment(clock)
    monkeypatch.setenv("UNSUBSCRIBE_KEYS", TEXT)
    links = UnsubscribeLinks.from_environment(clock)
    assert links is not None
    link, mailto = links.ways_out(ADA)
    assert (link or "").startswith("https://example.org/u/")
    assert links.subscription((link or "").rpartition("/")[2]) == ADA
    assert mailto is None


@pytest.mark.guarantee("unsubscribe.mailto_is_read")
def test_an_email_is_a_way_out_where_a_mailbox_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mail program sends an e-mail with the subject of the address, decoded."""
    monkeypatch.delenv("UNSUBSCRIBE_URL", raising=False)
    monkeypatch.setenv("UNSUBSCRIBE_KEYS", TEXT)
    monkeypatch.setenv("UNSUBSCRIBE_MAILBOX", "unsubscribe@mail.example.org")
    links = UnsubscribeLinks.from_environment(FixedClock())
    assert links is not None
    link, mailto = links.ways_out(ADA)
    assert link is None
    address = urlsplit(mailto or "")
    assert (address.scheme, address.path) == ("mailto", "unsubscribe@mail.example.org")
    ((name, subject),) = parse_qsl(address.query)
    assert name == "subject"
    for received in (subject, f"Re: {subject}", subject.replace(" ", "\r\n "), subject.replace("unsub", "UNSUB", 1)):
        assert links.subscription(token_in_subject(received) or "") == ADA


@pytest.mark.parametrize("subject", ["", "unsubscribe", "unsubscribe me", "no token.here", "resubscribe a.b"])
def test_other_subjects_have_no_token(subject: str) -> None:
    assert token_in_subject(subject) is None


@pytest.mark.parametrize(
    "address", ["", "a", "a@b", "a b@example.org", "ä@example.org", "A <a@example.org>", "a?b@c.org"]
)
def test_malformed_mailboxes_are_refused(address: str) -> None:
    with pytest.raises(Stop, match="UNSUBSCRIBE_MAILBOX"):
        checked_mailbox(address)


def test_keys_are_read_again_and_stay_while_unreadable() -> None:
    texts: list[Any] = [Retry("down"), TEXT, Retry("down"), "no JSON", TEXT.replace('"1"', '"2"')]
    clock = FixedClock()

    def read() -> str:
        text = texts.pop(0)
        if isinstance(text, Exception):
            raise text
        return str(text)

    keys = SigningKeys(read=read, clock=clock)
    with pytest.raises(Retry):
        keys.now()
    assert keys.now() is keys.now()
    for expected in ("1", "1", "2"):
        clock.advance(300)
        assert keys.now().current == expected
    assert texts == []
