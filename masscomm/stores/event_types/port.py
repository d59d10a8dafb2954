"""The interface of the store of event types."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from masscomm.domain.events import EventType


class EventTypes(Protocol):
    """Methods raise Retry (down, slow) or Stop (no table, no permission)."""

    def put(self, event_type: EventType) -> bool:
        """Store an event type, in the place of an earlier one with its name. Return whether it is new."""
        ...

    def find(self, names: Iterable[str]) -> Mapping[str, EventType]:
        """Return the event types that exist, by their names."""
        ...

    def every(self) -> Sequence[EventType]:
        """Return all event types, in the order of their names."""
        ...

    def delete(self, name: str) -> bool:
        """Delete an event type. Return False if there was none."""
        ...
