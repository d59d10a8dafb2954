"""Changed categories in memory, for unit tests."""

from collections.abc import Sequence

from masscomm.domain.categories import CategoryVersion, Versions
from masscomm.domain.category_versions import read_stored, stored
from masscomm.stores.categories.port import ChangedMeanwhile
from masscomm.stores.in_memory import InMemoryStore


class InMemoryCategories(InMemoryStore):
    """A store of categories in a dictionary, for unit tests."""

    def __init__(self) -> None:
        super().__init__()
        self._revision = 0
        self._stored: dict[str, str] = {}

    def revision(self) -> int:
        return self._revision

    def every(self) -> Versions:
        return {name: read_stored(text, name) for name, text in self._stored.items()}

    def put(self, name: str, versions: Sequence[CategoryVersion], *, revision: int) -> None:
        with self._lock:
            if revision != self._revision:
                raise ChangedMeanwhile
            self._stored[name] = stored(versions)
            self._revision += 1
