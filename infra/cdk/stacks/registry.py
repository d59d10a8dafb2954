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
        shared = {"environment": environment, "key": base.key}
        self.database = Database(
            self,
            "registry",
            place=base.network.place("registry-database"),
            instance_type=environment.database.registry_instance_type,
            name="registry",
            **shared,
        )
        self.service = SchemaRegistry(
            self,
            place=base.network.place("registry"),
            balancer_place=base.network.place("registry-balancer"),
            database=self.database,
            user=base.registry_user,
            access_log=access_log_bucket(self, environment=environment, key=base.key),
            **shared,
        )
