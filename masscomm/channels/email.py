"""Builds e-mail messages with the headers for unsubscribing with one click (RFC 2369, RFC 8058)."""

from email.errors import MessageError
from email.headerregistry import Address, HeaderRegistry, UnstructuredHeader
from email.message import EmailMessage
from email.policy import SMTP, Policy
from email.utils import parseaddr
from functools import lru_cache
from uuid import uuid4

from masscomm.channels.provider import Rejected

# The maximum length of an e-mail address: 64 octets, @ and 255 octets (RFC 5321, 4.5.3.1). Python's parser takes
# minutes for some longer addresses.
_MAX_ADDRESS_BYTES = 320


# A random id in place of the notification's id in a cached message.
_ID = str(uuid4())
# An address in place of the recipient's unsubscribe link.
_LINK = f"https://{uuid4()}"
# The ways to unsubscribe that a message has: none, an e-mail to the sender, or a link in addition.
_NONE, _BY_MAIL, _ONE_CLICK = range(3)
# The number of cached messages. Many recipients have the same texts, and Python's email package takes most of the
# processor time of an e-mail.
_CACHED_MESSAGES = 32


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
    mandatory: bool = False,
    unsubscribe_link: str | None = None,
) -> bytes:
    """Return the message as bytes.

    Args:
        sender: An address, or a name and an address.
        recipient: An address.
        subject: The subject line.
        text: The body as plain text.
        html: The body as HTML, an alternative to the text.
        notification_id: The id of the notification, a UUID; the message id and the mailto link contain it.
        mandatory: Whether the recipient cannot unsubscribe, so that the message has no header for it.
        unsubscribe_link: The target of the one-click link; None: the message has only the mailto link.

    Raises:
        Rejected: The recipient is not an address, or the texts do not make a valid message.
    """
    try:
        to = _POLICY.fold_binary(*_POLICY.header_store_parse("To", _address(recipient)))
        ways = _NONE if mandatory else _ONE_CLICK if unsubscribe_link else _BY_MAIL
        message = _message_without_recipient(sender, subject, text, html, ways)
    # Python's email package raises each of these errors for some invalid addresses.
    except (ValueError, IndexError, MessageError, RecursionError) as error:
        raise Rejected(f"the message is not a valid e-mail: {error}") from error
    if unsubscribe_link:
        message = message.replace(_LINK.encode(), unsubscribe_link.encode())
    return to + message.replace(_ID.encode(), notification_id.encode())


@lru_cache(maxsize=_CACHED_MESSAGES)
def _message_without_recipient(sender: str, subject: str, text: str, html: str | None, ways: int) -> bytes:
    """Return the message without the header To, with _ID as the notification's id and _LINK as the recipient's link.
    `ways` is _NONE, _BY_MAIL or _ONE_CLICK.

    Raises:
        ValueError, MessageError: The texts do not make a valid message.
    """
    own_address = parseaddr(sender)[1]
    message = EmailMessage(policy=_POLICY)
    message["From"] = sender
    message["Message-ID"] = f"<{_ID}@{own_address.rpartition('@')[2]}>"
    mailto = f"<mailto:{own_address}?subject=unsubscribe%20{_ID}>"
    if ways == _ONE_CLICK:
        message["List-Unsubscribe-Post"] = "List-Unsubscribe=One-Click"
        message["List-Unsubscribe"] = f"<{_LINK}>, {mailto}"
    elif ways == _BY_MAIL:
        message["List-Unsubscribe"] = mailto
    message["Subject"] = subject
    message.set_content(text)
    if html:
        message.add_alternative(html, subtype="html")
    return message.as_bytes()


def mail_domain_in_ascii(address: str) -> str:
    """Return the address with its domain in ASCII (IDNA). Raises ValueError if the domain is invalid or the address
    too long.
    """
    if len(address.encode(errors="replace")) > _MAX_ADDRESS_BYTES:
        raise ValueError(f"the address is longer than {_MAX_ADDRESS_BYTES} bytes")
    name, at, domain = address.rpartition("@")
    return address if domain.isascii() else f"{name}{at}{domain.encode('idna').decode()}"


def _address(recipient: str) -> Address:
    return Address(addr_spec=mail_domain_in_ascii(recipient))
