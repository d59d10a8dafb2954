"""Builds e-mail messages with the headers for unsubscribing with one click (RFC 2369, RFC 8058)."""

from email.errors import MessageError
from email.headerregistry import Address, HeaderRegistry, UnstructuredHeader
from email.message import EmailMessage
from email.policy import SMTP, Policy
from email.utils import parseaddr
from functools import lru_cache
from urllib.parse import urlencode
from uuid import uuid4

from masscomm.channels.provider import Rejected

# The maximum length of an e-mail address: 64 octets, @ and 255 octets (RFC 5321, 4.5.3.1). Python's parser takes
# minutes for some longer addresses.
_MAX_ADDRESS_BYTES = 320


# A random id in place of the notification's id in a cached message.
_ID = str(uuid4())
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
    unsubscribe_url: str | None,
) -> bytes:
    """Return the message as bytes.

    Args:
        sender: An address, or a name and an address.
        recipient: An address.
        subject: The subject line.
        text: The body as plain text.
        html: The body as HTML, an alternative to the text.
        notification_id: The id of the notification, a UUID; the message id and the unsubscribe links contain it.
        unsubscribe_url: The target of the one-click link; None: the message has only the mailto link.

    Raises:
        Rejected: The recipient is not an address, or the texts do not make a valid message.
    """
    try:
        to = _POLICY.fold_binary(*_POLICY.header_store_parse("To", _address(recipient)))
        message = _message_without_recipient(sender, subject, text, html, unsubscribe_url)
    # Python's email package raises each of these errors for some invalid addresses.
    except (ValueError, IndexError, MessageError, RecursionError) as error:
        raise Rejected(f"the message is not a valid e-mail: {error}") from error
    return to + message.replace(_ID.encode(), notification_id.encode())


@lru_cache(maxsize=_CACHED_MESSAGES)
def _message_without_recipient(
    sender: str, subject: str, text: str, html: str | None, unsubscribe_url: str | None
) -> bytes:
    """Return the message without the header To, and with _ID as the notification's id.

    Raises:
        ValueError, MessageError: The texts do not make a valid message.
    """
    own_address = parseaddr(sender)[1]
    ways = [f"<mailto:{own_address}?subject=unsubscribe%20{_ID}>"]
    message = EmailMessage(policy=_POLICY)
    message["From"] = sender
    message["Message-ID"] = f"<{_ID}@{own_address.rpartition('@')[2]}>"
    if unsubscribe_url:
        joined = "&" if "?" in unsubscribe_url else "?"
        ways.insert(0, f"<{unsubscribe_url}{joined}{urlencode({'notification': _ID})}>")
        message["List-Unsubscribe-Post"] = "List-Unsubscribe=One-Click"
    message["List-Unsubscribe"] = ", ".join(ways)
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
