"""The counts of one function's invocations and environments, for the status page."""

from collections import deque
from dataclasses import dataclass, field
from statistics import quantiles

from local.emulators.lambda_host.invocation import InvocationResult

KEPT_DURATIONS = 2048


def percentiles(values: "deque[float] | list[float]") -> dict[str, float | None]:
    """Return the median and the 99th percentile of some durations, in the same unit; None if there are none."""
    if not values:
        return {"p50": None, "p99": None}
    if len(values) == 1:
        return {"p50": round(values[0], 3), "p99": round(values[0], 3)}
    cuts = quantiles(values, n=100, method="inclusive")
    return {"p50": round(cuts[49], 3), "p99": round(cuts[98], 3)}


@dataclass(kw_only=True)
class FunctionStatistics:
    """Counts since the host was started, and the latest durations in milliseconds."""

    invocations: int = 0
    errors: int = 0
    crashes: int = 0
    cold_starts: int = 0
    in_flight: int = 0
    queued: int = 0
    durations_ms: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT_DURATIONS))
    init_ms: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT_DURATIONS))

    def count(self, result: InvocationResult) -> None:
        self.invocations += 1
        self.errors += result.function_error is not None
        self.crashes += result.environment_crashed
        self.durations_ms.append(result.duration_ms)

    def count_init(self, duration_ms: float) -> None:
        self.init_ms.append(duration_ms)

    def as_dict(self) -> dict[str, object]:
        """Return the counts, and the median and the 99th percentile in milliseconds, as JSON values."""
        return {
            "invocations": self.invocations,
            "errors": self.errors,
            "crashes": self.crashes,
            "cold_starts": self.cold_starts,
            "in_flight": self.in_flight,
            "queued": self.queued,
            "duration_ms": percentiles(self.durations_ms),
            "init_ms": percentiles(self.init_ms),
        }
