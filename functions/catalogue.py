"""Reads functions.yaml, the list of functions with their settings, for each lane that has its own functions.

The local stack and the deployment both use it. The comments in functions.yaml explain the settings.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from masscomm.domain.lanes import Lane
from masscomm.kafka import topics
from masscomm.safe_yaml import parse_yaml

FILE = Path(__file__).with_name("functions.yaml")
# The prefix of the names of consumer groups and of each function's resources in AWS.
PREFIX = "masscomm"
# The lanes whose records have few recipients each.
_FEW_RECIPIENTS = (Lane.SMALL, Lane.CRITICAL)
# The topics of new sends: most have few recipients, and larger ones are forwarded or processed last.
_NEW_SENDS = (topics.SEND_MONOLITH, topics.SEND_API)
# The number of retries of a mapping in provisioned mode with an on-failure destination and no attempts of its own.
# https://docs.aws.amazon.com/lambda/latest/dg/kafka-retry-configurations.html
RETRIES_WITH_DESTINATION = 10
# The retries after which a function in on-demand mode hands a record over, before Lambda discards the whole batch: the
# crash of the whole batch, and the invocation that hands a crashing record over, are further ones.
RETRIES_ON_DEMAND = RETRIES_WITH_DESTINATION - 2
_NO_CONFIG = ("topics", "on_failure", "batch_size", "small_batch_size", "window_s", "windows")


@dataclass(frozen=True, kw_only=True)
class EventSource:
    """The Kafka event source mapping of a function."""

    # The names of the consumed topics in Kafka.
    topics: tuple[str, ...]
    on_failure: str | None = None
    # The other settings of `event_source` in functions.yaml.
    config: Mapping[str, Any] = field(default_factory=dict)
    # The maximum number of records in a batch by topic; empty if the local stack's default applies.
    batch_sizes: Mapping[str, int] = field(default_factory=dict)
    # The seconds that a batch waits for further records, by topic.
    windows: Mapping[str, float] = field(default_factory=dict)

    @property
    def on_demand_environment(self) -> Mapping[str, str]:
        """Return the environment variables of a function whose mappings are in on-demand mode. With BATCH_RETRIES, the
        function itself counts its attempts, and hands a record over before Lambda discards its batch.
        """
        variables = {"MASSCOMM_POLLERS": "on-demand"}
        if self.on_failure is not None:
            variables["BATCH_RETRIES"] = str(min(self.config.get("attempts", RETRIES_ON_DEMAND), RETRIES_ON_DEMAND))
        return variables


@dataclass(frozen=True, kw_only=True)
class QueueSource:
    """The event source mapping of a function's SQS queue."""

    # The name of the queue, which in AWS follows that of the installation.
    name: str
    # The maximum number of messages of a batch.
    batch_size: int


@dataclass(frozen=True, kw_only=True)
class FunctionEntry:
    """One function in one lane."""

    # The deployed name of the function: NAME or NAME-critical.
    name: str
    # The package of the function, NAME, which is the same in both lanes.
    package: str
    handler: str
    lane: Lane
    timeout_s: int
    memory_mb: int
    # The number of execution environments in the local stack.
    concurrency: int
    # The number of those that the local stack starts before they are needed.
    warm: int
    environment: Mapping[str, str]
    event_source: EventSource | None
    queue: QueueSource | None
    # The routes of the REST API that the function serves, such as `GET /v1/metrics`.
    routes: tuple[str, ...]
    # The seconds between scheduled invocations; None if the function has no schedule.
    schedule_s: float | None

    @property
    def group(self) -> str:
        return f"{PREFIX}.{self.name}"


def read_catalogue(functions_file: Path = FILE, *, generation: str) -> list[FunctionEntry]:
    """Return the functions in the file, each once for every lane that it has.

    Args:
        functions_file: The path of functions.yaml.
        generation: The snapshot generation whose topics `cdc.*` stands for.

    Raises:
        ValueError: A setting has an invalid value.
        KeyError: A topic or a required setting does not exist.
    """
    document = parse_yaml(functions_file.read_text())
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
        warm=entry.get("warm", 1),
        environment=entry.get("environment", {}),
        event_source=None if source is None else _event_source(source, lane, generation),
        queue=QueueSource(**entry["queue"]) if "queue" in entry else None,
        routes=tuple(entry.get("routes", ())),
        schedule_s=_schedule(deployed, entry.get("schedule_s")),
    )


def _event_source(source: Mapping[str, Any], lane: Lane, generation: str) -> EventSource:
    on_failure = source.get("on_failure")
    consumed = tuple(
        topic for name in source["topics"] for topic in topics.resolve(name, lane=lane, generation=generation)
    )
    return EventSource(
        topics=consumed,
        on_failure=None if on_failure is None else topics.in_lane(on_failure, lane),
        config={name: value for name, value in source.items() if name not in _NO_CONFIG},
        batch_sizes={topic: size for topic in consumed if (size := _batch_size(source, topic)) is not None},
        windows=_windows(source, consumed),
    )


def _batch_size(source: Mapping[str, Any], topic: str) -> int | None:
    usual: int | None = source.get("batch_size")
    is_small = topics.lane_of(topic) in _FEW_RECIPIENTS or topics.base_of(topic) in _NEW_SENDS
    return source.get("small_batch_size", usual) if is_small else usual


def _windows(source: Mapping[str, Any], consumed: Sequence[str]) -> Mapping[str, float]:
    own = source.get("windows", {})
    if unknown := own.keys() - set(source["topics"]):
        raise ValueError(f"the topic of a window is not consumed: {', '.join(sorted(unknown))}")
    return {topic: own.get(topics.base_of(topic), source.get("window_s", 0)) for topic in consumed}


def _schedule(function: str, seconds: Any) -> float | None:
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or seconds <= 0:
        raise ValueError(f"function {function}: schedule_s is not a number of seconds: {seconds!r}")
    return float(seconds)
