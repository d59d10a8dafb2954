"""The unsubscribe links of e-mails, and the keys that sign them.

UNSUBSCRIBE_URL            the address of the route /v1/unsubscribe, as mail programs reach it
UNSUBSCRIBE_KEYS           the keys (masscomm.domain.signing_keys), or
UNSUBSCRIBE_KEYS_SECRET_ARN    the ARN of a secret that has them
"""

import os
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

from masscomm.channels.signing_keys import SigningKeys
from masscomm.clock import Clock
from masscomm.domain.time_limits import UNSUBSCRIBE_VALID_S
from masscomm.domain.unsubscribe_tokens import Subscription, sign, verify
from masscomm.errors import Stop

_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


@dataclass(frozen=True, kw_only=True)
class UnsubscribeLinks:
    """Makes and reads links."""

    url: str
    keys: SigningKeys
    clock: Clock

    def link(self, subscription: Subscription) -> str:
        """Return the link for a subscription. Raises Retry or Stop if there are no keys."""
        expires_at_s = self.clock.now_ms() // 1000 + UNSUBSCRIBE_VALID_S
        return f"{self.url}/{sign(self.keys.now(), subscription, expires_at_s)}"

    def subscription(self, token: str) -> Subscription | None:
        """Return the subscription in a token; None if it is invalid or has expired. Raises Retry or Stop if there are
        no keys.
        """
        return verify(self.keys.now(), token, self.clock.now_ms() // 1000)

    @classmethod
    def from_environment(cls, clock: Clock) -> Self | None:
        """Return the links; None if UNSUBSCRIBE_URL is not set. Raises Stop if a setting is invalid."""
        url = os.environ.get("UNSUBSCRIBE_URL")
        if not url:
            return None
        return cls(url=checked_url(url), keys=SigningKeys.from_environment("UNSUBSCRIBE_KEYS", clock), clock=clock)


def checked_url(url: str) -> str:
    """Return an address without its last slash. Raises Stop unless it has https, or is on this machine."""
    parts = urlsplit(url)
    is_local = parts.scheme == "http" and parts.hostname in _LOOPBACK
    if not (parts.scheme == "https" and parts.hostname) and not is_local:  # guard: unsubscribe.https
        raise Stop("UNSUBSCRIBE_URL must begin with https://")
    if parts.query or parts.fragment or not url.isascii() or not url.isprintable() or " " in url:
        raise Stop("UNSUBSCRIBE_URL must be an address without a query")
    return url.rstrip("/")
