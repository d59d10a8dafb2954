"""Event types in memory, for unit tests."""

from collections.abc import Iterable, Mapping, Sequence

from masscomm.domain.events import EventType
from masscomm.stores.in_memory import InMemoryStore


class InMemoryEventTypes(InMemoryStore):
    """A store of event types in a dictionary, for unit tests."""

    def __init__(self) -> None:
        super().__init__()
        self.stored: dict[str, EventType] = {}

    def put(self, event_type: EventType) -> bool:
        with self._lock:
            is_new = event_type.name not in self.stored
            self.stored[event_type.name] = event_type
            return is_new

    def find(self, names: Iterable[str]) -> Mapping[str, EventType]:
        return {name: self.stored[name] for name in names if name in self.stored}

    def every(self) -> Sequence[EventType]:
        return [self.stored[name] for name in sorted(self.stored)]

    def delete(self, name: str) -> bool:
        with self._lock:
            return self.stored.pop(name, None) is not None
