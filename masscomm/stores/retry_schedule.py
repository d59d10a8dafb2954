"""The retry schedule of everything that is put into the delay store."""

from dataclasses import dataclass

from masscomm import environment
from masscomm.stores.delayed_records import jittered

_MOST_DOUBLINGS = 30


@dataclass(frozen=True, kw_only=True)
class RetrySchedule:
    """Delays double from first_ms to last_ms.

    lifetime_ms: how long a record without expires_at is retried. The scheduler sweeps once a minute: a shorter delay
    ends with the next sweep.
    """

    first_ms: int = 60_000
    last_ms: int = 30 * 60_000
    lifetime_ms: int = 3 * 86_400_000

    @classmethod
    def from_environment(cls) -> "RetrySchedule":
        """BACK_OFF_FIRST_S, BACK_OFF_LAST_S and BACK_OFF_LIFETIME_S. Errors: Stop if one is not a number."""
        usual = cls()
        return cls(
            first_ms=_milliseconds("BACK_OFF_FIRST_S", usual.first_ms),
            last_ms=_milliseconds("BACK_OFF_LAST_S", usual.last_ms),
            lifetime_ms=_milliseconds("BACK_OFF_LIFETIME_S", usual.lifetime_ms),
        )

    def deadline_ms(self, *, since_ms: int, expires_at: int | None) -> int:
        """When retries end: at expires_at, or a lifetime after the first try."""
        return since_ms + self.lifetime_ms if expires_at is None else expires_at

    def due_ms(self, *, now_ms: int, attempt: int, item_id: str, deadline_ms: int, bounded: bool = True) -> int:
        """When the delay of an attempt (1, 2, …) ends: in the second half of its length, at a point derived from the
        id.

        bounded: whether no delay is longer than last_ms.
        """
        delay = self.first_ms * 2 ** min(attempt - 1, _MOST_DOUBLINGS)
        if bounded:
            delay = min(delay, self.last_ms)
        return min(jittered(now_ms + delay // 2, item_id, delay - delay // 2), deadline_ms)


def _milliseconds(name: str, default_ms: int) -> int:
    return round(environment.number(name, default_ms / 1000) * 1000)
