"""How long what cannot be done now waits before its next try: one schedule for all that is left to the scheduler."""

from dataclasses import dataclass

from masscomm import environment
from masscomm.stores.delayed_records import jittered

_MOST_DOUBLINGS = 30


@dataclass(frozen=True, kw_only=True)
class BackOff:
    """Waits double from the first to the last.

    lifetime_ms: how long something without expires_at is tried at all. The scheduler sweeps once a minute, so waits of
    less than that end with the next sweep.
    """

    first_ms: int = 60_000
    last_ms: int = 30 * 60_000
    lifetime_ms: int = 3 * 86_400_000

    @classmethod
    def from_environment(cls) -> "BackOff":
        """BACK_OFF_FIRST_S, BACK_OFF_LAST_S and BACK_OFF_LIFETIME_S. Errors: Stop where one is not a number."""
        usual = cls()
        return cls(
            first_ms=_milliseconds("BACK_OFF_FIRST_S", usual.first_ms),
            last_ms=_milliseconds("BACK_OFF_LAST_S", usual.last_ms),
            lifetime_ms=_milliseconds("BACK_OFF_LIFETIME_S", usual.lifetime_ms),
        )

    def ends_ms(self, *, since_ms: int, expires_at: int | None) -> int:
        """When the last try is made: at expires_at, or a lifetime after it began to be tried."""
        return since_ms + self.lifetime_ms if expires_at is None else expires_at

    def due_ms(self, *, now_ms: int, n: int, item_id: str, ends_ms: int, bounded: bool = True) -> int:
        """When the nth wait (1, 2, …) is over: in the second half of its length, which follows from the id.

        bounded: whether no wait is longer than last_ms.
        """
        wait = self.first_ms * 2 ** min(n - 1, _MOST_DOUBLINGS)
        if bounded:
            wait = min(wait, self.last_ms)
        return min(jittered(now_ms + wait // 2, item_id, wait - wait // 2), ends_ms)


def _milliseconds(name: str, default_ms: int) -> int:
    return round(environment.number(name, default_ms / 1000) * 1000)
