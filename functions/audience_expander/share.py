"""The share of an invocation that one record uses, before the records of other tenants in its partition have theirs."""

from collections.abc import Callable
from dataclasses import dataclass

from masscomm.domain.time_limits import EXPANSION_SHARE_S

# The chunks of a share: reading and recording 5,000 users takes some 0.1 s, producing them less.
CHUNKS = 100


@dataclass
class Share:
    """The time and the chunks, recorded or produced, that remain of a record's share.

    Args:
        remaining_s: Returns the remaining time of the invocation.
        chunks: The chunks of the share.
    """

    remaining_s: Callable[[], float]
    chunks: int

    def __post_init__(self) -> None:
        self._until_s = self.remaining_s() - EXPANSION_SHARE_S

    @property
    def is_late(self) -> bool:
        """Return whether the time of the share has passed."""
        return self.remaining_s() < self._until_s  # guard: audiences.time_of_a_share

    @property
    def is_used(self) -> bool:
        """Return whether the record must hand the rest on."""
        return self.chunks <= 0 or self.is_late
