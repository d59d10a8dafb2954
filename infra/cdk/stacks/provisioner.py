"""The task of infra.provision, which the registry's stack starts for its database user, and a later one for all."""

from collections.abc import Mapping

from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.cdk.config import Environment
from infra.cdk.resources.task import VpcTask
from infra.cdk.stacks.network import NetworkStack


def provisioner_task(
    scope: Construct,
    id: str,
    *,
    environment: Environment,
    base: NetworkStack,
    variables: Mapping[str, str],
    policy: iam.Policy,
) -> VpcTask:
    """Return a task that provisions the servers which its variables name.

    Args:
        policy: A policy of the provisioner's role with the permissions that the task needs.
    """
    task = VpcTask(
        scope,
        id,
        environment=environment,
        key=base.key,
        place=base.network.place("provisioning"),
        role=base.provisioner,
        variables=variables,
        command=["upgrade", "--deployed", environment.name],
    )
    task.node.add_dependency(policy)
    return task
