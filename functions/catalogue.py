"""Read functions.yaml: each function in each of its lanes.

The devstack and the deployment both use this catalogue. The comments in functions.yaml explain the settings.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from masscomm.domain.lanes import Lane
from masscomm.kafka import topics

FILE = Path(__file__).with_name("functions.yaml")
# The prefix of consumer groups and of each function's resources in AWS.
PREFIX = "masscomm"


@dataclass(frozen=True, kw_only=True)
class EventSource:
    """A function's Kafka trigger."""

    # Names of topics in Kafka.
    topics: tuple[str, ...]
    on_failure: str | None = None
    # The other keys of `event_source` in functions.yaml.
    config: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class FunctionEntry:
    """One function in one lane."""

    # The deployed name: NAME or NAME-critical.
    name: str
    # NAME: the package of both lanes.
    package: str
    handler: str
    lane: Lane
    timeout_s: int
    memory_mb: int
    # Number of execution environments in the devstack.
    concurrency: int
    environment: Mapping[str, str]
    event_source: EventSource | None
    # Such as `GET /v1/metrics`.
    routes: tuple[str, ...]
    # Seconds between scheduled invocations; None without a schedule.
    schedule_s: float | None

    @property
    def group(self) -> str:
        """The function's Kafka consumer group."""
        return f"{PREFIX}.{self.name}"


def read_catalogue(functions_file: Path = FILE, *, generation: str) -> list[FunctionEntry]:
    """Return each function of the file, once for each of its lanes.

    Args:
        functions_file: The catalogue, in YAML.
        generation: The snapshot generation of `cdc.*` topics.

    Raises:
        ValueError: a setting has an invalid value.
        KeyError: a topic or a required setting does not exist.
    """
    document = yaml.safe_load(functions_file.read_text())
    defaults = document.get("defaults", {})
    return [
        _entry(name, defaults | entry, Lane(lane), generation)
        for name, entry in document["functions"].items()
        for lane in entry.get("lanes", [Lane.BULK])
    ]


def _entry(name: str, entry: Mapping[str, Any], lane: Lane, generation: str) -> FunctionEntry:
    deployed = f"{name}-critical" if lane is Lane.CRITICAL else name
    source = entry.get("event_source")
    return FunctionEntry(
        name=deployed,
        package=name,
        handler=entry["handler"],
        lane=lane,
        timeout_s=entry["timeout_s"],
        memory_mb=entry["memory_mb"],
        concurrency=entry["concurrency"],
        environment=entry.get("environment", {}),
        event_source=None if source is None else _event_source(source, lane, generation),
        routes=tuple(entry.get("routes", ())),
        schedule_s=_schedule(deployed, entry.get("schedule_s")),
    )


def _event_source(source: Mapping[str, Any], lane: Lane, generation: str) -> EventSource:
    on_failure = source.get("on_failure")
    return EventSource(
        topics=tuple(
            topic for name in source["topics"] for topic in topics.resolve(name, lane=lane, generation=generation)
        ),
        on_failure=None if on_failure is None else topics.in_lane(on_failure, lane),
        config={name: value for name, value in source.items() if name not in ("topics", "on_failure")},
    )


def _schedule(function: str, seconds: Any) -> float | None:
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or seconds <= 0:
        raise ValueError(f"function {function}: schedule_s is no number of seconds: {seconds!r}")
    return float(seconds)
