"""Determines when a failed provider call is repeated within an invocation: after pauses with decorrelated jitter.

The pauses grow, and the pauses of two environments are not synchronous. functions/delivery/retry_scheduler.py handles
longer delays.
"""

import random
from dataclasses import dataclass, field

from masscomm.domain.time_limits import CALL_FIRST_PAUSE_S, CALL_LAST_PAUSE_S


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """Computes the pauses between the rounds in which failed provider calls are repeated."""

    first_pause_s: float = CALL_FIRST_PAUSE_S
    longest_pause_s: float = CALL_LAST_PAUSE_S
    _random: random.Random = field(default_factory=random.Random)

    def next_pause_s(self, pause_s: float) -> float:
        """Return the next pause in seconds, given the previous one."""
        return self._random.uniform(self.first_pause_s, min(self.longest_pause_s, pause_s * 3))
