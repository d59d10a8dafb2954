"""A part of the local stack: the servers that keep data between two starts, and the provider, which keeps none."""

from local.devstack.config import StackConfig
from local.devstack.provision import provisioning
from local.devstack.service import Service, Task
from local.devstack.services import all_services
from local.devstack.stack import Stack

SERVICES = ("kafka", "opensearch", "localstack")
STEPS = ("topics", "indices", "aws", "endpoints")


def stack_of(config: StackConfig) -> Stack:
    """Return the part of a stack with this configuration, which has not started."""
    return Stack(config, catalogue=_services, tasks=_steps, discard=True)


def _services(config: StackConfig) -> dict[str, Service]:
    known = all_services(config)
    return {name: known[name] for name in SERVICES}


def _steps(config: StackConfig) -> list[Task]:
    return [each for each in provisioning(config) if each.name in STEPS]
