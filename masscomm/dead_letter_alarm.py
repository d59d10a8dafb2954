"""Counting dead letters, so that a burst of them is heard of.

A line an invocation that had any, in CloudWatch's embedded metric format on standard output: DeadLetters (how many),
and DeadLetterBursts, 1 where the last minute of this execution environment had more than the limit; beside them the
count by reason. The alarm in AWS is on DeadLetterBursts ≥ 1, or on the sum of DeadLetters over all environments.
Nothing is stopped: a producer's bad records are no reason to keep back another's good ones.
"""

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from aws_lambda_powertools import Logger
from aws_lambda_powertools.metrics import EphemeralMetrics, MetricUnit

from masscomm.clock import Clock, SystemClock

NAMESPACE = "masscomm"
# Dead letters put aside for good.
DEAD_LETTERS = "DeadLetters"
# Invocations after which the last minute held more dead letters than the limit.
BURSTS = "DeadLetterBursts"

DEFAULT_LIMIT = 20
_WINDOW_S = 60.0


@dataclass(kw_only=True)
class DeadLetterAlarm:
    """One for each function environment; limit: dead letters a minute up to which nobody is called."""

    function: str
    limit: float = DEFAULT_LIMIT
    clock: Clock = field(default_factory=SystemClock)
    logger: Logger = field(default_factory=Logger)
    _recent: deque[tuple[float, int]] = field(default_factory=deque, init=False)

    def tell(self, reasons: Iterable[str]) -> None:
        """Count an invocation's dead letters, one reason each; without any nothing is written."""
        counts = Counter(reasons)
        if not counts:
            return
        now = self.clock.monotonic()
        self._recent.append((now, counts.total()))
        while self._recent[0][0] <= now - _WINDOW_S:
            self._recent.popleft()
        in_window = sum(count for _, count in self._recent)
        burst = in_window > self.limit
        metrics = EphemeralMetrics(namespace=NAMESPACE, service=self.function)
        metrics.add_metric(name=DEAD_LETTERS, unit=MetricUnit.Count, value=counts.total())
        metrics.add_metric(name=BURSTS, unit=MetricUnit.Count, value=int(burst))
        metrics.add_metadata(key="reasons", value=dict(counts))
        metrics.flush_metrics()
        if burst:
            self.logger.error("dead letter burst", in_last_minute=in_window, limit=self.limit, reasons=dict(counts))
