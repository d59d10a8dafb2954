"""The functions and routes of the parts that an environment may leave out."""

from collections.abc import Mapping
from dataclasses import replace

from functions.catalogue import FunctionEntry, read_catalogue
from infra.cdk.config import Environment, Part

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
    """Return the functions of an environment, with their routes."""
    absent = left_out(environment)
    paths = tuple(f" {_PATHS[part]}" for part in environment.without if part in _PATHS)
    return [
        replace(entry, routes=tuple(route for route in entry.routes if not any(path in route for path in paths)))
        for entry in read_catalogue(generation=environment.generation)
        if entry.package not in absent
    ]
