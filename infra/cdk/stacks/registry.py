"""The stack of the schema registry."""

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.cdk.config import Environment
from infra.cdk.profiles import REGISTRY_DATABASE
from infra.cdk.resources.buckets import access_log_bucket
from infra.cdk.resources.databases import Database
from infra.cdk.resources.registry import SchemaRegistry
from infra.cdk.resources.task import VpcTask, read_secrets
from infra.cdk.stacks.network import NetworkStack


class RegistryStack(Stack):
    """The stack of the schema registry.

    Attributes:
        service: The registry.
        variables: The environment variables with which infra.provision creates the registry's database user.
        secrets: The ARNs of the secrets that it reads for that.
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
        self.variables = {
            "REGISTRY_DATABASE_URL": self.database.administrator_address(REGISTRY_DATABASE),
            "REGISTRY_DATABASE_SECRET": self.database.administrator_secret,
            "REGISTRY_USER_SECRET": base.registry_user.secret_arn,
        }
        self.secrets = (self.database.administrator_secret, base.registry_user.secret_arn)
        self.service = SchemaRegistry(
            self,
            place=base.network.place("registry"),
            balancer_place=base.network.place("registry-balancer"),
            database=self.database,
            user=base.registry_user,
            access_log=access_log_bucket(self, environment=environment, key=base.key),
            **shared,
        )
        self._user(environment, base)

    def _user(self, environment: Environment, base: NetworkStack) -> None:
        """Create the database user before the registry's tasks start: without it, they end."""
        policy = iam.Policy(
            self,
            "provisioner-secrets",
            roles=[base.provisioner],
            statements=read_secrets(self, *self.secrets, key=base.key.key_arn),
        )
        task = VpcTask(
            self,
            "registry-user",
            environment=environment,
            key=base.key,
            place=base.network.place("provisioning"),
            role=base.provisioner,
            variables=self.variables,
            command=["upgrade", "--deployed", environment.name],
        )
        task.node.add_dependency(policy, self.database, self.service.cluster)
        self.service.service.node.add_dependency(task.run())
