"""The form of an alarm: metrics in CloudWatch's terms, a threshold, and the periods that are evaluated."""

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass

from masscomm.observability.metric_names import ENVIRONMENT, NAMESPACE, SERVICE, Metric

MINUTE_S, HOUR_S = 60, 3600
# The name that a description has for its runbook; masscomm/operations/alarms.py reads it.
RUNBOOK = " Runbook: docs/runbooks/{runbook}.md"


@dataclass(frozen=True, kw_only=True)
class Series:
    """A statistic of a metric in CloudWatch."""

    namespace: str
    name: str
    # Sum, Average, Minimum, Maximum or p99.
    statistic: str
    dimensions: Mapping[str, str]
    period_s: int = MINUTE_S

    @property
    def key(self) -> tuple[str, str, frozenset[tuple[str, str]]]:
        """Return what identifies the metric."""
        return self.namespace, self.name, frozenset(self.dimensions.items())


@dataclass(frozen=True)
class Operation:
    """A function of several metrics."""

    # The function as an expression of CloudWatch's metric math.
    expression: str
    # Returns the result for the values of one period, by id; None if it has no value.
    result: Callable[[Mapping[str, float]], float | None]


def _ratio(values: Mapping[str, float]) -> float | None:
    if "whole" not in values:
        return None
    if values["whole"] <= 0:
        return 0.0
    return values["part"] / values["whole"] if "part" in values else None


def _lost(values: Mapping[str, float]) -> float | None:
    everything = sum(values.values())
    lost = [value for name, value in values.items() if name.startswith("lost")]
    if everything <= 0:
        return 0.0 if values else None
    return sum(lost) / everything if lost else None


TOTAL = Operation("SUM(METRICS())", lambda values: sum(values.values()) if values else None)
SMALLEST = Operation("MIN(METRICS())", lambda values: min(values.values(), default=None))
LARGEST = Operation("MAX(METRICS())", lambda values: max(values.values(), default=None))
RATIO = Operation("IF(whole > 0, part / whole, 0)", _ratio)
# The share of the metrics whose ids begin with `lost`.
LOST = Operation('IF(SUM(METRICS()) > 0, SUM(METRICS("lost")) / SUM(METRICS()), 0)', _lost)


@dataclass(frozen=True, kw_only=True)
class Formula:
    """An operation on metrics, each of which has an id."""

    operation: Operation
    used: Mapping[str, Series]
    label: str


@dataclass(frozen=True)
class Rule:
    """An alarm that triggers when a metric is at or above its threshold in each of its last `periods` periods."""

    name: str
    # The name of the alarm's file in docs/runbooks, without the suffix.
    runbook: str
    # The meaning of the alarm: one sentence.
    meaning: str
    of: Series | Formula
    threshold: float
    _: KW_ONLY
    # The number of periods of the metric that are evaluated; most metrics have periods of a minute.
    periods: int = 5
    # The number of the evaluated periods that must breach the threshold to trigger the alarm; None: all of them.
    most: int | None = None
    # Whether the alarm triggers below the threshold instead.
    below: bool = False
    # Whether missing data triggers the alarm.
    missing_data_alarms: bool = False

    @property
    def needed(self) -> int:
        """Return the number of periods that must breach the threshold."""
        return self.most or self.periods

    @property
    def description(self) -> str:
        """Return the meaning and the runbook in one text."""
        return self.meaning + RUNBOOK.format(runbook=self.runbook)

    @property
    def series(self) -> tuple[Series, ...]:
        """Return the metrics that the alarm reads."""
        return (self.of,) if isinstance(self.of, Series) else tuple(self.of.used.values())

    def breaches(self, value: float | None) -> bool:
        """Return whether the value of a period breaches the threshold; None is missing data."""
        if value is None:
            return self.missing_data_alarms
        return value < self.threshold if self.below else value >= self.threshold


def ours(environment: str, of: Metric, service: str, statistic: str = "Sum", *, period_s: int = MINUTE_S) -> Series:
    """Return one of masscomm's own metrics with the dimensions of one service."""
    return Series(
        namespace=NAMESPACE,
        name=of.name,
        statistic=statistic,
        dimensions={ENVIRONMENT: environment, SERVICE: service},
        period_s=period_s,
    )
