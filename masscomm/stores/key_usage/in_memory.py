"""The use of API keys in memory, for unit tests; masscomm.http.rate_limits has the interface."""

from masscomm.domain.key_limits import Use, Window
from masscomm.stores.in_memory import InMemoryStore


class InMemoryKeyUsage(InMemoryStore):
    """A store in a dictionary, for unit tests. Thread-safe."""

    def __init__(self) -> None:
        super().__init__()
        self.used: dict[str, int] = {}
        self.counted: set[str] = set()

    def take(self, window: Window, amount: int, *, send_id: str | None = None) -> Use:
        with self._lock:
            used = self.used.get(window.id, 0)
            use = None if send_id is None else window.use_id(amount, send_id)
            if use in self.counted:
                return Use(counted=True, used=used)
            if used + amount > window.maximum:
                return Use(counted=False, used=used)
            self.used[window.id] = used + amount
            if use is not None:
                self.counted.add(use)
            return Use(counted=True, used=used + amount)

    def give_back(self, window: Window, amount: int) -> None:
        with self._lock:
            if self.used.get(window.id, 0) >= amount:
                self.used[window.id] -= amount
