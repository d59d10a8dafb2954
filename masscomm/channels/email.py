"""E-mail messages with the headers by which a person leaves with one click (RFC 2369, RFC 8058)."""

from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from urllib.parse import urlencode

from masscomm.channels.provider import Rejected


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
    """The message as bytes; html: an alternative to the text.

    unsubscribe_url: where one click ends up; without one the mailto form alone is offered.
    Errors: Rejected where the recipient is no address.
    """
    message = EmailMessage(policy=SMTP)
    try:
        Address(addr_spec=recipient)
        message["To"] = recipient
        message["Subject"] = subject
    except (ValueError, IndexError) as error:
        raise Rejected(f"no e-mail can be addressed so: {error}") from error
    message["From"] = sender
    message["Message-ID"] = f"<{notification_id}@{sender.rpartition('@')[2]}>"
    ways = [f"<mailto:{sender}?subject=unsubscribe%20{notification_id}>"]
    if unsubscribe_url is not None:
        ways.insert(0, f"<{unsubscribe_url}?{urlencode({'notification': notification_id})}>")
        message["List-Unsubscribe-Post"] = "List-Unsubscribe=One-Click"
    message["List-Unsubscribe"] = ", ".join(ways)
    message.set_content(text)
    if html:
        message.add_alternative(html, subtype="html")
    return message.as_bytes()
