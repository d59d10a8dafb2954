"""Computes when records in the delay store are due for their next attempt."""

from dataclasses import dataclass

from masscomm import environment
from masscomm.domain.time_limits import RETRY_FIRST_S, RETRY_LAST_S, RETRY_LIFETIME_S
from masscomm.stores.delayed_records import jittered

_MOST_DOUBLINGS = 30


@dataclass(frozen=True, kw_only=True)
class RetrySchedule:
    """A schedule whose delays double from first_ms to last_ms.

    Attributes:
        lifetime_ms: How long a record without expires_at is retried. The scheduler runs once a minute, so that a
            shorter delay ends with its next run.
    """

    first_ms: int = RETRY_FIRST_S * 1000
    last_ms: int = RETRY_LAST_S * 1000
    lifetime_ms: int = RETRY_LIFETIME_S * 1000

    @classmethod
    def from_environment(cls) -> "RetrySchedule":
        """Return the schedule of BACK_OFF_FIRST_S, BACK_OFF_LAST_S and BACK_OFF_LIFETIME_S. Raises Stop if one is
        not a number.
        """
        usual = cls()
        return cls(
            first_ms=_milliseconds("BACK_OFF_FIRST_S", usual.first_ms),
            last_ms=_milliseconds("BACK_OFF_LAST_S", usual.last_ms),
            lifetime_ms=_milliseconds("BACK_OFF_LIFETIME_S", usual.lifetime_ms),
        )

    def deadline_ms(self, *, since_ms: int, expires_at: int | None) -> int:
        """Return the time at which retries end: expires_at, or the lifetime after the first attempt."""
        return since_ms + self.lifetime_ms if expires_at is None else expires_at

    def due_ms(self, *, now_ms: int, attempt: int, item_id: str, deadline_ms: int, bounded: bool = True) -> int:
        """Return the time at which the delay of an attempt (1, 2, …) ends: in the second half of the delay, at a
        point derived from the id.

        Args:
            bounded: Whether no delay may be longer than last_ms.
        """
        delay = self.first_ms * 2 ** min(attempt - 1, _MOST_DOUBLINGS)
        if bounded:
            delay = min(delay, self.last_ms)
        return min(jittered(now_ms + delay // 2, item_id, delay - delay // 2), deadline_ms)


def _milliseconds(name: str, default_ms: int) -> int:
    return round(environment.number(name, default_ms / 1000) * 1000)
