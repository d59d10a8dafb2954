"""How much of the small lane is one tenant's.

The lane keeps sends to few from standing behind a broadcast, and does so only while it is short itself: a tenant who
asks for a million sends of one recipient each has most of them in bulk, as if it were one send.
"""

from dataclasses import dataclass, field

PER_S = 50.0
BURST = 1_000.0
# Beyond so many tenants, those are forgotten who have not sent lately.
_MOST_TENANTS = 10_000


@dataclass(frozen=True, kw_only=True)
class SmallSends:
    """A token bucket a tenant. One for each function environment: environments know nothing of each other.

    per_s: recipients a second of one tenant that are let in; burst: at once, of who has not sent for a while.
    """

    per_s: float = PER_S
    burst: float = BURST
    # By tenant: what is left, and when that was.
    _left: dict[int, tuple[float, float]] = field(default_factory=dict)

    def may(self, club_id: int, recipients: int, now_s: float) -> bool:
        """Whether so many recipients of the tenant go into the small lane at this moment."""
        left = self._left_now(club_id, now_s)
        if left < recipients:
            return False
        self._left[club_id] = left - recipients, now_s
        if len(self._left) > _MOST_TENANTS:
            self._forget(now_s)
        return True

    def _left_now(self, club_id: int, now_s: float) -> float:
        left, since = self._left.get(club_id, (self.burst, now_s))
        return min(self.burst, left + (now_s - since) * self.per_s)

    def _forget(self, now_s: float) -> None:
        """Whose bucket is full again is as good as unknown."""
        for club_id in [each for each in self._left if self._left_now(each, now_s) >= self.burst]:
            del self._left[club_id]
