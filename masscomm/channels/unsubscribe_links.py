"""The unsubscribe links of e-mails, and the keys that sign them.

UNSUBSCRIBE_URL            the address of the route /v1/unsubscribe, as mail programs reach it
UNSUBSCRIBE_KEYS           the keys (masscomm.domain.unsubscribe_tokens), or
UNSUBSCRIBE_KEYS_SECRET_ARN    the ARN of a secret that has them
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import Self
from urllib.parse import urlsplit

from masscomm import environment
from masscomm.aws.secrets import read_secret
from masscomm.clock import Clock
from masscomm.domain.time_limits import UNSUBSCRIBE_KEYS_CACHED_S, UNSUBSCRIBE_VALID_S
from masscomm.domain.unsubscribe_tokens import Subscription, UnsubscribeKeys, sign, verify
from masscomm.errors import Retry, Stop
from masscomm.observability import logs

logger = logs.logger("unsubscribe_links")

_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


@dataclass(kw_only=True)
class SigningKeys:
    """The keys, which are read again after a while, so that a new key needs no new deployment. Thread-safe.

    Args:
        read: Returns the keys as text. Raises Retry or Stop.
        clock: The clock that measures the age of the keys.
    """

    read: Callable[[], str]
    clock: Clock
    _known: UnsubscribeKeys | None = field(default=None, init=False)
    _until: float = field(default=0.0, init=False)
    _lock: Lock = field(default_factory=Lock, init=False)

    @classmethod
    def from_environment(cls, clock: Clock) -> Self:
        """Return the keys of UNSUBSCRIBE_KEYS, or of the secret UNSUBSCRIBE_KEYS_SECRET_ARN. Raises Stop if both are
        missing.
        """
        if text := os.environ.get("UNSUBSCRIBE_KEYS"):
            return cls(read=lambda: text, clock=clock)
        arn = environment.required("UNSUBSCRIBE_KEYS_SECRET_ARN")
        return cls(read=lambda: read_secret(arn), clock=clock)

    def now(self) -> UnsubscribeKeys:
        """Return the keys. Raises Retry or Stop if they were never read and cannot be read now."""
        with self._lock:
            if self._known is None or self.clock.monotonic() >= self._until:
                try:
                    self._known = UnsubscribeKeys.read(self.read())
                except (Retry, Stop) as error:
                    if self._known is None:
                        raise
                    logger.warning("the earlier keys of unsubscribe links stay in use", error=str(error))
                self._until = self.clock.monotonic() + UNSUBSCRIBE_KEYS_CACHED_S
            return self._known


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
        return cls(url=checked_url(url), keys=SigningKeys.from_environment(clock), clock=clock)


def checked_url(url: str) -> str:
    """Return an address without its last slash. Raises Stop unless it has https, or is on this machine."""
    parts = urlsplit(url)
    is_local = parts.scheme == "http" and parts.hostname in _LOOPBACK
    if not (parts.scheme == "https" and parts.hostname) and not is_local:  # guard: unsubscribe.https
        raise Stop("UNSUBSCRIBE_URL must begin with https://")
    if parts.query or parts.fragment or not url.isascii() or not url.isprintable() or " " in url:
        raise Stop("UNSUBSCRIBE_URL must be an address without a query")
    return url.rstrip("/")
