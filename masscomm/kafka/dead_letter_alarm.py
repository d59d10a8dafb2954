"""Counts dead letters, and reports a burst of them.

The metric DeadLetterBursts is 1 if this execution environment had more dead letters in the last minute than the limit;
the same metrics line contains the counts by reason. The alarm in AWS triggers on DeadLetterBursts ≥ 1. A burst does not
stop processing: one producer's bad records must not delay another producer's good ones.
"""

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from aws_lambda_powertools import Logger

from masscomm.clock import Clock, SystemClock
from masscomm.domain.time_limits import DEAD_LETTER_WINDOW_S
from masscomm.observability import logs, metrics
from masscomm.observability.metric_names import DEAD_LETTER_BURSTS

DEFAULT_LIMIT = 20


@dataclass(kw_only=True)
class DeadLetterAlarm:
    """Counts dead letters; each execution environment has one instance."""

    # The number of dead letters per minute up to which no alarm is raised.
    limit: float = DEFAULT_LIMIT
    clock: Clock = field(default_factory=SystemClock)
    logger: Logger = field(default_factory=lambda: logs.logger("masscomm"))
    _recent: deque[tuple[float, int]] = field(default_factory=deque, init=False)

    def count(self, reasons: Iterable[str]) -> None:
        """Count the dead letters of an invocation (one reason for each), and log a burst."""
        counts = Counter(reasons)
        if not counts:
            return
        now = self.clock.monotonic()
        self._recent.append((now, counts.total()))
        while self._recent[0][0] <= now - DEAD_LETTER_WINDOW_S:
            self._recent.popleft()
        in_window = sum(count for _, count in self._recent)
        burst = in_window > self.limit
        metrics.add(DEAD_LETTER_BURSTS, int(burst))
        metrics.note(dead_letter_reasons=dict(counts))
        if burst:
            self.logger.error("dead letter burst", in_last_minute=in_window, limit=self.limit, reasons=dict(counts))
