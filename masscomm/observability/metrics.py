"""Telling metrics: gathered while a function works, written in one line when it ends.

The line is in CloudWatch's embedded metric format on standard output, so a metric costs no call. An execution
environment works on one invocation at a time: hence one meter a process. Anything may count, from any thread.

Source: AWS documentation, "Specification: Embedded metric format".
"""

import json
import os
import threading
import time
from collections.abc import Mapping
from typing import Any

from masscomm.observability.metric_names import ALL, ENVIRONMENT, LANE, NAMESPACE, SERVICE, Kind, Metric

# As many values as the format takes of one metric in one line.
MOST_VALUES = 100


class _Values:
    """Up to MOST_VALUES of however many there were: every nth, where n doubles when they get too many."""

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
    """Gathers until it is written. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers: dict[str, float] = {}
        self._values: dict[str, _Values] = {}
        self._notes: dict[str, Any] = {}

    def add(self, metric: Metric, value: float = 1) -> None:
        """Count; of a gauge, the value that holds from now on; of a distribution, one value more."""
        with self._lock:
            if metric.kind is Kind.DISTRIBUTION:
                self._values.setdefault(metric.name, _Values()).add(value)
            elif metric.kind is Kind.GAUGE:
                self._numbers[metric.name] = value
            else:
                self._numbers[metric.name] = self._numbers.get(metric.name, 0) + value

    def note(self, **properties: Any) -> None:
        """A property of the log line besides the metrics, for searching: it may have many values."""
        with self._lock:
            self._notes.update(properties)

    def taken(self) -> tuple[dict[str, float | list[float]], dict[str, Any]]:
        """(value or values by metric's name, notes) of all that was gathered, which is forgotten."""
        with self._lock:
            found: dict[str, float | list[float]] = dict(self._numbers)
            found |= {name: values.kept for name, values in self._values.items()}
            notes = self._notes
            self._numbers, self._values, self._notes = {}, {}, {}
        return found, notes


_meter = Meter()
add, note, taken = _meter.add, _meter.note, _meter.taken


def write(service: str, **properties: Any) -> None:
    """Write what was gathered, if anything was, in one line; the service is a dimension, the properties are not."""
    found, notes = taken()
    if found:
        line = embedded(
            found,
            {ENVIRONMENT: os.environ.get("MASSCOMM_ENVIRONMENT", "local"), SERVICE: service},
            {LANE: os.environ.get("MASSCOMM_LANE", "bulk"), **properties, **notes},
            now_ms=time.time_ns() // 1_000_000,
        )
        print(json.dumps(line, separators=(",", ":")), flush=True)  # noqa: T201 - how a function tells a number


def embedded(
    found: Mapping[str, float | list[float]],
    dimensions: Mapping[str, str],
    properties: Mapping[str, Any],
    *,
    now_ms: int,
) -> dict[str, Any]:
    """The line as a document. found: value or values by metric's name, each of them in the vocabulary."""
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
