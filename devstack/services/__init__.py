"""The services of the stack, one module each."""

from importlib.util import find_spec

from devstack.service import Service
from devstack.services import connect, kafka, lambda_host, localstack, opensearch, postgres, registry, spark
from devstack.settings import StackSettings

MODULES = (kafka, postgres, opensearch, registry, localstack, connect, spark, lambda_host)


def all_services(settings: StackSettings) -> dict[str, Service]:
    """Every service by name, in an order in which each comes after what it depends on."""
    made = [module.service(settings) for module in MODULES if module is not spark or find_spec("spark_metrics.job")]
    return {service.name: service for service in made}
