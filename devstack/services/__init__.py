"""The services of the stack, one module each."""

from devstack.service import Service
from devstack.services import connect, kafka, lambda_host, localstack, opensearch, postgres, registry, spark
from devstack.settings import StackSettings

MODULES = (kafka, postgres, opensearch, registry, localstack, connect, spark, lambda_host)


def all_services(settings: StackSettings) -> dict[str, Service]:
    """Every service by name, in an order in which each comes after what it depends on."""
    made = [module.service(settings) for module in MODULES]
    return {service.name: service for service in made}
