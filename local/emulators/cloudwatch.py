"""Emulates the part of CloudWatch that alarms need: metrics by minute, the states of alarms, and DescribeAlarms.

Source: Amazon CloudWatch user guide, "Using Amazon CloudWatch alarms" (evaluation, missing data), and the API reference
of DescribeAlarms.
"""

import json
import math
import re
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from aiohttp import web

from ops.alarms.rules import MINUTE_S, Formula, Rule, Series

# The path of the API below the gateway's address.
PATH = "/-/cloudwatch"
# The prefix of the names of alarms, as in a deployment.
PREFIX = "masscomm-local-"
_TARGET = "GraniteServiceVersion20100801.DescribeAlarms"
_CONTENT_TYPE = "application/x-amz-json-1.0"
_PERCENTILE = re.compile(r"p([0-9]{1,2})")
# Values of a metric in a minute that are kept for percentiles.
_KEPT_VALUES = 1_000
# Without a sample for this long, the machine slept, and what happened meanwhile is unknown.
_SLEPT_S = 2 * MINUTE_S


@dataclass
class _Minute:
    """The values of one metric in one minute."""

    number: int = 0
    total: float = 0.0
    low: float = math.inf
    high: float = -math.inf
    values: list[float] = field(default_factory=list)

    def add(self, value: float) -> None:
        self.number += 1
        self.total += value
        self.low, self.high = min(self.low, value), max(self.high, value)
        if len(self.values) < _KEPT_VALUES:
            self.values.append(value)

    def statistic(self, name: str) -> float:
        match name:
            case "Sum":
                return self.total
            case "Average":
                return self.total / self.number
            case "Minimum":
                return self.low
            case "Maximum":
                return self.high
        percentile = _PERCENTILE.fullmatch(name)
        if percentile is None:
            raise ValueError(f"{name} is not a statistic")
        position = math.ceil(len(self.values) * int(percentile[1]) / 100) - 1
        return sorted(self.values)[max(0, position)]


class Samples:
    """The values of metrics by minute, those of the last `minutes` minutes. Thread-safe."""

    def __init__(self, minutes: int) -> None:
        self._minutes = minutes
        self._lock = threading.Lock()
        self._known: dict[int, dict[tuple[str, str, frozenset[tuple[str, str]]], _Minute]] = {}

    def add(self, series: Series, value: float, at_s: float) -> None:
        """Add a value of a metric at a time in seconds since the epoch; its statistic is not used."""
        minute = int(at_s) // MINUTE_S
        with self._lock:
            self._known.setdefault(minute, {}).setdefault(series.key, _Minute()).add(value)
            if len(self._known) > self._minutes:
                for old in sorted(self._known)[: -self._minutes]:
                    del self._known[old]

    def value(self, series: Series, minute: int) -> float | None:
        """Return the statistic of a metric in a minute since the epoch; None if there is no value."""
        with self._lock:
            found = self._known.get(minute, {}).get(series.key)
            return None if found is None else found.statistic(series.statistic)


@dataclass
class _State:
    value: str
    since_s: float


class AlarmStates:
    """Evaluates alarms on samples.

    An alarm triggers when the threshold is breached in as many of its last full minutes as its rule needs. Where
    missing data breaches, the state is INSUFFICIENT_DATA until there are enough minutes since the start.

    Args:
        rules: The alarms, all of which have periods of a minute.
        now_s: Returns the seconds since the epoch.
    """

    def __init__(self, rules: Iterable[Rule], now_s: Callable[[], float] = time.time) -> None:
        self.rules = list(rules)
        self._now_s = now_s
        self.samples = Samples(max(rule.periods for rule in self.rules) + 2)
        self._began = self._sampled = now_s()
        self._states = {rule.name: _State("INSUFFICIENT_DATA", self._began) for rule in self.rules}

    def evaluate(self) -> None:
        """Compute the states from the full minutes before now. It is called some times a minute."""
        now = self._now_s()
        if now - self._sampled > _SLEPT_S:
            self._began = now
        self._sampled = now
        current = int(now) // MINUTE_S
        # The minute of the start is not full.
        known = current - int(self._began) // MINUTE_S - 1
        for rule in self.rules:
            minutes = range(current - min(rule.periods, known), current) if known > 0 else range(0)
            breaching = sum(rule.breaches(self._value(rule, minute)) for minute in minutes)
            state = self._states[rule.name]
            value = "OK"
            if breaching >= rule.needed:
                value = "ALARM"
            elif rule.missing_data_alarms and len(minutes) < rule.needed:
                value = "INSUFFICIENT_DATA"
            if value != state.value:
                self._states[rule.name] = _State(value, now)

    def _value(self, rule: Rule, minute: int) -> float | None:
        if isinstance(rule.of, Formula):
            values = {name: self.samples.value(series, minute) for name, series in rule.of.used.items()}
            return rule.of.operation.result({name: each for name, each in values.items() if each is not None})
        return self.samples.value(rule.of, minute)

    def describe(self, prefix: str) -> Sequence[dict[str, object]]:
        """Return the alarms whose names begin with a prefix, as DescribeAlarms does."""
        return [
            {
                "AlarmName": f"{PREFIX}{rule.name}",
                "AlarmDescription": rule.description,
                "StateValue": self._states[rule.name].value,
                "StateTransitionedTimestamp": self._states[rule.name].since_s,
                "StateUpdatedTimestamp": self._sampled,
            }
            for rule in self.rules
            if f"{PREFIX}{rule.name}".startswith(prefix)
        ]

    def routes(self) -> list[web.RouteDef]:
        """Return the API's route below the gateway's address."""
        return [web.post(PATH, self._serve)]

    async def _serve(self, request: web.Request) -> web.Response:
        if request.headers.get("X-Amz-Target") != _TARGET:
            return web.Response(status=400, text='{"__type": "UnknownOperationException"}', content_type=_CONTENT_TYPE)
        asked = json.loads(await request.text())
        body = {"MetricAlarms": self.describe(asked.get("AlarmNamePrefix", "")), "CompositeAlarms": []}
        return web.Response(text=json.dumps(body), content_type=_CONTENT_TYPE)
