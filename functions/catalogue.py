"""functions.yaml, read: every function once a lane, as it is deployed anywhere.

The devstack and the deployment make their own things of it; what a setting means is said in the file itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from masscomm.domain.lanes import Lane
from masscomm.kafka import topics

FILE = Path(__file__).with_name("functions.yaml")
# Consumer groups and, in AWS, what belongs to one function begin with it.
PREFIX = "masscomm"


@dataclass(frozen=True, kw_only=True)
class EventSource:
    """A function's Kafka trigger.

    topics, on_failure: names in Kafka; config: the other keys of functions.yaml, by their names there.
    """

    topics: tuple[str, ...]
    on_failure: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class FunctionEntry:
    """One function in one lane.

    name: as deployed, NAME or NAME-critical; package: NAME, what both lanes are deployed from; group: its consumer
    group; concurrency: execution environments the devstack keeps; routes: `GET /v1/metrics`; schedule_s: seconds
    between the invocations of its schedule, None without one.
    """

    name: str
    package: str
    handler: str
    lane: Lane
    timeout_s: int
    memory_mb: int
    concurrency: int
    environment: Mapping[str, str]
    event_source: EventSource | None
    routes: tuple[str, ...]
    schedule_s: float | None

    @property
    def group(self) -> str:
        """Its Kafka consumer group."""
        return f"{PREFIX}.{self.name}"


def read_catalogue(functions_file: Path = FILE, *, generation: str) -> list[FunctionEntry]:
    """Every function of the file in every lane.

    generation: the snapshot generation that `cdc.*` topics stand for.

    Raises:
        ValueError: a setting is not what it should be.
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
