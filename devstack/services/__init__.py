"""The servers of the local stack, one module each."""

from devstack.config import EXAMPLE, StackConfig, example
from devstack.service import Service
from devstack.services import (
    connect,
    example_monolith,
    kafka,
    lambda_host,
    localstack,
    opensearch,
    postgres,
    registry,
    spark,
)

MODULES = (kafka, postgres, opensearch, registry, localstack, connect, spark, lambda_host)


def all_services(config: StackConfig) -> dict[str, Service]:
    """Return every service by name, each after its dependencies."""
    made = [module.service(config) for module in MODULES]
    # The consumer of changed preferences knows the tables of examples/monolith only.
    if config.monolith_url is None and example() == EXAMPLE:
        made.append(example_monolith.service(config))
    return {service.name: service for service in made}
