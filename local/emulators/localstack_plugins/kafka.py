"""Makes LocalStack accept event source mappings of Kafka; local.devstack.deployed polls their topics."""

from typing import Any

from localstack.services.lambda_ import hooks
from localstack.services.lambda_.event_source_mapping.pollers.poller import EmptyPollResultsException, Poller


class _PolledElsewhere(Poller):
    def __init__(self) -> None:
        # The base class's constructor is not called, because it requires a processor of records.
        self.filter_patterns: list[dict[str, Any]] = []

    def event_source(self) -> str:
        return "aws:kafka"

    def poll_events(self) -> None:
        raise EmptyPollResultsException(service="kafka", source_arn="")


@hooks.create_event_source_poller()
def polled_elsewhere(holder: Any, service: str, mapping: dict[str, Any]) -> None:
    """Return a poller that does nothing, because LocalStack refuses a mapping without a poller."""
    if service == "kafka" or "SelfManagedEventSource" in mapping:
        holder.create_poller_fn = lambda **_: _PolledElsewhere()
