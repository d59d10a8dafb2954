"""The delays of records: their reasons, and the times at which records are due for their next attempt."""

from dataclasses import dataclass
from hashlib import blake2b

from masscomm.domain.time_limits import RETRY_FIRST_S, RETRY_LAST_S, RETRY_LIFETIME_S

# The header of a released record with the reason of its delay.
DELAY_REASON_HEADER = "masscomm.released"
# The delay reason of the records of a paused send, and the header of a released one with the time of its release (ms
# since the epoch), from which its retries are counted.
PAUSED = "paused"
# The delay reason of the records of a scheduled send.
SEND_AT = "send_at"
# The delay reason of the record of the next occurrence of a schedule.
SCHEDULE = "schedule"
RESUMED_AT_HEADER = "masscomm.resumed_at"
# The header of a record that waits for its minute: the revision of the control whose pace it was planned with. A record
# of the send's own pace has none.
PACE_HEADER = "masscomm.pace"

_MOST_DOUBLINGS = 30


def jittered(due_ms: int, item_id: str, spread_ms: int) -> int:
    """Return a time in [due_ms, due_ms + spread_ms), derived from the id, so that records that failed together are
    not released together.
    """
    share = int.from_bytes(blake2b(item_id.encode(), digest_size=8).digest()) / 2**64
    return due_ms + int(share * spread_ms)


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
