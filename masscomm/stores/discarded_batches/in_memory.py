"""The discarded batches in memory, for unit tests."""

from collections.abc import Iterator

from masscomm.stores.in_memory import InMemoryStore


class InMemoryDiscardedBatches(InMemoryStore):
    """A store in a dictionary, for unit tests."""

    name = "memory"

    def __init__(self) -> None:
        super().__init__()
        self.stored: dict[str, bytes] = {}

    def keys(self) -> Iterator[str]:
        yield from sorted(self.stored)

    def read(self, key: str) -> bytes | None:
        return self.stored.get(key)

    def remove(self, key: str) -> None:
        self.stored.pop(key, None)
