"""E-mail messages with the headers for unsubscribing with one click (RFC 2369, RFC 8058)."""

from email.errors import MessageError
from email.headerregistry import Address, HeaderRegistry, UnstructuredHeader
from email.message import EmailMessage
from email.policy import SMTP, Policy
from email.utils import parseaddr
from urllib.parse import urlencode

from masscomm.channels.provider import Rejected

# RFC 5321, 4.5.3.1: 64 octets, @ and 255 octets. Python's parser takes minutes for some longer addresses.
_MAX_ADDRESS_BYTES = 320


class _Whole(UnstructuredHeader):
    """A header whose parts are not folded: a folded long address is an encoded word, which no client uses as a link."""

    def fold(self, *, policy: Policy) -> str:
        value = str(self).replace(", ", f",{policy.linesep} ")
        return f"{self.name}: {value}{policy.linesep}"  # type: ignore[attr-defined]


_HEADERS = HeaderRegistry()
_HEADERS.map_to_type("list-unsubscribe", _Whole)  # type: ignore[arg-type]  # the stubs know no mixins
# Every relay accepts 7 bits.
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
        subject: The subject.
        text: The body.
        html: An alternative to the text.
        notification_id: Part of the message id and of the unsubscribe links.
        unsubscribe_url: The target of the one-click link; None: the message has only the mailto link.

    Raises:
        Rejected: The recipient is not an address, or the texts do not make a valid message.
    """
    own_address = parseaddr(sender)[1]
    ways = [f"<mailto:{own_address}?subject=unsubscribe%20{notification_id}>"]
    message = EmailMessage(policy=_POLICY)
    message["From"] = sender
    message["Message-ID"] = f"<{notification_id}@{own_address.rpartition('@')[2]}>"
    if unsubscribe_url:
        joined = "&" if "?" in unsubscribe_url else "?"
        ways.insert(0, f"<{unsubscribe_url}{joined}{urlencode({'notification': notification_id})}>")
        message["List-Unsubscribe-Post"] = "List-Unsubscribe=One-Click"
    message["List-Unsubscribe"] = ", ".join(ways)
    try:
        message["To"] = _address(recipient)
        message["Subject"] = subject
        message.set_content(text)
        if html:
            message.add_alternative(html, subtype="html")
        return message.as_bytes()
    # The email package raises each of these errors for invalid addresses.
    except (ValueError, IndexError, MessageError, RecursionError) as error:
        raise Rejected(f"no e-mail can be made of it: {error}") from error


def mail_domain_in_ascii(address: str) -> str:
    """Return the address with its domain in ASCII. Errors: ValueError (the domain is invalid, the address too long)."""
    if len(address.encode(errors="replace")) > _MAX_ADDRESS_BYTES:
        raise ValueError(f"the address is longer than {_MAX_ADDRESS_BYTES} bytes")
    name, at, domain = address.rpartition("@")
    return address if domain.isascii() else f"{name}{at}{domain.encode('idna').decode()}"


def _address(recipient: str) -> Address:
    return Address(addr_spec=mail_domain_in_ascii(recipient))
