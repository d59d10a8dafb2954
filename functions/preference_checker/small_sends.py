"""Limits the share of the lane for small sends that one tenant may use.

Small sends have a lane of their own, so that they do not wait for a broadcast. This works only while few records wait
in the lane. So if a tenant requests a million sends with one recipient each, most of them use the bulk lane, as one
large send would.
"""

from dataclasses import dataclass, field

PER_S = 50.0
BURST = 1_000.0
# If there are more tenants than this, full token buckets are dropped.
_MOST_TENANTS = 10_000


@dataclass(frozen=True, kw_only=True)
class SmallSends:
    """Has a token bucket for each tenant. Each function environment has one instance; environments do not share
    buckets.

    Args:
        per_s: The number of recipients per second that are admitted for one tenant.
        burst: The size of a bucket in recipients.
    """

    per_s: float = PER_S
    burst: float = BURST
    # Club id → (tokens, the time in seconds at which they were counted).
    _tokens: dict[int, tuple[float, float]] = field(default_factory=dict)

    def admit(self, club_id: int, recipients: int, now_s: float) -> bool:
        """Take one token for each of these recipients of the tenant. Return whether they may use the lane for small
        sends now.
        """
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
        """Drop full buckets, because a full bucket is the same as a new one."""
        for club_id in [each for each in self._tokens if self._tokens_now(each, now_s) >= self.burst]:
            del self._tokens[club_id]
