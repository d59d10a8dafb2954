"""The slots of requests in memory, for unit tests."""

from masscomm.stores.in_memory import InMemoryStore
from masscomm.stores.request_slots.port import Kind, Slot


class InMemoryRequestSlots(InMemoryStore):
    """A store of slots in a dictionary, for unit tests. Thread-safe."""

    def __init__(self) -> None:
        super().__init__()
        # The taken slots: id → (token, until_ms).
        self.taken: dict[str, tuple[str, int]] = {}

    def take(self, kind: Kind, caller: str, limit: int, *, now_ms: int, until_ms: int) -> Slot | None:
        with self._lock:
            for number in range(limit):
                slot = Slot(kind=kind, caller=caller, number=number, token=str(self.calls))
                _, free_at_ms = self.taken.get(slot.id, ("", 0))
                if free_at_ms <= now_ms:
                    self.taken[slot.id] = slot.token, until_ms
                    return slot
            return None

    def free(self, slot: Slot) -> None:
        with self._lock:
            if self.taken.get(slot.id, ("", 0))[0] == slot.token:
                del self.taken[slot.id]
