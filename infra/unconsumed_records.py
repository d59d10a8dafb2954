"""Finds topics whose records would have no consumer after a deployment.

A deployment that deletes an event source mapping leaves the records of its topic. Lowering `broadcast_queues` takes two
deployments, because records arrive until the functions are updated: the first one keeps the mappings of the removed
queues (`closing_queues`) while nothing is sent to them any more, and the second one deletes the mappings.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import httpx

from masscomm.domain.lanes import BROADCASTS
from masscomm.kafka.topics import chain_topics, lane_of

_TIMEOUT_S = 30


class UnknownLagError(Exception):
    """The records of a topic cannot be counted; the message says why."""


def unconsumed_records(
    deployed: Mapping[str, Mapping[str, Any]],
    new: Mapping[str, Mapping[str, Any]],
    lags: Callable[[], Mapping[str, int]],
) -> list[str]:
    """Return the topics of the chain that lose their consumer too early, a line each.

    Args:
        deployed: The templates of the deployed stacks, by the names of the stacks.
        new: The templates of the deployment.
        lags: Returns the number of records of each topic that a function has not processed. It raises UnknownLagError.
    """
    lost = sorted((_consumed(deployed) - _consumed(new)) & {topic.name for topic in chain_topics()})
    # The first queue is always consumed, and other topics have its lane.
    queues = BROADCASTS[1 : _queues(deployed)]
    if in_use := [topic for topic in lost if lane_of(topic) in queues]:
        return [f"{topic} would have no consumer while records are sent to it: set closing_queues" for topic in in_use]
    try:
        # Between two readings, a record can leave one topic of the chain for the next.
        readings = [_reading(lags(), lost) for _ in lost]
    except UnknownLagError as error:
        return [f"{topic} would have no consumer, and its records are not counted: {error}" for topic in lost]
    return [
        f"{topic} would have no consumer, and has {most} records"
        for topic in lost
        if (most := max(reading[topic] for reading in readings))
    ]


def _reading(lags: Mapping[str, int], topics: Sequence[str]) -> Mapping[str, int]:
    if missing := set(topics) - lags.keys():
        raise UnknownLagError(f"/v1/health does not have {', '.join(sorted(missing))}")
    return lags


def lags_of(url: str, key: str) -> Mapping[str, int]:
    """Return the number of unprocessed records by topic, from GET /v1/health. Raises UnknownLagError."""
    try:
        response = httpx.get(f"{url}/v1/health", headers={"x-api-key": key}, timeout=_TIMEOUT_S)
        response.raise_for_status()
    except httpx.HTTPError as error:
        raise UnknownLagError(str(error)) from error
    found: dict[str, int] = {}
    for each in response.json()["lag"]:
        found[each["topic"]] = found.get(each["topic"], 0) + each["records"]
    return found


def _consumed(templates: Mapping[str, Mapping[str, Any]]) -> set[str]:
    """Return the topics that have an event source mapping."""
    mappings = _properties(templates, "AWS::Lambda::EventSourceMapping")
    return {topic for mapping in mappings for topic in mapping.get("Topics", ())}


def _queues(templates: Mapping[str, Mapping[str, Any]]) -> int:
    """Return the number of broadcast queues that functions send to. Those of version 0.1.0 send to all."""
    functions = _properties(templates, "AWS::Lambda::Function")
    variables = [each.get("Environment", {}).get("Variables", {}) for each in functions]
    found = [int(each["BROADCAST_QUEUES"]) for each in variables if "BROADCAST_QUEUES" in each]
    return max(found, default=len(BROADCASTS))


def _properties(templates: Mapping[str, Mapping[str, Any]], kind: str) -> Iterator[Mapping[str, Any]]:
    for template in templates.values():
        for resource in template["Resources"].values():
            if resource["Type"] == kind:
                yield resource.get("Properties", {})
