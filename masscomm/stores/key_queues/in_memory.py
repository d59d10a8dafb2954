"""The queues of keys in memory, for unit tests."""

from collections.abc import Mapping

from masscomm.stores.in_memory import InMemoryStore
from masscomm.stores.key_queues.port import KeyQueue, Ordering


class InMemoryKeyQueues(InMemoryStore):
    """A store in a dictionary, for unit tests."""

    def __init__(self) -> None:
        super().__init__()
        # Each queue, and the time at which it was stored in seconds since the epoch.
        self.stored: dict[tuple[Ordering, str], tuple[KeyQueue, int]] = {}

    def find(self, ordering: Ordering) -> Mapping[str, KeyQueue]:
        return {key: queue for (of, key), (queue, _) in self.stored.items() if of == ordering}

    def replace(self, ordering: Ordering, key: str, old: KeyQueue | None, new: KeyQueue | None, at_s: int) -> bool:
        stored = self.stored.get((ordering, key))
        if (None if stored is None else stored[0]) not in (old, new):
            return False
        if new is None:
            self.stored.pop((ordering, key), None)
        else:
            self.stored[ordering, key] = new, at_s
        return True
