"""Reads signing keys (masscomm.domain.signing_keys) from an environment variable, or from a secret that it names."""

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import Self

from masscomm.aws.secrets import secret_setting
from masscomm.clock import Clock
from masscomm.domain.signing_keys import KeySet
from masscomm.domain.time_limits import SIGNING_KEYS_CACHED_S
from masscomm.errors import Retry, Stop
from masscomm.observability import logs

logger = logs.logger("signing_keys")


@dataclass(kw_only=True)
class SigningKeys:
    """The keys, which are read again after a while, so that a new key needs no new deployment. Thread-safe.

    Args:
        read: Returns the keys as text. Raises Retry or Stop.
        clock: The clock that measures the age of the keys.
    """

    read: Callable[[], str]
    clock: Clock
    _known: KeySet | None = field(default=None, init=False)
    _until: float = field(default=0.0, init=False)
    _lock: Lock = field(default_factory=Lock, init=False)

    @classmethod
    def from_environment(cls, setting: str, clock: Clock) -> Self:
        """Return the keys of an environment variable, or of the secret that `<setting>_SECRET_ARN` names. Raises Stop
        if both are missing.
        """
        return cls(read=secret_setting(setting), clock=clock)

    def now(self) -> KeySet:
        """Return the keys. Raises Retry or Stop if they were never read and cannot be read now."""
        with self._lock:
            if self._known is None or self.clock.monotonic() >= self._until:
                try:
                    self._known = KeySet.read(self.read())
                except (Retry, Stop) as error:
                    if self._known is None:
                        raise
                    logger.warning("the earlier signing keys stay in use", error=str(error))
                self._until = self.clock.monotonic() + SIGNING_KEYS_CACHED_S
            return self._known
