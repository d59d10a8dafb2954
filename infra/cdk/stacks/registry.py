"""The stack of the schema registry."""

from aws_cdk import Stack
from constructs import Construct

from infra.cdk.config import Environment
from infra.cdk.profiles import REGISTRY_DATABASE
from infra.cdk.resources.buckets import access_log_bucket
from infra.cdk.resources.databases import Database
from infra.cdk.resources.registry import SchemaRegistry
from infra.cdk.stacks.network import NetworkStack


class RegistryStack(Stack):
    """The stack of the schema registry.

    Attributes:
        service: The registry.
        database: The instance of the registry's database: a small one of its own, or that of the metrics.
    """

    def __init__(self, scope: Construct, *, environment: Environment, base: NetworkStack, metrics: Database) -> None:
        super().__init__(scope, f"{environment.prefix}-registry", env={"region": environment.region})
        shared = {"environment": environment, "key": base.key}
        kind = environment.database.registry_instance_type
        self.database = (
            metrics
            if kind is None
            else Database(
                self,
                REGISTRY_DATABASE,
                place=base.network.place("registry-database"),
                instance_type=kind,
                name=REGISTRY_DATABASE,
                **shared,
            )
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
