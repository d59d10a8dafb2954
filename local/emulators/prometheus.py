"""Builds the page for Prometheus at /metrics: counts of the function host and of the event source mappings, the
functions' own metrics, and the requests to the gateway.

The functions' metrics are sums of the lines that masscomm/observability/metrics.py writes to their logs;
docs/observability.md explains each metric. Several CloudWatch metrics (RecipientsSent, RecipientsFailed) are one family
with labels here.
"""

import json
import logging
import math
import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from pathlib import Path
from typing import Any

from prometheus_client import Counter as PrometheusCounter
from prometheus_client import Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

from masscomm.domain.grains import Grain
from masscomm.domain.latencies import quantiles
from masscomm.errors import MasscommError
from masscomm.observability import metric_names
from masscomm.observability.metric_names import ALL, SERVICE, Kind, Unit
from masscomm.stores.metrics.port import Dimension, LatencyQuery
from masscomm.stores.metrics.port import Latencies as StoredLatencies

log = logging.getLogger(__name__)

CONTENT_TYPE = CONTENT_TYPE_LATEST

# The fields of /-/status that are exported as counters, and those that are exported as gauges.
FUNCTION_COUNTS = ("invocations", "errors", "crashes", "cold_starts")
FUNCTION_GAUGES = ("in_flight", "queued")
MAPPING_COUNTS = (
    "records",
    "succeeded",
    "failures",
    "partial_failures",
    "retries",
    "bisects",
    "on_failure",
    "discarded",
)

# The upper bounds of histograms in seconds. API Gateway waits for 29 s, and the functions have time limits of up to
# a minute.
BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_BOUNDS = (*BUCKETS_S, math.inf)

# The sends that are counted by state, so that a scrape takes a bounded time.
_SENDS_OF, _MOST_SENDS = timedelta(hours=1), 5_000
_LATENCIES_OF, _QUANTILES = timedelta(minutes=15), (0.5, 0.95, 0.99)

# (name of a metric, function)
type _Key = tuple[str, str]


@dataclass
class Distribution:
    """Values in seconds, by the first bound that is not lower."""

    counts: list[int] = field(default_factory=lambda: [0] * len(_BOUNDS))
    total_s: float = 0.0

    def add(self, value_s: float) -> None:
        self.counts[bisect_left(_BOUNDS, value_s)] += 1
        self.total_s += value_s

    @property
    def buckets(self) -> list[tuple[str, float]]:
        """Return the number of values up to each bound."""
        bounds = ("+Inf" if bound == math.inf else str(float(bound)) for bound in _BOUNDS)
        return list(zip(bounds, map(float, accumulate(self.counts)), strict=True))


class GatewayMetrics(Collector):
    """Counts the requests to the gateway's routes, and the time until their responses."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._requests = PrometheusCounter(
            "masscomm_gateway_requests",
            "Requests to the API by method, route and status.",
            ("method", "route", "status"),
            registry=self._registry,
        )
        self._duration = Histogram(
            "masscomm_gateway_request_duration_seconds",
            "Seconds from a request to its response.",
            ("method", "route"),
            buckets=BUCKETS_S,
            registry=self._registry,
        )

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        self._requests.labels(method, route, str(status)).inc()
        self._duration.labels(method, route).observe(seconds)

    def collect(self) -> Iterator[Metric]:
        for metric in self._registry.collect():
            # The time at which a series began is a series of its own, which doubles their number.
            metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
            yield metric


@dataclass
class FunctionLines:
    """Reads the metrics in the functions' logs that are written after its creation; each read continues at the end
    of the previous one.
    """

    folder: Path
    # A log in another folder: that of the metrics job.
    job: Path | None = None
    # Is called for each metric of a line: function's package, name, values, seconds since the epoch.
    observe: Callable[[str, str, Sequence[float], float], None] = lambda *_: None
    numbers: Counter[_Key] = field(default_factory=Counter)
    gauges: dict[_Key, float] = field(default_factory=dict)
    values: dict[_Key, Distribution] = field(default_factory=dict)
    unreadable: int = 0

    def __post_init__(self) -> None:
        self._read_to = {path: path.stat().st_size for path in self._logs()}

    def read(self) -> None:
        """Read the new lines; an incomplete line is read at the next call."""
        for path in self._logs():
            with path.open("rb") as file:
                file.seek(self._read_to.get(path, 0))
                data = file.read()
            whole = data[: data.rfind(b"\n") + 1]
            self._read_to[path] = self._read_to.get(path, 0) + len(whole)
            for line in whole.splitlines():
                if b'"_aws"' in line:
                    self._take(path.stem, line)

    def _logs(self) -> list[Path]:
        found = sorted(self.folder.glob("*.log"))
        return [*found, self.job] if self.job is not None and self.job.is_file() else found

    def _take(self, function: str, line: bytes) -> None:
        try:
            document: dict[str, Any] = json.loads(line)
            emitted = [name for directive in document["_aws"]["CloudWatchMetrics"] for name in _names(directive)]
            at_s = document["_aws"]["Timestamp"] / 1000
        except (ValueError, KeyError, TypeError):
            self.unreadable += 1
            return
        for name in emitted:
            if name in ALL and name in document:
                value = document[name]
                self._add((name, function), ALL[name], value)
                self.observe(document.get(SERVICE, ""), name, value if isinstance(value, list) else [value], at_s)

    def _add(self, key: _Key, metric: metric_names.Metric, value: Any) -> None:
        if metric.kind is Kind.DISTRIBUTION:
            distribution = self.values.setdefault(key, Distribution())
            for each in value if isinstance(value, list) else [value]:
                distribution.add(each / 1000 if metric.unit is Unit.MILLISECONDS else each)
        elif metric.kind is Kind.GAUGE:
            self.gauges[key] = value
        else:
            self.numbers[key] += value


def _names(directive: Mapping[str, Any]) -> list[str]:
    return [metric["Name"] for metric in directive["Metrics"]]


class Sends(Collector):
    """The sends of the last hour by state, as counted.

    Args:
        states: Returns the numbers of sends since a time, at most so many of the latest. If it fails, the page has no
            such family.
    """

    def __init__(self, states: Callable[[datetime, int], Mapping[str, int]]) -> None:
        self._states = states

    def collect(self) -> Iterator[Metric]:
        family = GaugeMetricFamily("masscomm_sends", "Sends requested in the last hour by state", labels=["status"])
        try:
            found = self._states(datetime.now(UTC) - _SENDS_OF, _MOST_SENDS)
        except MasscommError as error:
            log.warning("the sends cannot be counted: %s", error)
            return
        for state, number in found.items():
            family.add_metric([state], number)
        yield family


class Latencies(Collector):
    """How long the notifications of the last minutes took, as counted.

    Args:
        latencies: Returns the latencies of a query. If it fails, the page has no such family.
    """

    def __init__(self, latencies: Callable[[LatencyQuery], StoredLatencies]) -> None:
        self._latencies = latencies

    def collect(self) -> Iterator[Metric]:
        family = GaugeMetricFamily(
            "masscomm_notification_latency_seconds",
            "From due to sent or delivered, of the last 15 minutes",
            labels=["status", "channel", "quantile"],
        )
        now = datetime.now(UTC)
        dimensions = (Dimension.CHANNEL, Dimension.MEASURE)
        query = LatencyQuery(granularity=Grain.MINUTE, start=now - _LATENCIES_OF, end=now, dimensions=dimensions)
        try:
            found = self._latencies(query)
        except MasscommError as error:
            log.warning("the latencies cannot be read: %s", error)
            return
        sums: defaultdict[tuple[str, ...], Counter[int]] = defaultdict(Counter)
        for row in found.rows:
            sums[row.values].update(row.bins)
        for (channel, measure), bins in sums.items():
            for quantile, value_ms in zip(_QUANTILES, quantiles(bins, _QUANTILES), strict=True):
                family.add_metric([measure, channel, str(quantile)], value_ms / 1000)
        yield family


class _Stack(Collector):
    """The metrics about the stack, computed from the content of /-/status."""

    def __init__(self, lines: FunctionLines, status: Callable[[], Mapping[str, Any]]) -> None:
        self._lines = lines
        self._status = status

    def collect(self) -> Iterator[Metric]:
        self._lines.read()
        yield from _of_functions(self._lines)
        yield from _of_host(self._status())
        unreadable = CounterMetricFamily("masscomm_unreadable_lines", "Lines of metrics that are none.")
        unreadable.add_metric([], self._lines.unreadable)
        yield unreadable


def exposition(
    lines: FunctionLines,
    status: Callable[[], Mapping[str, Any]],
    *further: Collector,
) -> bytes:
    """Return the page in Prometheus's text format."""
    registry = CollectorRegistry(auto_describe=False)
    for collector in (_Stack(lines, status), *further):
        registry.register(collector)
    return generate_latest(registry)


def _of_functions(lines: FunctionLines) -> Iterator[Metric]:
    families: dict[str, Any] = {}

    def family(name: str, function: str) -> tuple[Any, list[str]]:
        metric = ALL[name]
        labels = {"function": function, **metric.labels}
        return families.setdefault(_family_name(metric), _family(metric, [*labels])), [*labels.values()]

    for key, number in [*lines.numbers.items(), *lines.gauges.items()]:
        made, labels = family(*key)
        made.add_metric(labels, number)
    for key, distribution in lines.values.items():
        made, labels = family(*key)
        made.add_metric(labels, buckets=distribution.buckets, sum_value=distribution.total_s)
    yield from families.values()


def _family(metric: metric_names.Metric, labels: list[str]) -> Metric:
    made: Any = {
        Kind.COUNTER: CounterMetricFamily,
        Kind.GAUGE: GaugeMetricFamily,
        Kind.DISTRIBUTION: HistogramMetricFamily,
    }[metric.kind]
    meaning = metric.meaning if not metric.labels else f"{metric.family} by {', '.join(metric.labels)}"
    family: Metric = made(_family_name(metric), meaning, labels=labels)
    return family


def _family_name(metric: metric_names.Metric) -> str:
    # Prometheus has base units.
    unit = "" if metric.unit is Unit.COUNT else "_seconds"
    words = re.sub(r"(?<!^)(?=[A-Z])", "_", metric.family or metric.name).lower()
    return f"masscomm_{words}{unit}"


def _of_host(status: Mapping[str, Any]) -> Iterator[Metric]:
    for kind, names, what in (
        ("functions", FUNCTION_COUNTS, "function"),
        ("mappings", MAPPING_COUNTS, "mapping"),
    ):
        for name in names:
            counted = CounterMetricFamily(
                f"masscomm_{what}_{name}", f"{name} of a {what}, as /-/status says", labels=[what]
            )
            for each, values in status[kind].items():
                if name in values:
                    counted.add_metric([each], values[name])
            yield counted
    for name in FUNCTION_GAUGES:
        now = GaugeMetricFamily(f"masscomm_function_{name}", f"{name} of a function, now", labels=["function"])
        for each, values in status["functions"].items():
            now.add_metric([each], values[name])
        yield now
