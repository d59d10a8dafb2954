"""The stack of the schema registry and of the cluster in which tasks run."""

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from infra.cdk.config import Environment
from infra.cdk.profiles import REGISTRY_DATABASE
from infra.cdk.resources.buckets import access_log_bucket
from infra.cdk.resources.databases import Database
from infra.cdk.resources.registry import SchemaRegistry, tasks_cluster
from infra.cdk.resources.registry_access import RegistryAccess
from infra.cdk.resources.task import read_secrets
from infra.cdk.stacks.network import NetworkStack
from infra.cdk.stacks.provisioner import provisioner_task


class RegistryStack(Stack):
    """The stack of the schema registry, and of the cluster in which tasks run.

    Attributes:
        service: The registry; None: the organisation's registry is used.
        variables: The environment variables with which infra.provision creates the registry's database user, and
            registers schemas.
        statements: The permissions that it needs for that.
        database: The instance of the registry's database: a small one of its own, or that of the metrics; None: the
            organisation's registry has its own.
    """

    def __init__(self, scope: Construct, *, environment: Environment, base: NetworkStack, metrics: Database) -> None:
        super().__init__(scope, f"{environment.prefix}-registry", env={"region": environment.region})
        self._environment, self._base = environment, base
        self.service: SchemaRegistry | None = None
        self.database: Database | None = None
        existing = environment.existing.registry
        if base.registry_user is None or existing is not None:
            tasks_cluster(self, environment=environment, vpc=base.network.vpc, name=environment.prefix)
            access = RegistryAccess(url=environment.registry_url, existing=existing)
            self.variables, self.statements = access.variables, access.statements(self)
        else:
            self._create(metrics, base.registry_user)

    def _create(self, metrics: Database, user: secretsmanager.ISecret) -> None:
        """Create the registry, and its database user before its tasks start: without it, they end."""
        environment, base = self._environment, self._base
        shared = {"environment": environment, "key": base.key}
        kind = environment.database.registry_instance_type
        database = self.database = (
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
        user_variables = {
            "REGISTRY_DATABASE_URL": database.administrator_address(REGISTRY_DATABASE),
            "REGISTRY_DATABASE_SECRET": database.administrator_secret,
            "REGISTRY_USER_SECRET": user.secret_arn,
        }
        # The registry refuses writes at the address of the functions.
        self.variables = {**user_variables, "SCHEMA_REGISTRY_URL": environment.registry.writes_url}
        self.statements = [
            *database.secret_statements(self),
            *read_secrets(self, user.secret_arn, key=base.key.key_arn),
        ]
        self.service = SchemaRegistry(
            self,
            place=base.network.place("registry"),
            balancer_place=base.network.place("registry-balancer"),
            database=database,
            user=user,
            access_log=access_log_bucket(self, environment=environment, key=base.key),
            **shared,
        )
        policy = iam.Policy(self, "provisioner-secrets", roles=[base.provisioner], statements=self.statements)
        task = provisioner_task(
            self, "registry-user", environment=environment, base=base, variables=user_variables, policy=policy
        )
        task.node.add_dependency(database, self.service.cluster)
        self.service.service.node.add_dependency(task.run())
