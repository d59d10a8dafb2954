"""The servers of the local stack, one module each."""

from local.devstack.config import StackConfig
from local.devstack.service import Service
from local.devstack.services import (
    connect,
    directory_state,
    example_monolith,
    kafka,
    lambda_host,
    localstack,
    opensearch,
    postgres,
    registry,
    sms,
    spark,
    spark_events,
)
from masscomm.directory.chosen import STATE

MODULES = (kafka, postgres, opensearch, registry, localstack, sms, connect, spark, lambda_host)


def all_services(config: StackConfig) -> dict[str, Service]:
    """Return every service by name, each after its dependencies."""
    made = [module.service(config) for module in MODULES]
    if config.event_sources is not None:
        made.append(spark_events.service(config, config.event_sources))
    if config.directory == STATE:
        made.append(directory_state.service(config))
    # A consumer of changed preferences knows the tables of one example. A database of one's own needs its own.
    if config.monolith_url is None:
        made.append(example_monolith.service(config))
    return {service.name: service for service in made}
