"""How much of the small lane one tenant may use.

The lane keeps small sends from waiting behind a broadcast, which works only while the lane itself is short: a tenant
that requests a million sends of one recipient each has most of them in the bulk lane, like one large send.
"""

from dataclasses import dataclass, field

PER_S = 50.0
BURST = 1_000.0
# Beyond so many tenants, full buckets are dropped.
_MOST_TENANTS = 10_000


@dataclass(frozen=True, kw_only=True)
class SmallSends:
    """A token bucket for each tenant. One for each function environment; environments do not share buckets.

    per_s: recipients a second of one tenant that are admitted; burst: the size of a bucket.
    """

    per_s: float = PER_S
    burst: float = BURST
    # Club id → (tokens, the time they were counted, s).
    _tokens: dict[int, tuple[float, float]] = field(default_factory=dict)

    def admit(self, club_id: int, recipients: int, now_s: float) -> bool:
        """Whether so many recipients of the tenant go into the small lane now; takes their tokens."""
        tokens = self._tokens_now(club_id, now_s)
        if tokens < recipients:
            return False
        self._tokens[club_id] = tokens - recipients, now_s
        if len(self._tokens) > _MOST_TENANTS:
            self._forget_full_buckets(now_s)
        return True

    def _tokens_now(self, club_id: int, now_s: float) -> float:
        tokens, since = self._tokens.get(club_id, (self.burst, now_s))
        return min(self.burst, tokens + (now_s - since) * self.per_s)

    def _forget_full_buckets(self, now_s: float) -> None:
        """Drop full buckets: they are like new ones."""
        for club_id in [each for each in self._tokens if self._tokens_now(each, now_s) >= self.burst]:
            del self._tokens[club_id]
