"""Places of frequency caps in a dictionary, for unit tests. Thread-safe."""

from collections.abc import Iterable, Mapping, Sequence

from masscomm.stores.frequency_caps.port import Change, PlacesKey, StoredPlaces
from masscomm.stores.in_memory import InMemoryStore


class InMemoryFrequencyCaps(InMemoryStore):
    """The store in a dictionary."""

    def __init__(self) -> None:
        super().__init__()
        # The places, and the time in seconds at which they expire.
        self.stored: dict[PlacesKey, tuple[StoredPlaces, int]] = {}

    def read(self, keys: Iterable[PlacesKey]) -> Mapping[PlacesKey, StoredPlaces]:
        with self._lock:
            return {key: self.stored[key][0] for key in keys if key in self.stored}

    def write(self, changes: Sequence[Sequence[Change]], now_ms: int) -> list[bool]:
        return [self._write(each, now_ms // 1000) for each in changes]

    def _write(self, changes: Sequence[Change], now_s: int) -> bool:
        with self._lock:
            for change in changes:
                stored, _ = self.stored.get(change.key, (StoredPlaces(), 0))
                if stored.revision != change.before.revision:
                    return False
            for change in changes:
                after = StoredPlaces(dict(change.taken), change.before.revision + 1)
                self.stored[change.key] = after, now_s + change.kept_s
            return True
