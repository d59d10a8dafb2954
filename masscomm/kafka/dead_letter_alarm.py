"""Count dead letters and report a burst of them.

DeadLetterBursts is 1 if the last minute of this execution environment had more dead letters than the limit; the same
metrics line has the counts by reason. The alarm in AWS is on DeadLetterBursts ≥ 1. A burst does not stop processing:
one producer's bad records must not delay another producer's good ones.
"""

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from aws_lambda_powertools import Logger

from masscomm.clock import Clock, SystemClock
from masscomm.observability import logs, metrics
from masscomm.observability.metric_names import DEAD_LETTER_BURSTS

DEFAULT_LIMIT = 20
_WINDOW_S = 60.0


@dataclass(kw_only=True)
class DeadLetterAlarm:
    """Counter of dead letters; one for each execution environment."""

    # Dead letters per minute that raise no alarm.
    limit: float = DEFAULT_LIMIT
    clock: Clock = field(default_factory=SystemClock)
    logger: Logger = field(default_factory=lambda: logs.logger("masscomm"))
    _recent: deque[tuple[float, int]] = field(default_factory=deque, init=False)

    def count(self, reasons: Iterable[str]) -> None:
        """Count an invocation's dead letters, one reason each, and log a burst."""
        counts = Counter(reasons)
        if not counts:
            return
        now = self.clock.monotonic()
        self._recent.append((now, counts.total()))
        while self._recent[0][0] <= now - _WINDOW_S:
            self._recent.popleft()
        in_window = sum(count for _, count in self._recent)
        burst = in_window > self.limit
        metrics.add(DEAD_LETTER_BURSTS, int(burst))
        metrics.note(dead_letter_reasons=dict(counts))
        if burst:
            self.logger.error("dead letter burst", in_last_minute=in_window, limit=self.limit, reasons=dict(counts))
