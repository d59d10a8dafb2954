"""The interface of the counts of e-mails by club and hour."""

from collections.abc import Iterable
from typing import Protocol

from masscomm.domain.email_pauses import EmailCounts


class EmailCounter(Protocol):
    """Methods raise Retry (down, slow) or Stop (no table, no permission)."""

    def add(self, club_id: int, hour: int, counts: EmailCounts, *, once: str) -> None:
        """Add to the counts of an hour (since the epoch), once for each id: a redelivered record counts once."""
        ...

    def total(self, club_id: int, hours: Iterable[int]) -> EmailCounts:
        """Return the sum of the counts of these hours."""
        ...
