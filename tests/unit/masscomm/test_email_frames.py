"""A message that is filled into a frame has the bytes that Python's email package makes for the whole message, except
for the subject, which has the same text.
"""

import re
from email import message_from_bytes
from email.errors import MessageError
from email.header import decode_header
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import parseaddr

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from masscomm.channels import email
from masscomm.channels.email import email_message, mail_domain_in_ascii
from masscomm.channels.unsubscribe_links import NO_WAY_OUT, WaysOut
from masscomm.domain.provider_errors import Rejected

ID = "8a6e0804-2bd0-4672-b79d-d97027f9071a"
SENDER = "Müller & Co <news@club.example>"
_BOUNDARY = re.compile(rb"={15}\d{19}==")
_SUBJECT = re.compile(rb"^Subject: .*\r\n([ \t].*\r\n)*", re.MULTILINE)


def by_the_package(*, recipient: str, text: str, html: str | None, ways_out: WaysOut) -> bytes:
    """Return the message without a subject as the email package makes it as a whole."""
    own = parseaddr(SENDER)[1]
    to = email._POLICY.fold_binary(
        *email._POLICY.header_store_parse("To", Address(addr_spec=mail_domain_in_ascii(recipient)))
    )
    message = EmailMessage(policy=email._POLICY)
    message["From"] = SENDER
    message["Message-ID"] = f"<{ID}@{own.rpartition('@')[2]}>"
    message["Auto-Submitted"] = "auto-generated"
    if ways_out.link is not None:
        message["List-Unsubscribe-Post"] = "List-Unsubscribe=One-Click"
    if addresses := [f"<{each}>" for each in ways_out if each is not None]:
        message["List-Unsubscribe"] = ", ".join(addresses)
    message.set_content(text)
    if html:
        message.add_alternative(html, subtype="html")
    return to + message.as_bytes()


def without_boundaries(message: bytes) -> bytes:
    return _BOUNDARY.sub(b"boundary", message)


def subject_of(message: bytes) -> str:
    """Return the subject, as any mail program reads it."""
    folded = message_from_bytes(message)["Subject"]
    parts = decode_header(folded.replace("\r\n", ""))
    return "".join(part if isinstance(part, str) else part.decode(charset or "ascii") for part, charset in parts)


def check(recipient: str, subject: str, text: str, html: str | None, ways_out: WaysOut) -> None:
    try:
        theirs = by_the_package(recipient=recipient, text=text, html=html, ways_out=ways_out)
    except (ValueError, IndexError, MessageError, RecursionError):
        theirs = None
    try:
        ours = email_message(
            sender=SENDER,
            recipient=recipient,
            subject=subject,
            text=text,
            html=html,
            notification_id=ID,
            ways_out=ways_out,
        )
    except Rejected:
        assert theirs is None or subject.splitlines() != [subject]
        return
    assert theirs is not None
    assert without_boundaries(_SUBJECT.sub(b"", ours, count=1)) == without_boundaries(theirs)
    assert subject_of(ours) == subject


# Texts of plain words are frequent, and so are lines at the limit of 78 and 998 characters, and the bytes of MIME.
WORDS = st.lists(st.sampled_from(["Goal", "we", "Müller", "日本", "=?utf-8?q?a?=", "x" * 77, "--", "", ".", "From "]))
TEXTS = (
    st.builds(" ".join, WORDS)
    | st.builds("\n".join, WORDS)
    | st.text(st.sampled_from("aä =?\r\n\t.-\x00"), max_size=200)
    | st.text(max_size=100)
    | st.integers(70, 1_000).map(lambda length: "a" * length)
)
ADDRESSES = st.emails() | st.from_regex(r"[a-z0-9._+=?!-]{1,40}@[a-z0-9.-]{1,60}", fullmatch=True)


WAYS_OUT = st.builds(
    WaysOut,
    st.none() | st.just("https://club.example/v1/unsubscribe/abc"),
    st.none() | st.just("mailto:unsubscribe@club.example?subject=unsubscribe%20abc"),
)


@given(ADDRESSES, TEXTS, TEXTS, st.none() | TEXTS, WAYS_OUT)
@example("ada@example.com", "Goal", "We lead.", None, NO_WAY_OUT)
@example("a@b.example", "x" * 69, "x" * 78, "x" * 79, NO_WAY_OUT)
@example("a" * 60 + "@b.example.com", "x" * 70, "", "", NO_WAY_OUT)
@example("a@b.example", "Tor für uns", "Hallo Müller", "<p>日本</p>", WaysOut("https://a.example/" + "l" * 300))
@example("a@b.example", "Tor", "Hallo", None, WaysOut(None, "mailto:a@b.example?subject=unsubscribe%20" + "l" * 300))
@example("a@b.example", " a  b ", "a\r\nb\rc\n.\n", "\n", NO_WAY_OUT)
def test_message_has_the_bytes_of_the_email_package(
    recipient: str, subject: str, text: str, html: str | None, ways_out: WaysOut
) -> None:
    check(recipient, subject, text, html, ways_out)


def test_content_with_an_earlier_boundary_has_another_one() -> None:
    """A tenant sees the boundary of a message, and could add a part to a later one."""

    def message(html: str) -> bytes:
        return email_message(
            sender=SENDER, recipient="a@b.example", subject="a", text="a", html=html, notification_id=ID
        )

    found = _BOUNDARY.search(message("<p>a</p>"))
    assert found is not None
    later = message(f"--{found[0].decode()}\n\nx")
    assert set(_BOUNDARY.findall(later)) - {found[0]}


@pytest.mark.parametrize(
    "subject",
    [
        # Of this subject the email package makes two encoded words without a space, and Yahoo refuses the message.
        "Re: [SOS-1495488] Commande et livraison - Demande de retour - bibijolie - 251210-AABBCC - Abo actualités"
        " digitales 20 semaines d\u2019abonnement à 24 heures, Bilan, Tribune de Genève et tous les titres Tamedia",
        "=?utf-8?q?We_won?=",
        "Grüße =?utf-8?q?x=0D=0ABcc:_eve@example.com?=",
        "x" * 200,
        "日本" * 100,
        "👩‍👩‍👧 " * 30 + ".",
        "We won against Riverside, and " * 20 + "lost.",
    ],
)
def test_encoded_words_of_a_subject_are_apart(subject: str) -> None:
    message = email_message(
        sender=SENDER, recipient="a@b.example", subject=subject, text="a", html=None, notification_id=ID
    )
    assert subject_of(message) == subject
    found = _SUBJECT.search(message)
    assert found is not None
    assert max(map(len, found[0].split(b"\r\n"))) <= 78
    words = found[0].decode().removeprefix("Subject:").split()
    assert all(re.fullmatch(r"=\?utf-8\?[bq]\?[!->@-~]*\?=", word) for word in words) or subject.isascii()


@pytest.mark.parametrize("subject", ["a\nBcc: b@c.example", "\ud800"])
def test_subject_that_is_not_a_header_is_rejected(subject: str) -> None:
    with pytest.raises(Rejected):
        email_message(sender=SENDER, recipient="a@b.example", subject=subject, text="a", html=None, notification_id=ID)
