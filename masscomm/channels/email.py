"""Builds e-mail messages with the headers for unsubscribing (RFC 2369), with one click (RFC 8058), too."""

import re
from email.contentmanager import _encode_text  # type: ignore[attr-defined]  # tests compare with its public callers
from email.errors import MessageError
from email.header import Header
from email.headerregistry import Address, HeaderRegistry, UnstructuredHeader
from email.message import EmailMessage, MIMEPart
from email.policy import SMTP, Policy
from email.utils import parseaddr
from functools import lru_cache
from secrets import randbelow
from textwrap import wrap
from uuid import uuid4

from masscomm.channels.unsubscribe_links import NO_WAY_OUT, WaysOut
from masscomm.domain.addresses import with_ascii_domain
from masscomm.domain.limits import MAX_ADDRESS_BYTES
from masscomm.domain.provider_errors import InvalidAddress, Rejected

# A random id in place of the notification's id in a cached message.
_ID = str(uuid4())
# Addresses in place of the recipient's ways to unsubscribe.
_IN_PLACE = WaysOut(link=f"https://{uuid4()}", mailto=f"mailto:{uuid4()}")
# Texts in place of the content of a frame.
_SUBJECT, _TEXT, _HTML = (uuid4().hex for _ in range(3))
# The number of cached messages, and of cached frames. Many recipients have the same texts, and Python's email package
# takes most of the processor time of an e-mail.
_CACHED_MESSAGES = 32
_LINE = 78
_SUBJECT_NAME = "Subject: "
# Subjects that need no encoding: words of ASCII that fit into a line (RFC 5322, 2.1.1), without the beginning of an
# encoded word.
_WORD = f"[!-~]{{1,{_LINE - len(_SUBJECT_NAME)}}}"
_PLAIN_SUBJECT = re.compile(rf"(?!.*=\?){_WORD}( {_WORD})*")
# Addresses that the email package neither encodes nor folds (RFC 5322, 3.4.1).
_PLAIN_ADDRESS = re.compile(r"[A-Za-z0-9_+-]+(\.[A-Za-z0-9_+-]+)*@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+")

# The errors that Python's email package raises for addresses and texts that are not valid.
_INVALID = (ValueError, IndexError, AttributeError, MessageError, RecursionError)


class _Whole(UnstructuredHeader):
    """A header that is not folded. A long address in a folded header becomes an encoded word, which no mail client
    uses as a link.
    """

    def fold(self, *, policy: Policy) -> str:
        value = str(self).replace(", ", f",{policy.linesep} ")
        return f"{self.name}: {value}{policy.linesep}"  # type: ignore[attr-defined]


_HEADERS = HeaderRegistry()
_HEADERS.map_to_type("list-unsubscribe", _Whole)  # type: ignore[arg-type]  # the stubs know no mixins
# Every mail relay accepts 7-bit content.
_POLICY = SMTP.clone(header_factory=_HEADERS, cte_type="7bit")


def email_message(
    *,
    sender: str,
    recipient: str,
    subject: str,
    text: str,
    html: str | None,
    notification_id: str,
    reply_to: str = "",
    ways_out: WaysOut = NO_WAY_OUT,
) -> bytes:
    """Return the message as bytes.

    Args:
        sender: An address, or a name and an address.
        recipient: An address.
        subject: The subject line.
        text: The body as plain text.
        html: The body as HTML, an alternative to the text.
        notification_id: The id of the notification, a UUID; the message id contains it.
        reply_to: The address for answers, or a name and an address; without it, answers go to the sender.
        ways_out: The ways to unsubscribe; without any, the message has no header for it.

    Raises:
        InvalidAddress: The recipient is not an address.
        Rejected: The texts do not make a valid message.
    """
    try:
        to = _to_line(recipient)
    except _INVALID as error:
        raise InvalidAddress from error
    offered = WaysOut(*(each and in_place for each, in_place in zip(ways_out, _IN_PLACE, strict=True)))
    try:
        message = _message_without_recipient(sender, reply_to, subject, text, html, offered)
    except _INVALID as error:
        raise Rejected(f"the message is not a valid e-mail: {error}") from error
    for own, in_place in zip(ways_out, _IN_PLACE, strict=True):
        if own and in_place:
            message = message.replace(in_place.encode(), own.encode())
    return to + message.replace(_ID.encode(), notification_id.encode())


@lru_cache(maxsize=_CACHED_MESSAGES)
def _message_without_recipient(
    sender: str, reply_to: str, subject: str, text: str, html: str | None, ways_out: WaysOut
) -> bytes:
    """Return the message without the header To, with _ID as the notification's id and the addresses of _IN_PLACE as the
    recipient's ways to unsubscribe.

    The email package makes the frame of a message once; building each personal message takes it ten times as long.

    Raises:
        ValueError, MessageError: The texts do not make a valid message.
    """
    bodies = [_encode_text(each, "utf-8", None, _POLICY) for each in ((text, html) if html else (text,))]
    frame = _frame(sender, reply_to, ways_out, tuple(encoding for encoding, _ in bodies))
    # A boundary is used for one content, so that no later content can contain it.
    boundary = _new_boundary().encode()
    before, *parts = (part.replace(_BOUNDARY.encode(), boundary) for part in frame)
    filled = [part + _in_lines(body) for part, (_, body) in zip(parts, bodies, strict=False)]
    return b"".join((before, _subject_line(subject), *filled, parts[-1]))


@lru_cache(maxsize=_CACHED_MESSAGES)
def _frame(sender: str, reply_to: str, ways_out: WaysOut, encodings: tuple[str, ...]) -> tuple[bytes, ...]:
    """Return the parts of a message around its subject line and its bodies, as the email package makes them.

    Args:
        encodings: The transfer encoding of the text, and of the HTML if there is one.

    Raises:
        ValueError, MessageError: The sender is invalid.
    """
    own_address = parseaddr(sender)[1]
    message = EmailMessage(policy=_POLICY)
    message["From"] = sender
    if reply_to:
        message["Reply-To"] = reply_to
    message["Message-ID"] = f"<{_ID}@{own_address.rpartition('@')[2]}>"
    # Mail programs send no automatic reply, such as that of an absent recipient, to such a message (RFC 3834, 2).
    message["Auto-Submitted"] = "auto-generated"
    if ways_out.link:
        message["List-Unsubscribe-Post"] = "List-Unsubscribe=One-Click"
    if any(ways_out):
        message["List-Unsubscribe"] = ", ".join(f"<{each}>" for each in ways_out if each)
    message["Subject"] = _SUBJECT
    message.set_content(_TEXT, cte=encodings[0])
    bodies: list[MIMEPart] = [message]
    if len(encodings) > 1:
        message.add_alternative(_HTML, subtype="html", cte=encodings[1])
        message.set_boundary(_BOUNDARY)
        bodies = list(message.iter_parts())
    rest, parts = message.as_bytes(), []
    for content in (_subject_line(_SUBJECT), *(_in_lines(str(body.get_payload())) for body in bodies)):
        part, _, rest = rest.partition(content)
        parts.append(part)
    return (*parts, rest)


def _new_boundary() -> str:
    """Return a boundary of the form that the email package chooses."""
    return f"==============={randbelow(10**19):019d}=="


_BOUNDARY = _new_boundary()


def _subject_line(subject: str) -> bytes:
    """Return the header Subject. Raises ValueError or MessageError if the subject is not a single line.

    It is encoded as a whole: Python's email package encodes single words, and joins two encoded words without the space
    that RFC 2047 (section 5) requires. Yahoo refuses such a message (python/cpython#144156).
    """
    if subject.splitlines() not in ([], [subject]):
        raise ValueError("a subject is a single line")
    if not _PLAIN_SUBJECT.fullmatch(subject):
        encoded = Header(subject, "utf-8", header_name="Subject").encode(linesep="\r\n")
        return f"{_SUBJECT_NAME}{encoded}\r\n".encode()
    line = f"{_SUBJECT_NAME}{subject}"
    if len(line) <= _LINE:
        return f"{line}\r\n".encode()
    lines = wrap(line, _LINE, subsequent_indent=" ", break_long_words=False, break_on_hyphens=False)
    return "".join(f"{each}\r\n" for each in lines).encode()


def _to_line(recipient: str) -> bytes:
    address = mail_domain_in_ascii(recipient)
    if _PLAIN_ADDRESS.fullmatch(address) and len(address) <= _LINE - len("To: "):
        return f"To: {address}\r\n".encode()
    # The email package encodes and folds other addresses.
    return _POLICY.fold_binary(*_POLICY.header_store_parse("To", Address(addr_spec=address)))


def _in_lines(body: str) -> bytes:
    """Return an encoded body with the line ends of an e-mail."""
    return body.replace("\n", "\r\n").encode()


def mail_domain_in_ascii(address: str) -> str:
    """Return the trimmed address with its domain in ASCII (IDNA). Raises ValueError if the domain is invalid or the
    address too long.
    """
    # Python's parser takes minutes for some longer addresses.
    if len(address.encode(errors="replace")) > MAX_ADDRESS_BYTES:
        raise ValueError(f"the address is longer than {MAX_ADDRESS_BYTES} bytes")
    return with_ascii_domain(address)
