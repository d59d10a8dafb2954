"""The counts of e-mails in memory, for unit tests."""

from collections.abc import Iterable

from masscomm.domain.email_pauses import EmailCounts
from masscomm.stores.in_memory import InMemoryStore


class InMemoryEmailCounter(InMemoryStore):
    """A store in a dictionary, for unit tests. Thread-safe."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: dict[tuple[int, int], EmailCounts] = {}
        self._counted: set[str] = set()

    def add(self, club_id: int, hour: int, counts: EmailCounts, *, once: str) -> None:
        with self._lock:
            if once not in self._counted:
                self._counted.add(once)
                key = club_id, hour
                self.counts[key] = self.counts.get(key, EmailCounts()).plus(counts)

    def total(self, club_id: int, hours: Iterable[int]) -> EmailCounts:
        found = EmailCounts()
        for hour in hours:
            found = found.plus(self.counts.get((club_id, hour), EmailCounts()))
        return found
