"""functions.yaml as deployments: a function a lane, with its trigger."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from devstack.event_source import MappingSpec, PartialFailures
from devstack.gateway import Route
from devstack.lambda_host import FunctionSpec
from masscomm import topics
from masscomm.topics import Lane

# Lambda grants ten seconds; here every function starts at once, on few cores that a broker and a database need too.
INIT_TIMEOUT_S = 60.0
PREFIX = "masscomm"


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """One function in one lane.

    Attributes:
        mapping: its event source mapping, if it has one.
        routes: what the gateway sends it.
        schedule_s: seconds between the invocations of its schedule, if it has one.
    """

    function: FunctionSpec
    lane: Lane
    mapping: MappingSpec | None
    routes: tuple[Route, ...]
    schedule_s: float | None = None


def read_deployments(
    functions_file: Path,
    *,
    task_root: Path,
    generation: str,
    environment: Mapping[str, str],
    mapping_overrides: Mapping[str, Any] | None = None,
) -> list[Deployment]:
    """Every function of the file in every lane.

    Args:
        functions_file: as functions/functions.yaml.
        task_root: what the functions are imported from.
        generation: the snapshot generation that `cdc.*` topics stand for.
        environment: variables for all functions.
        mapping_overrides: fields of MappingSpec for all mappings, such as backoffs.

    Raises:
        ValueError: the file names a setting or a topic that does not exist.
    """
    document = yaml.safe_load(functions_file.read_text())
    defaults = document.get("defaults", {})
    return [
        _deployment(
            name, defaults | entry, Lane(lane), task_root, generation, environment, dict(mapping_overrides or {})
        )
        for name, entry in document["functions"].items()
        for lane in entry.get("lanes", [Lane.BULK])
    ]


def _deployment(
    name: str,
    entry: Mapping[str, Any],
    lane: Lane,
    task_root: Path,
    generation: str,
    environment: Mapping[str, str],
    overrides: Mapping[str, Any],
) -> Deployment:
    deployed = f"{name}-critical" if lane is Lane.CRITICAL else name
    function = FunctionSpec(
        name=deployed,
        handler=entry["handler"],
        task_root=task_root,
        timeout_s=entry["timeout_s"],
        init_timeout_s=INIT_TIMEOUT_S,
        memory_mb=entry["memory_mb"],
        concurrency=entry["concurrency"],
        warm=1,
        environment={
            "POWERTOOLS_SERVICE_NAME": name,
            **environment,
            **entry.get("environment", {}),
            "MASSCOMM_LANE": lane.value,
        },
    )
    source = entry.get("event_source")
    return Deployment(
        function=function,
        lane=lane,
        mapping=None if source is None else _mapping(function, source, lane, generation, overrides),
        routes=tuple(Route.parse(text, deployed) for text in entry.get("routes", ())),
        schedule_s=_schedule(deployed, entry.get("schedule_s")),
    )


def _schedule(function: str, seconds: Any) -> float | None:
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or seconds <= 0:
        raise ValueError(f"function {function}: schedule_s is no number of seconds: {seconds!r}")
    return float(seconds)


# functions.yaml's words for MappingSpec's fields
_FIELDS = {
    "batch_size": "batch_size",
    "window_s": "window_s",
    "attempts": "max_retries",
    "max_age_s": "max_age_s",
    "bisect": "bisect",
    "partial_failures": "partial_failures",
    "buffer_records": "buffer_records",
    "buffer_bytes": "buffer_bytes",
    "first_backoff_s": "first_backoff_s",
    "last_backoff_s": "last_backoff_s",
}


def _mapping(
    function: FunctionSpec, source: Mapping[str, Any], lane: Lane, generation: str, overrides: Mapping[str, Any]
) -> MappingSpec:
    unknown = source.keys() - _FIELDS.keys() - {"topics", "on_failure"}
    if unknown:
        raise ValueError(f"function {function.name}: event_source has no {', '.join(sorted(unknown))}")
    settings: dict[str, Any] = {_FIELDS[name]: value for name, value in source.items() if name in _FIELDS}
    settings |= overrides
    if "partial_failures" in settings:
        settings["partial_failures"] = PartialFailures(settings["partial_failures"])
    on_failure = source.get("on_failure")
    return MappingSpec(
        name=function.name,
        group=f"{PREFIX}.{function.name}",
        topics=tuple(topics.resolve(name, lane=lane, generation=generation) for name in source["topics"]),
        function_arn=function.arn,
        concurrency=function.concurrency,
        on_failure=None if on_failure is None else topics.resolve(on_failure, lane=lane, generation=generation),
        **settings,
    )
