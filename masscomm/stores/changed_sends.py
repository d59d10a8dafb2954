"""The sends whose controls or expansions change, for the function that finds the events of webhooks, and that
function's position in the metrics database.

A function that is about to change a send records it first. After a crash in between, the sends are examined in vain,
whereas a change that is not recorded would cause no event.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from threading import Lock
from typing import NamedTuple, Protocol

from masscomm.domain.send_controls import SendKey


@dataclass(frozen=True, kw_only=True)
class ChangedSend:
    send: SendKey
    # The time of the last record of a change, in milliseconds since the epoch.
    changed_at_ms: int


class Position(NamedTuple):
    """A position among the changes of counts: the transaction in Postgres and the send of the last examined one."""

    transaction: int
    send_id: str


class ChangedSends(Protocol):
    """Methods raise Retry (down, slow) or Stop (no table, no permission)."""

    def put(self, changed: ChangedSend) -> None:
        """Record that a send is about to change."""
        ...

    def all(self) -> Iterator[ChangedSend]:
        """Yield the recorded sends."""
        ...

    def remove(self, changed: ChangedSend) -> None:
        """Remove a send, unless it was recorded again."""
        ...

    def position(self) -> Position | None:
        """Return the position up to which the changes of counts are examined; None before the first one."""
        ...

    def move(self, position: Position) -> None:
        """Store the position."""
        ...


class InMemoryChangedSends:
    """A store in a dictionary, for unit tests."""

    def __init__(self) -> None:
        self.stored: dict[SendKey, int] = {}
        self._position: Position | None = None
        self._lock = Lock()

    def put(self, changed: ChangedSend) -> None:
        with self._lock:
            self.stored[changed.send] = changed.changed_at_ms

    def all(self) -> Iterator[ChangedSend]:
        with self._lock:
            found = sorted(self.stored.items())
        yield from (ChangedSend(send=send, changed_at_ms=at_ms) for send, at_ms in found)

    def remove(self, changed: ChangedSend) -> None:
        with self._lock:
            if self.stored.get(changed.send) == changed.changed_at_ms:
                del self.stored[changed.send]

    def position(self) -> Position | None:
        return self._position

    def move(self, position: Position) -> None:
        self._position = position
