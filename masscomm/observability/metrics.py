"""Collects the metrics of an invocation, and writes them in one line when the function ends.

The line on standard output has CloudWatch's embedded metric format, so that metrics need no API call. An execution
environment processes one invocation at a time; therefore each process has one meter, which any thread may use.

Source: AWS documentation, "Specification: Embedded metric format".
"""

import os
import threading
import time
from collections.abc import Mapping
from typing import Any

from masscomm import fast_json
from masscomm.observability.metric_names import ALL, ENVIRONMENT, LANE, NAMESPACE, SERVICE, Kind, Metric

# The embedded metric format permits at most this many values of one metric in a line.
MOST_VALUES = 100


class _Values:
    """A sample of at most MOST_VALUES values: every nth value is kept, and n doubles when the sample is full."""

    def __init__(self) -> None:
        self.kept: list[float] = []
        self._every = 1
        self._seen = 0

    def add(self, value: float) -> None:
        if self._seen % self._every == 0:
            if len(self.kept) == MOST_VALUES:
                self.kept = self.kept[::2]
                self._every *= 2
            if self._seen % self._every == 0:
                self.kept.append(value)
        self._seen += 1


class Meter:
    """Collects metrics until they are written. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers: dict[str, float] = {}
        self._values: dict[str, _Values] = {}
        self._notes: dict[str, Any] = {}

    def add(self, metric: Metric, value: float = 1) -> None:
        """Increase a counter by the value, set a gauge to it, or add it to a distribution."""
        with self._lock:
            if metric.kind is Kind.DISTRIBUTION:
                if metric.name not in self._values:
                    self._values[metric.name] = _Values()
                self._values[metric.name].add(value)
            elif metric.kind is Kind.GAUGE:
                self._numbers[metric.name] = value
            else:
                self._numbers[metric.name] = self._numbers.get(metric.name, 0) + value

    def note(self, **properties: Any) -> None:
        """Add properties to the metrics line, for searches in the logs. Unlike a dimension, a property may have many
        values.
        """
        with self._lock:
            self._notes.update(properties)

    def taken(self) -> tuple[dict[str, float | list[float]], dict[str, Any]]:
        """Return the collected values by metric name, and the noted properties; then reset the meter."""
        with self._lock:
            found: dict[str, float | list[float]] = dict(self._numbers)
            found |= {name: values.kept for name, values in self._values.items()}
            notes = self._notes
            self._numbers, self._values, self._notes = {}, {}, {}
        return found, notes


_meter = Meter()
add, note, taken = _meter.add, _meter.note, _meter.taken


def write(service: str, **properties: Any) -> None:
    """Write the collected metrics in one line; write nothing if there are none.

    Args:
        service: The function's name, which is a dimension of every metric.
        properties: Properties of the line; they are not dimensions.
    """
    found, notes = taken()
    if found:
        line = embedded(
            found,
            {ENVIRONMENT: os.environ.get("MASSCOMM_ENVIRONMENT", "local"), SERVICE: service},
            {LANE: os.environ.get("MASSCOMM_LANE", "bulk"), **properties, **notes},
            now_ms=time.time_ns() // 1_000_000,
        )
        print(fast_json.ascii_text(line), flush=True)  # noqa: T201 - CloudWatch reads it


def embedded(
    found: Mapping[str, float | list[float]],
    dimensions: Mapping[str, str],
    properties: Mapping[str, Any],
    *,
    now_ms: int,
) -> dict[str, Any]:
    """Return the metrics line as a JSON object.

    Args:
        found: The value or values of each metric, by its name in ALL.
        dimensions: The dimensions of every metric in the line.
        properties: Properties of the line; they are not dimensions.
        now_ms: The timestamp of the metrics, in ms since the epoch.
    """
    directive = {
        "Namespace": NAMESPACE,
        "Dimensions": [list(dimensions)],
        "Metrics": [{"Name": name, "Unit": ALL[name].unit.value} for name in found],
    }
    return {
        "_aws": {"Timestamp": now_ms, "CloudWatchMetrics": [directive]},
        **properties,
        **dimensions,
        **{name: _plain(value) for name, value in found.items()},
    }


def _plain(value: float | list[float]) -> float | list[float]:
    if isinstance(value, list):
        return [round(each, 3) for each in value]
    return int(value) if value == int(value) else round(value, 3)
