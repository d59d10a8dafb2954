"""Converts functions.yaml to deployments on one machine: one function for each lane (kind of send), with its
trigger.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from functions.catalogue import EventSource, FunctionEntry, QueueSource, read_catalogue
from local.emulators.event_source import MappingSpec, PartialFailures, Pollers
from local.emulators.event_source.spec import S3_ARN
from local.emulators.gateway import Route
from local.emulators.lambda_host import FunctionSpec
from masscomm.domain.lanes import Lane
from masscomm.kafka.topics import in_turns
from masscomm.stores.discarded_batches.s3 import BUCKET_SETTING

# Lambda permits ten seconds. Here, all functions start concurrently on a few cores, together with a broker and a
# database.
INIT_TIMEOUT_S = 60.0


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """One function in one lane (kind of send), with its triggers.

    Attributes:
        mapping: The event source mapping of the function for Kafka; None if it has none.
        queue: Its event source mapping for SQS; None if it has none.
        routes: The routes of the HTTP gateway that invoke the function.
        schedule_s: The seconds between scheduled invocations; None if the function has no schedule.
    """

    function: FunctionSpec
    lane: Lane
    mapping: MappingSpec | None
    routes: tuple[Route, ...]
    queue: QueueSource | None = None
    schedule_s: float | None = None


def read_deployments(
    functions_file: Path,
    *,
    task_root: Path,
    generation: str,
    environment: Mapping[str, str],
    mapping_overrides: Mapping[str, Any] | None = None,
    bulk_nice: int = 0,
    pollers: Pollers = Pollers.PROVISIONED,
    environments: int | None = None,
) -> list[Deployment]:
    """Return every function in the file, once for each of its lanes.

    Args:
        functions_file: A file in the form of functions/functions.yaml.
        task_root: The folder from which the functions are imported.
        generation: The snapshot generation that `cdc.*` topics stand for.
        environment: The environment variables of all functions.
        mapping_overrides: Values for fields of MappingSpec in all mappings, such as delays.
        bulk_nice: The niceness of functions in bulk that also have a critical lane.
        pollers: The mode of all mappings. In on-demand mode, the settings that need provisioned mode are omitted.
        environments: The maximum number of environments of each function of the chain, which are those in both lanes.
            All of them are started before they are needed. None: those of the file.

    Raises:
        ValueError: The file names a setting or a topic that does not exist.
    """
    entries = read_catalogue(functions_file, generation=generation)
    with_critical_lane = {entry.package for entry in entries if entry.lane is Lane.CRITICAL}
    return [
        _deployment(
            entry,
            task_root,
            environment,
            {**(mapping_overrides or {}), "pollers": pollers},
            environments=environments if entry.package in with_critical_lane else None,
            nice=bulk_nice if entry.lane is Lane.BULK and entry.package in with_critical_lane else 0,
        )
        for entry in entries
    ]


def _deployment(
    entry: FunctionEntry,
    task_root: Path,
    environment: Mapping[str, str],
    overrides: Mapping[str, Any],
    *,
    environments: int | None,
    nice: int,
) -> Deployment:
    source = entry.event_source
    function = FunctionSpec(
        name=entry.name,
        handler=entry.handler,
        task_root=task_root,
        timeout_s=entry.timeout_s,
        init_timeout_s=INIT_TIMEOUT_S,
        memory_mb=entry.memory_mb,
        concurrency=environments or entry.concurrency,
        warm=environments or entry.warm,
        nice=nice,
        environment={
            "POWERTOOLS_SERVICE_NAME": entry.package,
            **environment,
            **(source.on_demand_environment if source and overrides["pollers"] is Pollers.ON_DEMAND else {}),
            **entry.environment,
            "MASSCOMM_LANE": entry.lane.value,
        },
    )
    return Deployment(
        function=function,
        lane=entry.lane,
        mapping=None if source is None else _mapping(function, source, entry.group, overrides),
        routes=tuple(Route.parse(text, entry.name) for text in entry.routes),
        queue=entry.queue,
        schedule_s=entry.schedule_s,
    )


# The names of settings in functions.yaml → the fields of MappingSpec.
_FIELDS = {
    "attempts": "max_retries",
    "max_age_s": "max_age_s",
    "bisect": "bisect",
    "partial_failures": "partial_failures",
    "buffer_records": "buffer_records",
    "buffer_bytes": "buffer_bytes",
    "first_backoff_s": "first_backoff_s",
    "last_backoff_s": "last_backoff_s",
}


# The settings of provisioned mode.
_PROVISIONED = ("max_retries", "max_age_s", "bisect")


def _mapping(function: FunctionSpec, source: EventSource, group: str, overrides: Mapping[str, Any]) -> MappingSpec:
    unknown = source.config.keys() - _FIELDS.keys()
    if unknown:
        raise ValueError(f"function {function.name}: event_source has no {', '.join(sorted(unknown))}")
    config: dict[str, Any] = {_FIELDS[name]: value for name, value in source.config.items()}
    config["windows"] = source.windows
    if source.batch_sizes and "batch_size" not in overrides:
        config |= {"batch_size": max(source.batch_sizes.values()), "batch_sizes": source.batch_sizes}
    config |= overrides
    is_on_demand = config["pollers"] is Pollers.ON_DEMAND
    if is_on_demand:
        config = {name: value for name, value in config.items() if name not in _PROVISIONED}
    if "partial_failures" in config:
        config["partial_failures"] = PartialFailures(config["partial_failures"])
    return MappingSpec(
        name=function.name,
        group=group,
        topics=source.topics,
        function_arn=function.arn,
        concurrency=function.concurrency,
        turns=tuple(in_turns(source.topics)),
        on_failure=_bucket(function, source) if is_on_demand else source.on_failure,
        **config,
    )


def _bucket(function: FunctionSpec, source: EventSource) -> str | None:
    """Return the ARN of the bucket for discarded batches, if the mapping has a topic for them in provisioned mode."""
    bucket = function.environment.get(BUCKET_SETTING)
    return None if source.on_failure is None or bucket is None else f"{S3_ARN}{bucket}"
