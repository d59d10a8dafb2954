"""The stack of the schema registry."""

from aws_cdk import Stack
from constructs import Construct

from infra.cdk.config import Environment
from infra.cdk.resources.buckets import access_log_bucket
from infra.cdk.resources.databases import Database
from infra.cdk.resources.registry import SchemaRegistry
from infra.cdk.stacks.network import NetworkStack


class RegistryStack(Stack):
    """The stack of the schema registry.

    Attributes:
        service: The registry.
        database: The registry's own small database, so that load on the metrics database does not delay schema
            look-ups.
    """

    def __init__(self, scope: Construct, *, environment: Environment, base: NetworkStack) -> None:
        super().__init__(scope, f"{environment.prefix}-registry", env={"region": environment.region})
        network = base.network
        network_properties = {
            "environment": environment,
            "key": base.key,
            "vpc": network.vpc,
            "subnets": network.subnets,
        }
        self.database = Database(
            self,
            "registry",
            group=network.groups["registry-database"],
            instance_type=environment.database.registry_instance_type,
            name="registry",
            **network_properties,
        )
        self.service = SchemaRegistry(
            self,
            group=network.groups["registry"],
            balancer_group=network.groups["registry-balancer"],
            database=self.database,
            user=base.registry_user,
            access_log=access_log_bucket(self, environment=environment),
            **network_properties,
        )
