"""The functions, routes and broadcast queues of an environment."""

from collections.abc import Mapping
from dataclasses import replace

from functions.catalogue import EventSource, FunctionEntry, read_catalogue
from infra.cdk.config import Environment, Part
from masscomm.domain.lanes import BROADCASTS
from masscomm.kafka.topics import lane_of

# Part → the functions that nothing else needs.
_FUNCTIONS: Mapping[Part, frozenset[str]] = {
    "cdc": frozenset(),
    "events": frozenset(
        {
            *("event_matcher", "events_api", "webhook_events"),
            *("webhook_sender", "webhook_batch_sender", "webhook_retry_sender"),
        }
    ),
    "incoming_webhooks": frozenset({"webhook_receiver"}),
    # webhook_events finds its events in the counts.
    "metrics": frozenset({"metrics_handler", "metrics_stream", "sends_stream", "webhook_events"}),
}
# Part → the paths of its routes in functions that remain.
_PATHS: Mapping[Part, str] = {"events": "/v1/webhooks", "incoming_webhooks": "/v1/sources"}


def left_out(environment: Environment) -> frozenset[str]:
    """Return the functions that are not deployed."""
    return frozenset().union(*(_FUNCTIONS[part] for part in environment.without))


def deployed(environment: Environment) -> list[FunctionEntry]:
    """Return the functions of an environment, with their routes and the topics of their mappings."""
    absent = left_out(environment)
    paths = tuple(f" {_PATHS[part]}" for part in environment.without if part in _PATHS)
    return [
        replace(
            entry,
            routes=tuple(route for route in entry.routes if not any(path in route for path in paths)),
            event_source=entry.event_source and _mapped(entry.event_source, environment),
        )
        for entry in read_catalogue(generation=environment.generation)
        if entry.package not in absent
    ]


def has_mapping(topic: str, environment: Environment) -> bool:
    """Return whether a topic of the chain is consumed: those of further broadcast queues are not."""
    return lane_of(topic) not in BROADCASTS[environment.broadcast_queues + environment.closing_queues :]


def _mapped(source: EventSource, environment: Environment) -> EventSource:
    return replace(source, topics=tuple(topic for topic in source.topics if has_mapping(topic, environment)))
