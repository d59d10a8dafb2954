"""The ways out of the e-mails of a category, a link and an e-mail to a mailbox, and the keys that sign both.

UNSUBSCRIBE_URL            the address of the route /v1/unsubscribe, as mail programs reach it
UNSUBSCRIBE_MAILBOX        an address whose e-mails SES passes to preferences_handler
UNSUBSCRIBE_KEYS           the keys (masscomm.domain.signing_keys), or
UNSUBSCRIBE_KEYS_SECRET_ARN    the ARN of a secret that has them
"""

import os
import re
from dataclasses import dataclass
from typing import NamedTuple, Self
from urllib.parse import urlsplit

from masscomm.channels.signing_keys import SigningKeys
from masscomm.clock import Clock
from masscomm.domain.time_limits import UNSUBSCRIBE_VALID_S
from masscomm.domain.unsubscribe_tokens import Subscription, sign, verify
from masscomm.errors import Stop

_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


# Addresses that need no encoding in a mailto address (RFC 6068).
_MAILBOX = re.compile(r"[A-Za-z0-9_.-]+@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+")
# The subject of an e-mail to the mailbox, whatever a mail program puts around it.
_SUBJECT = re.compile(r"\bunsubscribe\s+([A-Za-z0-9_-]+\.[A-Za-z0-9_-]+)", re.IGNORECASE)


class WaysOut(NamedTuple):
    """How the recipient of an e-mail unsubscribes; None: not in this way."""

    # The target of one click.
    link: str | None = None
    # The address (mailto:) and the subject of an e-mail.
    mailto: str | None = None


NO_WAY_OUT = WaysOut()


@dataclass(frozen=True, kw_only=True)
class UnsubscribeLinks:
    """Makes and reads the ways out."""

    url: str | None
    mailbox: str | None = None
    keys: SigningKeys
    clock: Clock

    def ways_out(self, subscription: Subscription) -> WaysOut:
        """Return the ways out of a subscription. Raises Retry or Stop if there are no keys."""
        expires_at_s = self.clock.now_ms() // 1000 + UNSUBSCRIBE_VALID_S
        token = sign(self.keys.now(), subscription, expires_at_s)
        return WaysOut(
            link=self.url and f"{self.url}/{token}",
            mailto=self.mailbox and f"mailto:{self.mailbox}?subject=unsubscribe%20{token}",
        )

    def subscription(self, token: str) -> Subscription | None:
        """Return the subscription in a token; None if it is invalid or has expired. Raises Retry or Stop if there are
        no keys.
        """
        return verify(self.keys.now(), token, self.clock.now_ms() // 1000)

    @classmethod
    def from_environment(cls, clock: Clock) -> Self | None:
        """Return the ways out; None if neither is set. Raises Stop if a setting is invalid."""
        url, mailbox = os.environ.get("UNSUBSCRIBE_URL"), os.environ.get("UNSUBSCRIBE_MAILBOX")
        if not url and not mailbox:
            return None
        return cls(
            url=checked_url(url) if url else None,
            mailbox=checked_mailbox(mailbox) if mailbox else None,
            keys=SigningKeys.from_environment("UNSUBSCRIBE_KEYS", clock),
            clock=clock,
        )


def is_offered() -> bool:
    """Return whether the installation offers a way out of the e-mails of a category."""
    return bool(os.environ.get("UNSUBSCRIBE_URL") or os.environ.get("UNSUBSCRIBE_MAILBOX"))


def token_in_subject(subject: str) -> str | None:
    """Return the token in the subject of an e-mail to the mailbox; None if it has none."""
    found = _SUBJECT.search(subject)
    return found[1] if found else None


def checked_mailbox(address: str) -> str:
    """Return the address of a mailbox. Raises Stop if a mailto address would have to encode it."""
    if not _MAILBOX.fullmatch(address):
        raise Stop("UNSUBSCRIBE_MAILBOX must be an address of letters, digits, '.', '_' and '-'")
    return address


def checked_url(url: str) -> str:
    """Return an address without its last slash. Raises Stop unless it has https, or is on this machine."""
    parts = urlsplit(url)
    is_local = parts.scheme == "http" and parts.hostname in _LOOPBACK
    if not (parts.scheme == "https" and parts.hostname) and not is_local:  # guard: unsubscribe.https
        raise Stop("UNSUBSCRIBE_URL must begin with https://")
    if parts.query or parts.fragment or not url.isascii() or not url.isprintable() or " " in url:
        raise Stop("UNSUBSCRIBE_URL must be an address without a query")
    return url.rstrip("/")
